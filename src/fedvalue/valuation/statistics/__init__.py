"""What stands beside Shapley-CMI: data errors, the joint-table game and flags, with their kernels."""
