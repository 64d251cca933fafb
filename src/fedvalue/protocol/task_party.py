"""The task party's side of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.protocol import messages as m
from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.naming import label_name
from fedvalue.protocol.party import Party
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName
from fedvalue.protocol.work import Column

if TYPE_CHECKING:
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.typing import Codes


class TaskParty(Party):
    """The task party: holds X_t and Y, draws the run's key, sees all values.

    Args:
        settings: What was agreed.
        label: Code of Y per sample.
        codes: Code of X_t per sample, or None when it has no features.
        ids: Sample ids, in the order of the codes.
        credentials: Its keys.
    """

    role = RoleName.TASK_PARTY

    def __init__(
        self,
        settings: Settings,
        *,
        label: Codes,
        codes: Codes | None,
        ids: PackedIds,
        credentials: Credentials,
    ) -> None:
        own = np.zeros(settings.n_samples, dtype=np.int64) if codes is None else codes
        columns = [
            Column(settings.task, own, settings.n_task_codes),
            Column(label_name(settings), label, settings.n_label_codes),
        ]
        super().__init__(settings, settings.task, ids=ids, columns=columns, credentials=credentials)

    def _take_keys(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.KeyRoster)
        self._agreement.take_roster(message)
        run_key, wrapped = self._agreement.draw_run_key()
        return [self._to(self.settings.compute, wrapped), self._confirm(run_key)]
