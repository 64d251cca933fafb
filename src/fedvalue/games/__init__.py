"""Coalitions -> Shapley values, for any game. Knows no entropy."""
