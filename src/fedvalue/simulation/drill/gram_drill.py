"""`gram` under the drill: servers and parties that change one honest step each, alone or together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.federated.cast import Cast, CodedTables, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import Gram
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.gram_layout import N_CHECKS
from fedvalue.protocol.gram.prime_field import (
    PRIME,
    expanded,
    from_bytes,
    minus,
    plus,
    products,
    reduced,
    times,
    to_bytes,
)
from fedvalue.protocol.gram.row_sums import N_TRIALS
from fedvalue.protocol.gram.sign_noise import lines
from fedvalue.protocol.outcome import Answer
from fedvalue.simulation.drill.runner import DrillRow
from fedvalue.simulation.drill.vpsic_drill import uniform_tables

if TYPE_CHECKING:
    from fedvalue.protocol.gram.gram_opening import OpenedSums
    from fedvalue.protocol.gram.gram_sums import GramSums
    from fedvalue.protocol.gram.gram_upload import GramWork
    from fedvalue.protocol.gram.prime_field import Elements, Words
    from fedvalue.protocol.gram.sign_noise import OwnDraw

N_SAMPLES, N_PARTIES, N_CODES = 60, 3, 4

ServerCheat: TypeAlias = Callable[["GramSums"], None]
PartyCheat: TypeAlias = Callable[["GramWork"], None]

BAD_ROW = 7
"""The row that a party writes wrongly."""


def _changed(x: Any, by: int) -> int:
    return (int(x) + by) % PRIME


# Servers.


def _shifting(sums: GramSums, shifts: dict[int, int]) -> None:
    """Add to some cells of the sums."""
    honest = sums._summed

    def summed() -> OpenedSums:
        found = honest()
        cells = from_bytes(found.cells, (len(found.cells) // 4,), who="us").copy()
        for place, by in shifts.items():
            cells[place] = _changed(cells[place], by)
        return msgspec.structs.replace(found, cells=to_bytes(cells))

    sums._summed = summed  # type: ignore[method-assign]


def shift_a_sum(sums: GramSums) -> None:
    """Five persons more in one cell."""
    _shifting(sums, {2: 5})


def shift_a_sum_and_its_check(sums: GramSums) -> None:
    """The same, with a guess at the weight of the cell's column."""
    width = sums._layout.width
    _shifting(sums, {2: 5, width * (width + 1) // 2: 5 * 1234})


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


# Servers, about the noise of tables with the label.


def add_other_signs(sums: GramSums) -> None:
    """Another draw than its two keys give."""
    honest = sums._own_draw

    def own_draw() -> OwnDraw:
        draw = honest()
        return replace(draw, noise=draw.noise + 3)

    sums._own_draw = own_draw  # type: ignore[method-assign]


def add_other_signs_and_their_check(sums: GramSums) -> None:
    """The same, with a guess at the component of a check weight that it lacks."""
    add_other_signs(sums)
    changed = sums._own_draw

    def own_draw() -> OwnDraw:
        draw = changed()
        return replace(draw, masked=minus(draw.masked, np.full_like(draw.masked, 3 * 1234)))

    sums._own_draw = own_draw  # type: ignore[method-assign]


def answer_otherwise(sums: GramSums) -> None:
    """A false answer to the check of the signs about its own draw."""
    honest = sums._own_draw

    def own_draw() -> OwnDraw:
        draw = honest()
        return replace(draw, answer=bytes(4) + draw.answer[4:])

    sums._own_draw = own_draw  # type: ignore[method-assign]


def _changing_signs(sums: GramSums, change: Callable[[Elements, int], Elements]) -> None:
    """Other points of lines than the common key gives, in well-formed messages."""
    honest = sums._signs

    def signs() -> Iterator[m.GramSigns]:
        for message in honest():
            values = from_bytes(message.data, sums._plan.shape(message.index), who="us")
            data = memoryview(to_bytes(change(values, message.index)))
            digest = m.bulk_digest(message.index, message.total, message.salt, data)
            yield msgspec.structs.replace(message, digest=digest, data=data)

    sums._signs = signs  # type: ignore[method-assign]


def send_other_signs(sums: GramSums) -> None:
    """A point that is not on its line."""

    def change(values: Elements, index: int) -> Elements:
        values[0, 0, 0] = _changed(values[0, 0, 0], 1)
        return values

    _changing_signs(sums, change)


def send_signs_of_other_weights(sums: GramSums) -> None:
    """Lines at another place than the check weights that parties shared."""

    def change(values: Elements, index: int) -> Elements:
        slopes, _ = lines(sums._plan, sums._toss.noise_key(sums._held[1]), index)
        return plus(values, np.broadcast_to(slopes[:, None, :], values.shape))

    _changing_signs(sums, change)


def guess_anothers_draw(sums: GramSums, guess: int = 0) -> None:
    """Let the sums fit only if the next server's draw in the first cell is as guessed.

    Every point is moved by its slope, which moves a check by that draw; the guess is taken off its own share.
    """

    def change(values: Elements, index: int) -> Elements:
        slopes, _ = lines(sums._plan, sums._toss.noise_key(sums._held[1]), index)
        if index == 0:
            n_signs = len(sums._plan.weights)
            values[0, 0, :n_signs] = plus(values[0, 0, :n_signs], slopes[0, :n_signs])
        return values

    _changing_signs(sums, change)
    width = sums._layout.width
    row, _ = sums._plan.cells[0]
    _shifting(sums, {width * (width + 1) // 2 + N_CHECKS * int(row): -guess})


def multiply_by_other_signs(sums: GramSums) -> None:
    """Other signs than the common key gives, on points that it received."""
    honest = sums._add_signs

    def add_signs(signs: m.GramSigns) -> None:
        honest(signs)
        products = sums._lines.products
        products[0, 0] = _changed(products[0, 0], 1)

    sums._add_signs = add_signs  # type: ignore[method-assign]


# Parties.


def _writing(work: GramWork, change: Callable[[Words], Words]) -> None:
    """Another row in one place, with check columns that fit it."""
    honest = work._matrix

    def matrix(codes: Any) -> Words:
        z = honest(codes)[:, :-2].copy()
        z[BAD_ROW] = change(z[BAD_ROW])
        u = products(np.ascontiguousarray(z.T).astype(np.uint64), np.ascontiguousarray(work._secrets.rho.T))
        return np.concatenate([z, u.astype(np.uint32)], axis=1)

    work._matrix = matrix  # type: ignore[method-assign]


def count_a_person_twenty_times(work: GramWork) -> None:
    """An entry of 20: the person stands out from the noise."""
    _writing(work, lambda row: row * np.uint32(20))


def give_two_codes_at_once(work: GramWork) -> None:
    """Every code of the feature."""
    _writing(work, np.ones_like)


def give_no_code(work: GramWork) -> None:
    """A row of zeros."""
    _writing(work, np.zeros_like)


def balance_a_row(work: GramWork) -> None:
    """2 and -1: the row adds up to 1."""

    def change(row: Words) -> Words:
        balanced = np.zeros_like(row)
        balanced[:2] = 2, PRIME - 1
        return balanced

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


# The drill.


@dataclass(frozen=True, slots=True)
class GramScenario:
    """One way to cheat.

    Args:
        behaviour: Its name in the output.
        server: What one server does.
        party: What one data party does.
        predicted: Probability that it is detected.
    """

    behaviour: str
    server: ServerCheat | None = None
    party: PartyCheat | None = None
    predicted: float = 1.0


SCENARIOS = (
    GramScenario("shift a sum", shift_a_sum),
    GramScenario("shift a sum and its check", shift_a_sum_and_its_check),
    GramScenario("add noise of its own choice", add_other_noise),
    GramScenario("open other sums than committed to", open_other_sums),
    GramScenario("misreport the check of rows", misreport_rows),
    GramScenario("misreport the check of entries", misreport_entries),
    GramScenario("open another coin than committed to", open_another_coin),
    GramScenario("show the two others different coins", show_different_coins),
    GramScenario("add signs of its own choice", add_other_signs),
    GramScenario("add signs of its own choice and their check", add_other_signs_and_their_check),
    GramScenario("send other signs than agreed", send_other_signs),
    GramScenario("send signs of other check weights", send_signs_of_other_weights),
    GramScenario("guess another server's draw", guess_anothers_draw),
    GramScenario("multiply by other signs", multiply_by_other_signs),
    GramScenario("misreport the check of signs", answer_otherwise),
    GramScenario("party: count a person 20 times", None, count_a_person_twenty_times),
    GramScenario("party: give two codes at once", None, give_two_codes_at_once),
    GramScenario("party: give no code", None, give_no_code),
    GramScenario("party: entries 2 and -1", None, balance_a_row),
    GramScenario("party: check column that points at a person", None, point_at_a_person),
    GramScenario("party: reveal other weights", None, reveal_other_weights),
    GramScenario("party: split the upload", None, split_the_upload),
    GramScenario("party with a server: entries 2 and -1", forge_entries, balance_a_row, 0.0),
)
"""The last one is documented as not detected (decision 0321)."""


def gram_rows(*, trials: int, seed: int = 0) -> Iterator[DrillRow]:
    """Each way to cheat, by another server in every trial.

    Args:
        trials: Runs per row, each with its own table and secrets.
        seed: Seeds the tables.
    """
    for scenario in SCENARIOS:
        rng = np.random.default_rng([seed, trials])
        codes: Counter[str] = Counter()
        for trial in range(trials):
            tables = uniform_tables(N_SAMPLES, N_PARTIES, N_CODES, rng)
            codes[_trial(scenario, tables, trial)] += 1
        yield DrillRow.of("gram", scenario.behaviour, codes, hardened=True, predicted=scenario.predicted)


def spoilt(cast: Cast, scenario: GramScenario, number: int) -> None:
    """Let server `number` and the first data party cheat."""
    server: Any = cast.servers[number % len(cast.servers)]
    party: Any = cast.parties[0]
    if scenario.server is not None:
        _after(server, "_make_gram", scenario.server)
    if scenario.party is not None:
        _after(party, "_make_work", scenario.party)


def _after(role: Any, method: str, cheat: Any) -> None:
    honest = getattr(role, method)

    def made(*args: Any) -> Any:
        found = honest(*args)
        cheat(found)
        return found

    setattr(role, method, made)


def _trial(scenario: GramScenario, tables: CodedTables, number: int) -> str:
    """The code of the error that the run ends with, or "" where parties accepted the sums."""
    terms = make_terms(tables, Gram(epsilon="1"))
    cast = make_cast(terms, tables, ids=PackedIds.of_rows(N_SAMPLES), valuer=lambda *_: Answer({}, {}, ()))
    spoilt(cast, scenario, number)
    try:
        InProcessTransport(threads=1).run(cast.everyone())
    except (VerificationError, RemoteProtocolError) as error:
        return error.code or "E_PROTOCOL"
    return ""
