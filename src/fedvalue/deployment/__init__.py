"""Real participants on their own machines: identities, manifests, servers, parties, audit."""
