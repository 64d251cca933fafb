"""SHAP-ensemble: the reference valuation by trained models that the paper compares with (extra `paper`)."""

from __future__ import annotations

from fedvalue.paper.reference.accuracy import N_DRAWS, draw_rows, hold_out_accuracy, well_performing
from fedvalue.paper.reference.extra import require_paper_extra
from fedvalue.paper.reference.models import MODELS, fit_model
from fedvalue.paper.reference.valuation import ShapSize, feature_shap, party_shap, shap_ensemble

__all__ = [
    "MODELS",
    "N_DRAWS",
    "ShapSize",
    "draw_rows",
    "feature_shap",
    "fit_model",
    "hold_out_accuracy",
    "party_shap",
    "require_paper_extra",
    "shap_ensemble",
    "well_performing",
]
