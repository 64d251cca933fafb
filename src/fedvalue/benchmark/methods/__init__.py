"""The methods that are compared, one small class each; `method_registry` lists them by name."""
