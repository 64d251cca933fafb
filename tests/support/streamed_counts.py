"""The joint counts of files, streamed, without their valuation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedvalue.engines import HERE, Execution
from fedvalue.information.contingency import JointCounts
from fedvalue.local.file_layout import Layout
from fedvalue.local.passes import FilePasses
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.parts import BATCH_ROWS, Source


def count_files(
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    coding: CodingSettings | None = None,
    batch_rows: int = BATCH_ROWS,
    execution: Execution = HERE,
) -> JointCounts:
    """What `value_files` values."""
    layout = Layout.of(label=label, task=task, parties=parties, coding=coding)
    passes = FilePasses(layout, execution=execution, batch_rows=batch_rows)
    return passes.tabulate(passes.open(sources)).joint_counts()
