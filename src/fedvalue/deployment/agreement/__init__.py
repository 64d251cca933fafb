"""What participants agree on before a run: identities, cards and manifests on disk, in words, as settings."""
