"""What stands beside the values: errors, learnable values, interactions, flags; each with its kernels."""
