"""The parties' side of a run (interface; the body follows).

    DataParty(settings, name, *, codes, ids, credentials)
    TaskParty(settings, *, label, codes, ids, credentials)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.outcome import Outcome
from fedvalue.protocol.role import Role
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName, State

if TYPE_CHECKING:
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.typing import Codes


class Party(Role):
    """What the task party and the data parties share: key agreement, upload, checks, agreement.

    Refuses codes outside their range and a wrong number of rows in the constructor (InputError),
    before any byte is sent. Duplicate ids show when the ids are first hashed (InputError).
    """

    def __init__(self, settings: Settings, name: str, *, ids: PackedIds, credentials: Credentials) -> None:
        super().__init__(settings, name, first=State.KEYING)
        self._ids = ids
        self._credentials = credentials

    @property
    def outcome(self) -> Outcome | None:
        """What this party has learned; None until the state is DONE."""
        raise NotImplementedError


class DataParty(Party):
    """A data party: its codes stay here; what leaves is masked or encrypted."""

    role = RoleName.DATA_PARTY

    def __init__(
        self, settings: Settings, name: str, *, codes: Codes, ids: PackedIds, credentials: Credentials
    ) -> None:
        super().__init__(settings, name, ids=ids, credentials=credentials)
        self._codes = codes
