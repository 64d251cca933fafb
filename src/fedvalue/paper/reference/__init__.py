"""SHAP-ensemble: the reference valuation by trained models that the paper compares with (extra `paper`)."""

from __future__ import annotations

from fedvalue.paper.reference.models import (
    MODELS,
    N_DRAWS,
    draw_rows,
    fit_model,
    hold_out_accuracy,
    well_performing,
)
from fedvalue.paper.reference.shap_ensemble import ShapSize, feature_shap, party_shap, shap_ensemble

__all__ = [
    "MODELS",
    "N_DRAWS",
    "ShapSize",
    "draw_rows",
    "feature_shap",
    "fit_model",
    "hold_out_accuracy",
    "party_shap",
    "shap_ensemble",
    "well_performing",
]
