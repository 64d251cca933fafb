"""Load the compiled kernels before a run needs them, by a run of all roles on eight samples.

The first use of a kernel loads it from Numba's cache, or compiles it where the cache is cold. Inside a
run that would count against its deadlines, at every participant at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from fedvalue._version import __version__
from fedvalue.typing import Progress


def compile_everything(progress: Progress) -> None:
    """Compile the kernels of the protocols and of the largest tables, when a machine is set up."""
    from fedvalue.valuation.compilation import compile_kernels

    def after_the_protocols(done: float, total: float, note: str = "") -> None:
        progress(1.0 + done, 1.0 + total, note)

    progress(0.0, 4.0, "protocols")
    warm_up(values=True)
    compile_kernels(after_the_protocols)
    with suppress(OSError):  # kernels may be kept where no file of ours can be
        _stamp().touch()


def is_compiled() -> bool:
    """`compile_everything` has finished here for this version: a hint, not a guarantee."""
    return _stamp().exists()


def _stamp() -> Path:
    """A file beside the kernels."""
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__"
    return Path(folder) / f"fedvalue-{__version__}-py3{sys.version_info.minor}.compiled"


def warm_up(*, values: bool) -> None:
    """Run `mirror` in this process.

    Args:
        values: Also value the counts, as servers do.
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
