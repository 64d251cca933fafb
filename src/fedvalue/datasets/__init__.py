"""The paper's data sets, vertical splitters and synthetic data."""
