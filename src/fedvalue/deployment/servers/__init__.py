"""A server: many runs behind one gRPC service, each a journal in front of a role."""
