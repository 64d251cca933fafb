"""Servers and parties that cheat under `gram`: each changes one honest step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.prime_field import (
    PRIME,
    expanded,
    from_bytes,
    minus,
    products,
    reduced,
    times,
    to_bytes,
)
from fedvalue.protocol.gram.row_sums import N_TRIALS

if TYPE_CHECKING:
    from fedvalue.protocol.gram.gram_opening import OpenedSums
    from fedvalue.protocol.gram.gram_sums import GramSums
    from fedvalue.protocol.gram.gram_upload import GramWork
    from fedvalue.protocol.gram.prime_field import Elements, Words

ServerCheat: TypeAlias = Callable[["GramSums"], None]
PartyCheat: TypeAlias = Callable[["GramWork"], None]

BAD_ROW = 7
"""The row that a party writes wrongly."""


def _changed(x: Any, by: int) -> int:
    return (int(x) + by) % PRIME


# Servers.


def _changing_sums(sums: GramSums, change: Callable[[Elements], None]) -> None:
    honest = sums._summed

    def summed() -> OpenedSums:
        found = honest()
        cells = from_bytes(found.cells, (len(found.cells) // 4,), who="us").copy()
        change(cells)
        return msgspec.structs.replace(found, cells=to_bytes(cells))

    sums._summed = summed  # type: ignore[method-assign]


def shift_a_sum(sums: GramSums) -> None:
    """Five persons more in one cell."""

    def change(cells: Elements) -> None:
        cells[2] = _changed(cells[2], 5)

    _changing_sums(sums, change)


def shift_a_sum_and_its_check(sums: GramSums) -> None:
    """The same, with a guess at the weight of the cell's column."""
    width = sums._layout.width

    def change(cells: Elements) -> None:
        upper = width * (width + 1) // 2
        cells[2] = _changed(cells[2], 5)
        cells[upper] = _changed(cells[upper], 5 * 1234)

    _changing_sums(sums, change)


def add_other_noise(sums: GramSums) -> None:
    """Noise of its own choice in place of the common one."""
    honest = sums._noise
    sums._noise = lambda component: reduced(honest(component) + np.uint64(3))  # type: ignore[method-assign]


def open_other_sums(sums: GramSums) -> None:
    """Other sums than it committed to, chosen when the weights are known."""
    honest = sums._release

    def release() -> list[m.Envelope]:
        if sums._sums is not None and len(sums._tests) == len(sums._settings.servers):
            sums._sums = msgspec.structs.replace(sums._sums, cells=bytes(4) + sums._sums.cells[4:])
        return honest()

    sums._release = release  # type: ignore[method-assign]


def _changing_check(sums: GramSums, change: Callable[[m.GramCheck], m.GramCheck]) -> None:
    honest = sums._check

    def check() -> m.GramCheck:
        found = change(honest())
        sums._checks[sums._server] = found
        return found

    sums._check = check  # type: ignore[method-assign]


def misreport_rows(sums: GramSums) -> None:
    """A false value in the check that each row has one code per feature."""
    _changing_check(sums, lambda c: msgspec.structs.replace(c, sums=bytes(4) + c.sums[4:]))


def misreport_entries(sums: GramSums) -> None:
    """A false value in the check that entries are 0 or 1."""
    _changing_check(sums, lambda c: msgspec.structs.replace(c, entries=bytes(4) + c.entries[4:]))


def open_another_coin(sums: GramSums) -> None:
    """Another coin than it committed to, once it has seen the others'."""
    toss = sums._toss
    honest = toss._coin_part
    state = {"pledged": False}

    def coin_part() -> bytes:
        if not state["pledged"]:
            state["pledged"] = toss.all_declared and len(toss._pledges) == 2
            return honest()
        return bytes(32)

    toss._coin_part = coin_part  # type: ignore[method-assign]


def show_different_coins(sums: GramSums) -> None:
    """Another coin towards one of the two others, committed to and opened: they would check differently."""
    honest, victim, coin = sums.take, sums._toss.others[1], bytes(32)

    def changed(item: m.Envelope) -> m.Envelope:
        message = item.message
        if item.recipient == victim and isinstance(message, m.GramPledge):
            message = msgspec.structs.replace(message, coin=sums._toss._hash("coin", coin))
        elif item.recipient == victim and isinstance(message, m.GramCoin):
            message = msgspec.structs.replace(message, coin=coin)
        return msgspec.structs.replace(item, message=message)

    def take(sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        return [changed(item) for item in honest(sender, message)]

    sums.take = take  # type: ignore[method-assign]


def forge_entries(sums: GramSums) -> None:
    """With a party's help: take what its balanced row adds to the check of entries off again."""
    layout, party = sums._layout, sums._settings.parties[0]

    def change(check: m.GramCheck) -> m.GramCheck:
        shape = (N_TRIALS, len(layout.everybody))
        entries = from_bytes(check.entries, shape, who="us").copy()
        weights = expanded(sums._toss.coin, "gram-weights", (layout.rows(0), N_TRIALS), bytes(4))
        of_column = expanded(sums._toss.coin, "gram-columns", (N_TRIALS, layout.width))
        start = layout.columns_of(party).start
        # 2² - 2 and (-1)² + 1.
        excess = reduced(of_column[:, start] * np.uint64(2) + of_column[:, start + 1] * np.uint64(2))
        place = layout.everybody.index(party)
        entries[:, place] = minus(entries[:, place], times(weights[BAD_ROW], excess))
        return msgspec.structs.replace(check, entries=to_bytes(entries))

    _changing_check(sums, change)


# Parties.


def _writing(work: GramWork, change: Callable[[Words], None]) -> None:
    """Other rows, with check columns that fit them."""
    honest = work._matrix

    def matrix(codes: Any) -> Words:
        z = honest(codes)[:, :-2].copy()
        change(z)
        u = products(np.ascontiguousarray(z.T).astype(np.uint64), np.ascontiguousarray(work._secrets.rho.T))
        return np.concatenate([z, u.astype(np.uint32)], axis=1)

    work._matrix = matrix  # type: ignore[method-assign]


def count_a_person_twenty_times(work: GramWork) -> None:
    """An entry of 20: the person stands out from the noise."""

    def change(z: Words) -> None:
        z[BAD_ROW] *= 20

    _writing(work, change)


def give_two_codes_at_once(work: GramWork) -> None:
    """Every code of the feature."""

    def change(z: Words) -> None:
        z[BAD_ROW] = 1

    _writing(work, change)


def give_no_code(work: GramWork) -> None:
    """A row of zeros."""

    def change(z: Words) -> None:
        z[BAD_ROW] = 0

    _writing(work, change)


def balance_a_row(work: GramWork) -> None:
    """2 and -1: the row adds up to 1."""

    def change(z: Words) -> None:
        z[BAD_ROW] = 0
        z[BAD_ROW, 0], z[BAD_ROW, 1] = 2, PRIME - 1

    _writing(work, change)


def point_at_a_person(work: GramWork) -> None:
    """A check column that is off in one row: opened, the difference would be that person's codes."""
    honest = work._matrix

    def matrix(codes: Any) -> Words:
        rows = honest(codes).copy()
        rows[BAD_ROW, -1] = _changed(rows[BAD_ROW, -1], 1)
        return rows

    work._matrix = matrix  # type: ignore[method-assign]


def reveal_other_weights(work: GramWork) -> None:
    """Other weights than it shared: opened, the difference would be the noise."""
    honest = work.begin

    def begin() -> list[m.Envelope]:
        out = honest()
        rho = work._secrets.rho.copy()
        rho[0, 0] = _changed(rho[0, 0], 1)
        object.__setattr__(work._secrets, "rho", rho)
        return out

    work.begin = begin  # type: ignore[method-assign]


def split_the_upload(work: GramWork) -> None:
    """Sign other components for one server than for the others."""
    honest = work.begin

    def begin() -> list[m.Envelope]:
        return [_signed_again(work, item) for item in honest()]

    work.begin = begin  # type: ignore[method-assign]


def _signed_again(work: GramWork, item: m.Envelope) -> m.Envelope:
    message = item.message
    if item.recipient != work._settings.validate or not isinstance(message, m.GramDeclaration):
        return item
    # The component that this server does not hold, so that nothing shows before servers compare.
    digests = (bytes(32), *message.digests[1:])
    signature = keys.sign(work._credentials.signing_key, "gram-components", item.run_id, work._name, *digests)
    changed = msgspec.structs.replace(message, digests=digests, signature=signature)
    return msgspec.structs.replace(item, message=changed)
