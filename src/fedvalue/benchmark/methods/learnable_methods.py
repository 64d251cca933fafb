"""The learnable values: of `fedvalue.value`, and the games that it is, or was, made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.methods.coded_table import CodedTable, coded
from fedvalue.benchmark.methods.method import Estimate, Method, estimate_of_game

if TYPE_CHECKING:
    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable


class Learnable(Method):
    """What `fedvalue.value` reports as `learnable`, with its defaults."""

    name = "learnable"
    about = "learnable, as fedvalue.value reports it"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """Through the public function, as a user calls it."""
        import fedvalue

        label = np.char.add("class ", table.label.astype(np.str_))  # never an amount
        result = fedvalue.value(label=label, task=dict(table.task) or None, parties=table.parties)
        values = {party.name: float(party.learnable or 0.0) for party in result.parties}
        game = None if result.coalitions is None else result.coalitions.get("learnable")
        return Estimate(values, None if game is None else np.asarray(game))


class LearnableJoint(Method):
    """The learnable game of 0.1.0: leave-one-out information of joint tables, under a monotone envelope."""

    name = "learnable-0.1.0"
    about = "learnable of 0.1.0: joint tables, 5 equal-width bins"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """From the joint counts of one code per party."""
        from fedvalue.valuation.items import item_table
        from fedvalue.valuation.statistics.joint_table_game import coalition_games

        items = item_table(coded(table, "width").joint_counts())
        return estimate_of_game(table, coalition_games(items)[1])


class ColumnEvidence(Method):
    """Pooled evidence of feature columns alone, without the joint tables' game beside it."""

    name = "evidence-columns"
    about = "pooled evidence on feature columns, 5 quantile bins"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """A party is a group of columns."""
        return estimate_of_game(table, _game(_feature_columns(coded(table, "quantile"))))


class JointEvidence(Method):
    """Pooled evidence of one joint code per party."""

    name = "evidence-joint"
    about = "pooled evidence on joint codes, 5 quantile bins"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """A party is one column, the joint code of its features."""
        return estimate_of_game(table, _game(_joint_codes(coded(table, "quantile"))))


class MeanEvidence(Method):
    """The mean of both games of pooled evidence."""

    name = "evidence-mean"
    about = "mean of the two games of pooled evidence"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """Mean of both values of every coalition."""
        columns = coded(table, "quantile")
        return estimate_of_game(table, (_game(_feature_columns(columns)) + _game(_joint_codes(columns))) / 2)


def _feature_columns(columns: CodedTable) -> FeatureTable:
    from fedvalue.valuation.evidence.feature_table import FeatureTable

    return FeatureTable.from_columns(label=columns.label, task=columns.task, parties=columns.parties)


def _joint_codes(columns: CodedTable) -> FeatureTable:
    from fedvalue.valuation.evidence.feature_table import FeatureTable

    return FeatureTable.from_joint_codes(columns.joint_counts())


def _game(table: FeatureTable) -> Floats:
    from fedvalue.valuation.evidence.evidence_values import evidence_values

    game = evidence_values(table).every_coalition
    assert game is not None  # at most 12 parties
    return game
