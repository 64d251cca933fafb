"""The versions of this software, written here alone (decision 0416)."""

__version__ = "0.2.0.dev0"

PROTOCOL_VERSION = 4
"""Rises when old and new releases can no longer finish a run together: messages, order, what is signed."""

VALUES_VERSION = 4
"""Rises when the same tables and terms would give other values: coding, estimators, random orders."""
