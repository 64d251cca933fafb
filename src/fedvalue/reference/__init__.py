"""The paper's model-dependent reference: SHAP-ensemble."""
