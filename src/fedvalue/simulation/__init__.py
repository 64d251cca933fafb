"""Cheating roles, the drill that runs them, and the demonstration: every role its own process."""
