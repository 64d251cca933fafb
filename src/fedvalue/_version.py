"""The version of this software, written here alone."""

__version__ = "0.2.0.dev0"
