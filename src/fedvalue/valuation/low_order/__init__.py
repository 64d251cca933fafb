"""Learnable values from one-way and two-way tables alone, with or without noise in them.

1. `noisy_evidence`: what each column says about the label, by empirical Bayes that knows the noise.
2. `latent_table`: rows with these columns, and with the correlations that the pair tables show, shrunk.
3. `low_order_valuation`: pooled evidence on these rows, and errors that include noise and sampling.

Everything is a deterministic function of the tables and of public sizes: where noise was added to the
tables, all of it is post-processing and costs no privacy.
"""

from __future__ import annotations

ESTIMATOR = "low-order-evidence"
"""Name of the estimator, as results carry it."""

ESTIMATOR_VERSION = "2"
"""Rises whenever the same tables would get other values."""
