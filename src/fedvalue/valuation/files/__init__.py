"""Valuing files: columns that are streamed into counts, and states to which later rows are added."""
