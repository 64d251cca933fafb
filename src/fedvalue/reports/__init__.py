"""A result -> a view -> HTML and plots."""
