"""Numbers and sentences for people, shared by the terminal and the report.

Predicting a class is a decision, which can be wrong. An amount is predicted by its range, and a wrong range
is not a wrong decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.decisions.games import ADDITIVE, PAIRS, game_of, listing
from fedvalue.decisions.leaks import Leaks
from fedvalue.decisions.own_share import is_own_share
from fedvalue.valuation.statistics import guard

if TYPE_CHECKING:
    from fedvalue.decisions.acceptance import Acceptance
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.tables.column_report import ColumnCoding
    from fedvalue.valuation.result import PrivacyStatement, UpliftRow, Valuation

NAMES_SHOWN = 6
"""Names listed in a sentence; the table below it has all of them."""

FAR_MORE_ROWS = 100
"""Beyond this multiple of the rows of the result, sentences state no number of rows."""

PROTECTION = {
    None: "All columns were on one machine and were valued as plain tables. Nothing was hidden from that "
    "machine.",
    "single": "One server counted encrypted sets and was trusted to count honestly (protocol single). It saw "
    "no sample ids, codes or labels.",
    "paper": "Two servers counted encrypted sets with false samples among the real ones (protocol paper). A "
    "server that counts wrongly is detected with a probability that depends on the settings.",
    "vpsic": "One server counted encrypted ids with false ones among them, several times over (protocol "
    "vpsic). A server that reads from the counts how often ids were duplicated can lie undetected.",
    "mirror": "Every party sent masked codes to two servers, which counted independently and compared their "
    "answers (protocol mirror). Each server saw every row of the joint table under secret names, without "
    "ids; with public statistics about the same population it may guess what most columns and codes mean. If "
    "a single server cheats and the parties are honest, the comparison detects every number that it changes "
    "by more than the agreed grid (with noise: every count).",
    "gram": "Every party split its columns into random parts for three servers, which added up how often two "
    "codes occur together (protocol gram). No server saw a row or a sum. If a single server "
    "cheats and the parties are honest, this is detected.",
}
"""What each protocol protects."""

LABEL, TASK = "label", "task"
"""Owners of columns that are not data parties."""


def nats(value: float) -> str:
    """A value in nats, with enough digits to tell parties apart."""
    text = f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}"
    return (text.removeprefix("-") if float(text) == 0 else text).replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """An interval in nats, or nothing."""
    return "" if ends is None else f"{nats(ends[0])} to {nats(ends[1])}"


def percent(part: float) -> str:
    """A fraction as a percentage; small ones keep a digit, and a positive one is never 0%."""
    if 0 < part < 0.0005:
        return "<0.1%"
    if -0.0005 < part <= 0:
        return "0%"
    return (f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}").replace("-", "−")


def per_1000(number: float) -> str:
    """A number of cases per 1,000."""
    text = f"{number:.0f}" if abs(number) >= 9.95 else f"{number:.1f}"
    return "0" if float(text) == 0 else text.replace("-", "−")


def rows(number: int) -> str:
    """A number of rows with two significant digits."""
    scale = 10 ** max(len(str(number)) - 2, 0)
    return f"{-(-number // scale) * scale:,}"


def label_column(valuation: Valuation) -> ColumnCoding | None:
    """The coding of the label, if the result has it."""
    return next((column for column in valuation.columns if column.party == LABEL), None)


def label_of(valuation: Valuation) -> str:
    """Name of the label's column; empty if unknown, as for an array."""
    column = label_column(valuation)
    return "" if column is None or column.name == LABEL else column.name


@dataclass(frozen=True, slots=True)
class PredictionWords:
    """Phrases for right and wrong predictions of a label; `n_ranges` is 0 for classes."""

    label: str
    n_ranges: int = 0

    @classmethod
    def of(cls, valuation: Valuation) -> PredictionWords:
        """The words for the label of a result."""
        column = label_column(valuation)
        is_amount = column is not None and column.kind == "amount"
        return cls(label_of(valuation) or "the label", column.n_codes if column and is_amount else 0)

    @property
    def ranges(self) -> str:
        """Where the amounts fall."""
        return f"{self.n_ranges} ranges of {self.label}"

    @property
    def gained(self) -> str:
        """What a gain counts."""
        if self.n_ranges:
            return f"additional cases per 1,000 in the right one of {self.ranges}"
        return "wrong decisions avoided per 1,000 cases"

    @property
    def wrong(self) -> str:
        """What an error rate counts."""
        if self.n_ranges:
            return f"cases in a wrong range of {self.label} per 1,000"
        return "wrong decisions per 1,000"

    def gain(self, avoided: str, *, wrong: str, right: str, right_before: str) -> str:
        """A gain per 1,000 cases as a verb phrase for several parties."""
        if self.n_ranges:
            return f"put {right} instead of {right_before} of 1,000 cases into the right one of {self.ranges}"
        return f"avoid {avoided} of {wrong} wrong decisions per 1,000 cases"

    def measured(self, avoided: str, ending: str) -> str:
        """A measured gain as a verb phrase; `ending` is that of the verb."""
        if self.n_ranges:
            return f"put{ending} {avoided} more of 1,000 cases into the right one of {self.ranges}"
        return f"avoid{ending} {avoided} wrong decisions per 1,000 cases"


def decision(valuation: Valuation, selection: Selection) -> tuple[str, ...]:
    """The advice in a few sentences; the first one stands alone."""
    if valuation.learnable_total is None:
        return (
            "No advice: learnable values were not computed, and Shapley-CMI alone also counts what is "
            "memorised.",
        )
    if is_own_share(valuation):
        return _own_share(valuation)
    if valuation.label_entropy is not None and valuation.label_entropy <= 0:
        return (
            "Invite nobody: the columns that are already there determine the label in these rows.",
            "If one of them is known only afterwards, leave it out and value again.",
        )
    sentences = _unless_leaked(valuation, selection, _invitation(valuation, selection))
    if selection.unaffordable and selection.parties:
        names = _names(selection.unaffordable)
        sentences.append(f"The budget leaves no room for {names}, which would add more.")
    if selection.undecided and (selection.parties or selection.unaffordable):
        sentences.append(_undecided(valuation, selection))
    if selection.idle and (selection.parties or selection.undecided or selection.unaffordable):
        noun, verb = ("party", "adds") if len(selection.idle) == 1 else ("parties", "add")
        names = _names(selection.idle)
        sentences.append(f"The remaining {noun}, {names}, {verb} nothing worth mentioning.")
    n_relevant = len(selection.parties) + len(selection.undecided)
    if selection.basis == ADDITIVE and n_relevant > 1:
        sentences.append("This does not take into account that parties may overlap.")
    if selection.basis == PAIRS and n_relevant > 2:
        sentences.append("Overlap of three or more parties is taken into account only pair by pair.")
    return tuple(sentences)


def effect(valuation: Valuation, parties: Sequence[str]) -> str:
    """The gain of a model from these parties, as a plural verb phrase ("avoid 46 of 190 …")."""
    nobody = valuation.uplift_of(())
    chosen = valuation.uplift_of(parties)
    if nobody is None or valuation.privacy is not None:  # noise: the uplift has no intervals
        return _less_uncertainty(valuation, parties)
    if chosen is not None:
        return _gain(valuation, nobody, chosen) or _less_uncertainty(valuation, parties)
    everybody = valuation.uplift_of([party.name for party in valuation.parties])
    total = valuation.learnable_total or 0.0
    if everybody is None or total <= 0:
        return _less_uncertainty(valuation, parties)
    gain = _gain(valuation, nobody, everybody)
    part = _coalition(valuation, parties) / total
    together = f"bring {percent(min(part, 1.0))} of what all parties would"
    return together if gain is None else f"{together} (all would {gain})"


def acceptance_sentence(valuation: Valuation, outcome: Acceptance) -> str:
    """The outcome of a result's acceptance test, with the measured and the required gain."""
    parties, s = ("all parties together", "") if outcome.party is None else (f"{outcome.party} alone", "s")
    verdict = {"pass": "passed", "fail": "failed", "undecided": "undecided"}[outcome.verdict]
    number = {
        "errors_avoided_per_1000": per_1000, "auc_gain": lambda x: f"{x:.3f}", "log_loss_gain": nats,
    }[outcome.metric]  # fmt: skip
    if outcome.low is None or outcome.high is None:
        measured, sure = number(outcome.gain), ""
    else:
        measured, sure = f"{number(outcome.low)} to {number(outcome.high)}", " (95% interval)"
    does = {
        "errors_avoided_per_1000": PredictionWords.of(valuation).measured(measured, s),
        "auc_gain": f"raise{s} the AUC by {measured}",
        "log_loss_gain": f"lower{s} the log loss by {measured} nats",
    }[outcome.metric]
    text = f"Acceptance test {verdict}: {parties} {does}{sure}; required: at least {outcome.threshold:g}."
    if outcome.rows_needed is not None:
        text += f" About {rows(outcome.rows_needed)} rows would settle it."
    return text


def noise(statement: PrivacyStatement) -> str:
    """The privacy guarantee of a result with noise."""
    return (
        f"Noise of ±{statement.label_noise:.3g} persons was added to every count of a code with a label, and "
        f"of ±{statement.pair_noise:.3g} to every count of two codes. "
        f"Differentially private with epsilon {statement.epsilon:g} and delta {statement.delta:g}, for "
        f"{statement.adjacency}; against {statement.observer}. The intervals include the noise."
    )


def uncertainty(valuation: Valuation) -> float | None:
    """The task party's uncertainty about the label, in nats per row: out of sample if known."""
    if valuation.utility_name is not None:
        return None  # its values are not log losses
    nobody = valuation.uplift_of(())
    return valuation.label_entropy if nobody is None else nobody.log_loss


def uplift_name(valuation: Valuation, row: UpliftRow) -> str:
    """The parties of a row of the uplift, in words."""
    missing = [party.name for party in valuation.parties if party.name not in row.parties]
    return {
        "nobody": "nobody",
        "alone": f"{listing(row.parties)} alone",
        "all_but": f"all but {listing(missing)}",
        "all": "all parties" if len(row.parties) > 1 else listing(row.parties),
    }[row.role]


def flags(valuation: Valuation) -> list[tuple[list[str], str]]:
    """A sentence for each flag, with the parties that have it."""
    flagged: dict[str, list[str]] = {}
    for party in valuation.parties:
        for flag in party.flags:
            flagged.setdefault(flag, []).append(party.name)
    return [(names, guard.describe(flag)) for flag, names in flagged.items()]


def no_interval(valuation: Valuation) -> str:
    """Why Shapley-CMI has no interval, if all parties without one have the same reason; otherwise empty."""
    without = [party for party in valuation.parties if party.interval is None]
    reasons = {party.interval_reason for party in without}
    if len(reasons) != 1 or not all(reasons):
        return ""
    whose = "" if len(without) == len(valuation.parties) else " of " + listing([p.name for p in without])
    return f"Shapley-CMI{whose} has no interval: {reasons.pop()}."


def measure(valuation: Valuation) -> str:
    """A sentence on the leading number."""
    if valuation.utility_name is not None:
        return (
            f"The Shapley value of the utility “{valuation.utility_name}”, in its own unit. Its error is not "
            "known."
        )
    noisy = "" if valuation.privacy is None else ", the agreed noise included"
    return (
        "The learnable value: what a retrained model would gain, shared fairly among the parties, in nats "
        f"per row. The pale zone is its 95% interval{noisy}."
    )


def _invitation(valuation: Valuation, selection: Selection) -> str:
    names = selection.parties
    if not names:
        if selection.unaffordable:
            return (
                f"With a budget of {selection.budget:,}, nobody can be invited: it leaves no room for "
                f"{_names(selection.unaffordable)}, which would add to what can be predicted."
            )
        if selection.undecided:
            help = "helps" if len(selection.undecided) == 1 else "help"
            return (
                f"Invite nobody yet: {valuation.n_samples:,} rows cannot show whether "
                f"{_names(selection.undecided)} {help}; {_settling(valuation, selection)}."
            )
        add, them = ("adds", "it") if len(selection.steps) == 1 else ("add", "them")
        return (
            f"Invite nobody: {_names(selection.steps)} {add} nothing to what can be predicted without {them}."
        )
    whom, they = listing(names), "together they"
    gain = effect(valuation, names)
    if len(names) == 1:
        they, gain = "it", _singular(gain)
    elif len(names) > NAMES_SHOWN:
        whom = f"{len(names)} of the {len(selection.steps)} parties, above all {listing(names[:3])}"
    if selection.cost is None:
        return f"Invite {whom}: {they} {gain}."
    budget = "" if selection.budget is None else f"With a budget of {selection.budget:,}, i"
    return f"{budget or 'I'}nvite {whom} for {selection.cost:,}: {they} {gain}."


def _own_share(valuation: Valuation) -> tuple[str, ...]:
    """What a data party reads of its own result; whom to invite is not its decision."""
    (party,) = valuation.parties
    own = "" if party.learnable is None else f" is {nats(party.learnable)} nats per row"
    if party.learnable_interval is not None:
        own += f" (95% interval {interval(party.learnable_interval)})"
    total = valuation.learnable_total
    whole = "" if total is None else f"; that of all parties together is {nats(total)}"
    agreement = valuation.details.get("agreement")
    task = str(agreement.get("task", "")) if isinstance(agreement, dict) else ""
    return (
        f"The learnable value of {party.name}{own}{whole}.",
        f"Whom to invite is for {task or 'the task party'} to decide, from finer numbers.",
    )


def _unless_leaked(valuation: Valuation, selection: Selection, invitation: str) -> list[str]:
    """The invitation, after a warning if an invited party has a column that reproduces the label."""
    leaks = Leaks.of(valuation, selection.parties)
    if not leaks.columns:
        return [invitation]
    return [
        f"Do not invite {listing(leaks.parties, NAMES_SHOWN)} yet: {leaks.suspicion}.",
        f"{leaks.remedy[0].upper()}{leaks.remedy[1:]}; otherwise {invitation[0].lower()}{invitation[1:]}",
    ]


def _undecided(valuation: Valuation, selection: Selection) -> str:
    add = "adds" if len(selection.undecided) == 1 else "add"
    text = f"Whether {_names(selection.undecided)} {add} to that is undecided; "
    text += _settling(valuation, selection)
    together = selection.undecided_together
    if together is not None and together.verdict == "adds":
        text += "; all of them together clearly do"
    return f"{text}."


def _settling(valuation: Valuation, selection: Selection) -> str:
    if valuation.privacy is not None:
        return "the agreed noise hides it"
    needed = {step.party: step.adds.rows_needed for step in selection.undecided}
    far = FAR_MORE_ROWS * valuation.n_samples
    near = {party: number for party, number in needed.items() if number is not None and number <= far}
    if not near:
        return f"more than {FAR_MORE_ROWS} times as many rows would be needed to settle it"
    settle = f"about {rows(max(near.values()))} rows would settle it"
    if len(near) == len(needed):
        return settle
    names = listing(list(near), NAMES_SHOWN)
    return f"{settle} for {names}, and more than {FAR_MORE_ROWS} times as many as now for the rest"


def _names(steps: Sequence[Step]) -> str:
    return listing([step.party for step in steps], NAMES_SHOWN)


def _gain(valuation: Valuation, nobody: UpliftRow, chosen: UpliftRow) -> str | None:
    """More right predictions if that is clear; otherwise a better ranking of cases; otherwise None."""
    avoided, ends = chosen.errors_avoided_per_1000, chosen.errors_avoided_interval
    if avoided is not None and avoided >= 1 and ends is not None and ends[0] > 0:
        return PredictionWords.of(valuation).gain(
            per_1000(avoided),
            wrong=per_1000(1000 * (1 - nobody.accuracy)),
            right=per_1000(1000 * chosen.accuracy),
            right_before=per_1000(1000 * nobody.accuracy),
        )
    if chosen.ks is not None and chosen.auc is not None and nobody.auc is not None:
        better = round(100 * chosen.auc) - round(100 * nobody.auc)
        if better >= 1:
            return (
                f"rank cases better: of 100 pairs of cases with different labels, {100 * chosen.auc:.0f} "
                f"come in the right order instead of {100 * nobody.auc:.0f}"
            )
    return None


def _less_uncertainty(valuation: Valuation, parties: Sequence[str]) -> str:
    before, value = uncertainty(valuation) or 0.0, _coalition(valuation, parties)
    if before <= 0:
        total = valuation.learnable_total or 0.0
        by = "" if valuation.utility_name is None else f" by the utility “{valuation.utility_name}”"
        return f"bring {percent(min(value / total, 1.0) if total > 0 else 0.0)} of what all parties would{by}"
    part = value / before
    who = "it" if len(parties) == 1 else "them"
    return f"explain {percent(part)} of what cannot be predicted without {who}"


def _coalition(valuation: Valuation, parties: Sequence[str]) -> float:
    game = game_of(valuation)
    return game.value(sum(1 << game.names.index(name) for name in parties))


def _singular(phrase: str) -> str:
    """The verb phrase for one party."""
    verb, _, rest = phrase.partition(" ")
    return f"{verb}s {rest}"
