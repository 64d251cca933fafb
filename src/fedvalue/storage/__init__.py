"""Files that are written whole or not at all, SQLite databases and locks. Knows nothing of their content."""
