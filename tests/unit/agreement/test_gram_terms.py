"""`gram` in an agreement: what must be agreed on, what it says in words, and when it is recommended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedvalue.agreement.explanation import explain_terms
from fedvalue.agreement.manifest_rules import Terms, check_terms
from fedvalue.agreement.run_settings import privacy_of, server_limit, terms_of
from fedvalue.agreement.term_choices import GRAM_SAMPLES, chosen_bins, chosen_protocol
from fedvalue.errors import ConfigError, VerificationError
from tests.support.consortium import manifest, signed

NOISY: dict[str, Any] = {"protocol": "gram", "epsilon": "1"}
EXACT: dict[str, Any] = {"protocol": "gram", "policy": "counts", "exact_tables": True}


def words(**terms: Any) -> str:
    return " ".join(explain_terms(manifest(**terms)).split())


def test_three_servers_take_part_in_the_order_of_the_protocol():
    agreed = manifest(**NOISY)
    assert [server.name for server in agreed.servers] == ["compute", "validate", "assist"]
    assert terms_of(agreed).servers == ("compute", "validate", "assist")
    assert [server.name for server in manifest().servers] == ["compute", "validate"]
    assert [
        server.name for server in manifest(protocol="single", policy="counts", research=True).servers
    ] == ["compute"]


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"protocol": "gram"}, "needs an epsilon, or exact_tables = true"),
        ({**NOISY, "exact_tables": True, "policy": "counts"}, "needs an epsilon, or exact_tables = true"),
        ({**EXACT, "policy": "valuation"}, "with exact_tables needs policy 'counts'"),
        ({**NOISY, "policy": "counts"}, "epsilon needs protocol 'mirror' or 'gram' with policy 'valuation'"),
        ({"exact_tables": True}, "exact_tables is a term of protocol 'gram'"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(terms, problem):
    with pytest.raises(ConfigError, match=problem):
        manifest(**terms)


def test_the_assisting_server_belongs_to_gram_alone():
    agreed = manifest(**NOISY)
    with pytest.raises(ConfigError, match="no participant of role 'assist' is needed"):
        msgspec.structs.replace(agreed, protocol="mirror")
    rest = tuple(one for one in agreed.participants if one.role != "assist")
    with pytest.raises(ConfigError, match="exactly one participant of role 'assist' is needed"):
        msgspec.structs.replace(agreed, participants=rest)


def test_everybody_accepts_gram_with_noise_and_nobody_exact_tables_by_default():
    check_terms(manifest(**NOISY), Terms())
    with pytest.raises(VerificationError, match="policy 'counts' is not accepted here"):
        check_terms(manifest(**EXACT), Terms())
    check_terms(manifest(**EXACT), Terms(policies=("counts",)))
    with pytest.raises(VerificationError, match="without noise"):
        check_terms(manifest(**EXACT), Terms(policies=("counts",), exact=False))


def test_the_agreement_says_who_runs_the_servers_and_who_sees_what():
    text = words(**NOISY)
    for part in (
        "Assisting server: assist at 127.0.0.1:7001",
        "run by three different operators, none of them the task party",
        "No server sees a row, an id, a code or a count",
        "all of it with random noise that nobody knows",
        "also one cheating server together with any parties",
        "No server knows all of the noise, or any count",
    ):
        assert part in text
    assert "every row of the joint table" not in text
    assert "EVERY party learns how many samples have each pair of codes" in words(**EXACT)


def test_its_noise_is_drawn_three_times():
    """Of the three draws one is enough in pair tables and two are with the label; the one-way tables have two
    percent of the privacy. Signs come in whole numbers, and few columns lose a little more by them: 3%."""
    gram, mirror = (privacy_of(one, 1000, 2) for one in (manifest(**NOISY), manifest(epsilon="1")))
    assert gram is not None
    assert mirror is not None
    for variance, draws in (("label_variance", 1.5), ("pair_variance", 3)):
        found, single = getattr(gram, variance), float(getattr(mirror, variance))
        assert gram.total(found) == pytest.approx(draws * single / 0.98, rel=0.03)


def test_the_other_servers_wait_longer_than_the_computation_server():
    agreed = manifest(**NOISY)
    limits = [server_limit(agreed, role, "open") for role in ("compute", "validate", "assist")]
    assert limits == [3600, 10800, 10800]


def test_a_signed_manifest_of_gram_reads_back():
    one = signed(**NOISY)
    assert type(one).from_json(one.to_json()) == one
    assert not one.missing


@pytest.mark.parametrize(
    ("n", "third", "counts", "protocol", "why"),
    [
        (GRAM_SAMPLES, True, False, "gram", "three operators are available"),
        (GRAM_SAMPLES - 1, True, False, "mirror", "9,999 samples are too few"),
        (GRAM_SAMPLES, False, False, "mirror", "there are two operators"),
        (GRAM_SAMPLES, True, True, "mirror", "these terms need exact counts"),
    ],
)
def test_gram_is_recommended_to_three_operators_with_enough_samples(n, third, counts, protocol, why):
    choice = chosen_protocol(n, third_operator=third, needs_counts=counts)
    assert choice.protocol == protocol
    assert why in choice.why
    assert choice.why.count(". ") == 1  # two sentences
    assert choice.epsilon == ("1" if protocol == "gram" else None)


def test_numbers_get_more_bins_where_values_come_from_pairs_of_many_samples():
    """Decision 0320: five bins hid three quarters of a price index's worth."""
    assert chosen_bins(GRAM_SAMPLES, pair_tables=True) == 10
    assert chosen_bins(GRAM_SAMPLES - 1, pair_tables=True) == chosen_bins(10**7, pair_tables=False) == 5
