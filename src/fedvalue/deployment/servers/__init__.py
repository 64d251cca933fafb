"""A server's process: many runs, each a journal in front of a role, behind one gRPC service."""
