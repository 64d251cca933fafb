"""A party's table that is too large for memory: read in batches, kept on disk.

Ids, codes, notes and digest are those of the same table in memory (`party_input`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import terms_of
from fedvalue.crypto.ids import canonical_ids
from fedvalue.deployment.parties.party_input import coding_of
from fedvalue.deployment.parties.spooled_samples import Space, Spool, SpooledSamples
from fedvalue.protocol.settings import MAX_CODES, ColumnView
from fedvalue.tables.parts import BATCH_ROWS
from fedvalue.tables.party_stream import PartyStream
from fedvalue.tables.party_table import refuse_repeated_ids

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.config import TableConfig


def read_streamed(
    table: TableConfig, manifest: Manifest, features: tuple[str, ...], space: Space
) -> tuple[SpooledSamples, PartyStream]:
    """The samples of a table, and the stream that knows how its columns were coded.

    Raises:
        InputError: The table cannot be read or used.
        ScratchError: The folder has no space for the rows.
    """
    most_codes = None if manifest.research else max(1, manifest.n_samples // manifest.min_rows_per_code)
    if terms_of(manifest).columns is ColumnView.FEATURES:
        most_codes = MAX_CODES  # the gate is about each column and not about their combinations
    stream = PartyStream.open(
        table.source,
        id=table.id,
        features=features,
        label=table.label,
        settings=coding_of(table, manifest),
        most_codes=most_codes,
        batch_rows=BATCH_ROWS,
        options=table.file,
    )
    spool = Spool(space, stream.n_samples)
    for batch in stream.batches():
        spool.add(canonical_ids(batch.ids, fold_case=table.fold_case), batch.numbers)
    refuse_repeated_ids(table.id, spool.n_repeated(), stream.n_samples)
    own, *label = stream.columns
    samples = spool.samples(
        [column.ranks() for column in stream.columns],
        [column.counts() for column in stream.columns],
        [own.codebook(), *(None for _ in label)],
    )
    return samples, stream
