"""Who a participant is: signing keys, cards, TLS certificates, and the signed audit log."""
