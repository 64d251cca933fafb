"""The task party's side of a run (interface; the body follows)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.party import Party
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName

if TYPE_CHECKING:
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.typing import Codes


class TaskParty(Party):
    """The task party: holds X_t and Y, draws the run's key, sees all values."""

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
        super().__init__(settings, settings.task, ids=ids, credentials=credentials)
        self._label = label
        self._codes = codes
