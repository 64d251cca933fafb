"""Moves protocol messages between roles."""
