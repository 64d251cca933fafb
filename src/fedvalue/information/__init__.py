"""Joint counts -> entropies and conditional mutual information, in nats."""
