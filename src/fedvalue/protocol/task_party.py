"""The task party's side of a run."""

from __future__ import annotations

from fedvalue.protocol import messages as m
from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.mirror.naming import label_name
from fedvalue.protocol.party import Party
from fedvalue.protocol.samples import Samples
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName


class TaskParty(Party):
    """The task party: holds X_t and Y, draws the run's key, sees all values.

    Args:
        settings: What was agreed.
        samples: Its ids, and two columns: the code of X_t (all zero when it has no features) and of Y.
        credentials: Its keys.
    """

    role = RoleName.TASK_PARTY

    def __init__(self, settings: Settings, *, samples: Samples, credentials: Credentials) -> None:
        columns = {settings.task: settings.n_task_codes, label_name(settings): settings.n_label_codes}
        super().__init__(settings, settings.task, samples=samples, columns=columns, credentials=credentials)

    def _take_keys(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.KeyRoster)
        self._agreement.take_roster(message)
        run_key, wrapped = self._agreement.draw_run_key()
        return [self._to(self.settings.compute, wrapped), self._confirm(run_key)]
