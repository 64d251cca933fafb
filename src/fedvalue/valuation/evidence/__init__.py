"""Pooled evidence: the `learnable` value of a party from the columns that it holds.

Columns and pairs of columns give evidence about the label; a coalition pools the evidence of its columns;
its value is the log-likelihood that the pool gains on rows that it has not seen. What belongs here:
the feature table, its evidence, the pool, the game over parties, and what follows from the game.
Where the rows came from does not.

Every number is a function of the multiset of rows alone. It does not depend on how rows, codes or labels are
numbered, nor on the number of workers.
"""

from __future__ import annotations

ESTIMATOR = "pooled-evidence"
"""Name of the estimator, as results carry it."""

ESTIMATOR_VERSION = "1"
"""Rises whenever the same rows would get other values, and `VALUES_VERSION` with it."""
