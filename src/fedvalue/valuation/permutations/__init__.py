"""Shapley-CMI by sampled permutations; `sampling` has the theory and the way in."""
