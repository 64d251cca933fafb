"""The ledger of epsilon: charged once per run, on disk, by everybody who shares a person."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.deployment.config import DEFAULT_BUDGET, EXACT_RUNS, read_party_config
from fedvalue.deployment.parties import ledger as ledgers
from fedvalue.deployment.parties.ledger import Account, Allowance, Ledger
from fedvalue.deployment.parties.spooled_samples import Space, Spool
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.storage import database

ONE, THREE = Fraction(1), Fraction(3)


def people(start: int, stop: int) -> list[PackedIds]:
    """Persons in batches of seven."""
    names = [f"person-{k}" for k in range(start, stop)]
    return [canonical_ids(names[k : k + 7]) for k in range(0, len(names), 7)]


def run(number: int) -> bytes:
    return number.to_bytes(32, "big")


def up_to(budget: Fraction, exact_runs: int = EXACT_RUNS) -> Allowance:
    return Allowance(budget, exact_runs)


def noisy(account: Account) -> tuple[Fraction, int]:
    """Epsilon spent, and in how many runs."""
    spent = account.spent()
    return spent.epsilon, spent.noisy_runs


@pytest.fixture
def ledger(tmp_path):
    found = Ledger(tmp_path)
    yield found
    found.close()


def test_runs_add_up_and_the_one_too_many_is_refused_with_all_numbers(ledger):
    account = ledger.account(people(0, 10))
    for k in range(3):
        account.charge(run(k), ONE, up_to(THREE))
    with pytest.raises(
        VerificationError, match=r"spent epsilon 3 in 3 earlier runs.* needs 0.5 more.* budget is 3"
    ) as no:
        account.check(run(3), Fraction(1, 2), up_to(THREE))
    assert no.value.code == "E_BUDGET"
    with pytest.raises(VerificationError):
        account.charge(run(3), Fraction(1, 2), up_to(THREE))
    assert noisy(account) == (THREE, 3)
    assert len(ledger.entries()) == 3


def test_a_population_that_is_only_remembered_is_charged_with_nothing(ledger):
    account = ledger.account(people(0, 10))
    account.remember()
    account.remember()
    assert ledger.entries() == []
    assert noisy(ledger.account(people(5, 15))) == (0, 0)
    account.charge(run(0), ONE, up_to(THREE))
    assert noisy(ledger.account(people(5, 15))) == (ONE, 1)


def test_other_samples_under_a_charged_run_are_charged_too(ledger):
    """A journal that was lost lets a party begin the same run with another table: its persons pay as well."""
    ledger.account(people(0, 10)).charge(run(0), ONE, up_to(THREE))
    others = ledger.account(people(20, 30))
    others.charge(run(0), ONE, up_to(THREE))
    others.charge(run(0), ONE, up_to(THREE))
    assert noisy(others) == (ONE, 1)
    with pytest.raises(VerificationError, match="spent epsilon 2 in 2 earlier runs"):
        ledger.account(people(5, 25)).check(run(0), ONE, up_to(THREE - ONE))


def test_a_ledger_is_not_left_behind_because_other_files_have_another_form(tmp_path, monkeypatch):
    """What was spent stays spent when a new version needs a new state folder for everything else."""
    old = Ledger(tmp_path)
    old.account(people(0, 50)).charge(run(1), Fraction(2), up_to(Fraction(3)))
    old.close()
    monkeypatch.setattr(database, "FORMAT", 2)
    again = Ledger(tmp_path)
    assert noisy(again.account(people(0, 50))) == (Fraction(2), 1)
    again.close()


def test_a_tenth_is_a_tenth(ledger):
    """Three runs of 0.1 fit into 0.3, which they do not in binary fractions."""
    account = ledger.account(people(0, 10))
    for k in range(3):
        account.charge(run(k), Fraction("0.1"), up_to(Fraction("0.3")))
    assert noisy(account) == (Fraction(3, 10), 3)


def test_the_same_run_is_charged_once_also_after_a_restart(tmp_path):
    for _ in range(3):
        ledger = Ledger(tmp_path)
        account = ledger.account(people(0, 10))
        account.check(run(1), ONE, up_to(ONE))
        account.charge(run(1), ONE, up_to(ONE))
        ledger.close()
    again = Ledger(tmp_path)
    assert noisy(again.account(people(0, 10))) == (ONE, 1)
    again.close()


def test_the_order_of_ids_does_not_matter(ledger):
    ledger.account(people(0, 10)).charge(run(1), ONE, up_to(THREE))
    shuffled = [canonical_ids([f"person-{k}" for k in reversed(range(10))])]
    assert noisy(ledger.account(shuffled)) == (ONE, 1)
    assert len({entry.population for entry in ledger.entries()}) == 1


def test_leaving_out_a_row_does_not_open_a_new_account(ledger):
    """Runs on n and n - 1 rows are about the same persons (attack A12)."""
    ledger.account(people(0, 10)).charge(run(1), ONE, up_to(THREE))
    ledger.account(people(0, 9)).charge(run(2), ONE, up_to(THREE))
    ledger.account(people(9, 20)).charge(run(3), ONE, up_to(THREE))
    assert noisy(ledger.account(people(0, 10))) == (THREE, 3)
    assert noisy(ledger.account(people(0, 9))) == (Fraction(2), 2)
    assert noisy(ledger.account(people(20, 30))) == (Fraction(0), 0)


def test_of_two_runs_at_once_the_second_sees_the_first(tmp_path):
    """Two processes of one party, here two connections: only one of them can have the last epsilon."""
    ends: list[str] = []

    def spend(number: int) -> None:
        ledger = Ledger(tmp_path)
        try:
            ledger.account(people(0, 10)).charge(run(number), ONE, up_to(ONE))
            ends.append("spent")
        except VerificationError as error:
            ends.append(error.code)
        finally:
            ledger.close()

    Ledger(tmp_path).close()
    threads = [threading.Thread(target=spend, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["E_BUDGET", "spent"]


def test_no_id_stands_in_the_file_and_nobody_else_can_read_it(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.account(people(0, 50)).charge(run(1), ONE, up_to(THREE))
    ledger.close()
    path = tmp_path / "ledger.sqlite"
    assert b"person" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_table_on_disk_has_the_account_of_the_same_table_in_memory(ledger, tmp_path):
    """A party whose rows do not fit into memory is charged like any other."""
    spool = Spool(Space(tmp_path, 1 << 20), 30)
    for batch in people(0, 30):
        spool.add(batch, [np.zeros(len(batch), dtype=np.int64)])
    samples = spool.samples([np.zeros(1, dtype=np.int64)], [np.array([30])])
    ledger.account(samples.ids_in_batches()).charge(run(1), ONE, up_to(THREE))
    assert noisy(ledger.account(people(0, 30))) == (ONE, 1)
    ledger.account(people(0, 30)).charge(run(2), ONE, up_to(THREE))
    assert len({entry.population for entry in ledger.entries()}) == 1


def config(folder: Path, privacy: str = "") -> Path:
    path = folder / "party.toml"
    path.write_text(
        'identity = "i"\npeers = "p"\nstate = "s"\nmanifest = "m"\n[table]\nsource = "t.csv"\nid = "id"\n'
        + privacy
    )
    return path


def test_exact_runs_are_counted_and_the_one_too_many_is_refused(ledger):
    """Review, finding 9. The old rule charged runs with an epsilon only: exact ones went on without end."""
    account = ledger.account(people(0, 10))
    for k in range(EXACT_RUNS):
        account.charge(run(k), None, up_to(THREE))
        account.charge(run(k), None, up_to(THREE))  # the same run again is the same run
    for refuse in (account.check, account.charge):
        with pytest.raises(
            VerificationError, match=r"5 earlier runs released exact values.* limit is 5.* raise exact_runs"
        ) as no:
            refuse(run(99), None, up_to(THREE))
        assert no.value.code == "E_BUDGET"
    account.check(run(0), None, up_to(THREE))  # one that was charged may continue
    account.check(run(99), None, up_to(THREE, exact_runs=6))
    with pytest.raises(VerificationError):
        ledger.account(people(20, 30)).check(run(99), None, up_to(THREE, exact_runs=0))
    with pytest.raises(VerificationError):  # one person of the ten, and nine strangers
        ledger.account(people(9, 19)).check(run(99), None, up_to(THREE))
    ledger.account(people(10, 20)).check(run(99), None, up_to(THREE))


def test_exact_runs_and_runs_with_noise_have_limits_of_their_own(ledger):
    account = ledger.account(people(0, 10))
    account.charge(run(0), None, up_to(THREE))
    account.charge(run(1), ONE, up_to(THREE))
    spent = account.spent()
    assert (spent.epsilon, spent.noisy_runs, spent.exact_runs) == (ONE, 1, 1)
    assert [entry.epsilon for entry in ledger.entries()] == [None, ONE]


@pytest.mark.parametrize("batch", [1, 3, 1 << 20])
def test_one_common_id_is_found_wherever_it_lies(ledger, monkeypatch, batch):
    monkeypatch.setattr(ledgers, "_BATCH", batch)
    for k in range(10):
        ledger.account(people(100 * k, 100 * k + 10)).charge(run(k), None, up_to(THREE))
    for k in range(10):
        assert ledger.account(people(100 * k + 9, 100 * k + 20)).spent().exact_runs == 1
        assert ledger.account(people(100 * k + 10, 100 * k + 20)).spent().exact_runs == 0


def test_the_number_of_exact_runs_is_a_key_of_the_configuration(tmp_path):
    assert read_party_config(config(tmp_path)).privacy.exact_runs == EXACT_RUNS
    assert read_party_config(config(tmp_path, "[privacy]\nexact_runs = 0\n")).privacy.exact_runs == 0
    with pytest.raises(ConfigError, match=r"privacy\.exact_runs"):
        read_party_config(config(tmp_path, "[privacy]\nexact_runs = -1\n"))


def test_the_budget_is_a_key_of_the_configuration(tmp_path):
    assert read_party_config(config(tmp_path)).privacy.epsilon_budget == DEFAULT_BUDGET == 3
    for written, meant in (("0.1", Fraction(1, 10)), ("2", Fraction(2)), ("0", Fraction(0))):
        read = read_party_config(config(tmp_path, f"[privacy]\nbudget = {written}\n"))
        assert read.privacy.epsilon_budget == meant


@pytest.mark.parametrize("written", ["-1", "inf", "nan", "true", '"3"'])
def test_a_budget_that_is_none_is_refused(tmp_path, written):
    with pytest.raises(ConfigError, match=r"privacy\.budget: expected `float`"):
        read_party_config(config(tmp_path, f"[privacy]\nbudget = {written}\n"))


def test_a_party_can_refuse_values_without_noise(tmp_path):
    assert read_party_config(config(tmp_path)).accept.exact
    assert not read_party_config(config(tmp_path, "[accept]\nexact = false\n")).accept.exact
