"""The identity of a participant: signing keys, cards, TLS certificates, and the signed audit log."""
