"""Loading the compiled kernels before anybody waits for them, by a run of all roles on eight samples.

The first use of a kernel loads it from Numba's cache, or compiles it where the cache is cold. Inside a
run that would count against its deadlines, at every participant at once.
"""

from __future__ import annotations


def warm_up(*, values: bool) -> None:
    """Run `mirror` in this process.

    Args:
        values: Whether to value the counts as well, as servers do.
    """
    import numpy as np

    from fedvalue.crypto.ids import PackedIds
    from fedvalue.federated.cast import CodedTables, make_cast, make_terms
    from fedvalue.federated.in_process import InProcessTransport
    from fedvalue.federated.options import Mirror
    from fedvalue.federated.valuers import make_valuer
    from fedvalue.tables.party_table import PartyTable
    from fedvalue.valuation.settings import ValuationSettings

    samples = np.arange(8)
    label, task, *parties = (
        PartyTable(name=name, codes=codes, n_codes=2)
        for name, codes in (
            ("label", samples % 2), ("task", samples // 2 % 2), ("a", samples // 4), ("b", samples[::-1] % 2),
        )
    )  # fmt: skip
    tables = CodedTables(label, parties, task)
    terms = make_terms(tables, Mirror(policy="valuation" if values else "counts"))
    valuer = make_valuer(ValuationSettings())
    cast = make_cast(terms, tables, ids=PackedIds.of_rows(len(samples)), valuer=valuer)
    InProcessTransport(threads=1).run(cast.everyone())
