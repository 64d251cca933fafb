"""Real participants on their own machines: I/O, storage, threads and deadlines around `protocol`'s roles."""
