"""Whole federated runs in one process, and the valuation that servers apply to their counts."""
