"""The federated protocols as pure state machines. No sockets, files, clocks or threads."""
