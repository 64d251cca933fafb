"""Statistics beside Shapley-CMI: its data errors, the joint-table game and flags."""
