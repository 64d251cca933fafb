"""Sample ids in one canonical form, packed end to end in one buffer.

Two parties mean the same person only if their ids become the same bytes. The rule is declared in
the settings of both: Unicode NFC, trimmed, and by choice case-folded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class PackedIds:
    """Ids as bytes: id k is data[offsets[k]:offsets[k + 1]]."""

    data: NDArray[np.uint8] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1
