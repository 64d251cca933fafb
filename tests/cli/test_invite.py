"""`fedvalue invite`, `accept`, `join` and `run` without a network: what is shown, kept and refused."""

from __future__ import annotations

import datetime as dt
import io
import shutil
import sys
from pathlib import Path
from unittest import mock

import pytest
from msgspec.structs import replace

from fedvalue.deployment.home import Home, read_invitation
from fedvalue.identity.identity_files import read_identity
from fedvalue.invitation.invitation import Invitation
from tests.cli.here import fedvalue_here
from tests.cli.runner import Ran

INVITE = (
    "invite", "--as", "bank", "--party", "telco", "--party", "shop", "--samples", "300",
    "--purpose", "a test", "--compute", "127.0.0.1:1", "--validate", "127.0.0.1:2",
)  # fmt: skip


@pytest.fixture(scope="module")
def bank(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bank")
    done = fedvalue_here(*INVITE, cwd=folder)
    assert done.code == 0, done.err
    assert "Purpose: a test" in done.out
    assert "Send it to shop, telco, compute, validate like a password" in done.err
    return folder


def accept(folder: Path, invitation: Path, *arguments: str) -> Ran:
    return fedvalue_here("accept", invitation, *arguments, cwd=folder)


def test_an_invitation_is_private_and_makes_the_identity_of_the_task_party(bank):
    invitation = bank / "invitation.txt"
    assert invitation.stat().st_mode & 0o777 == 0o600
    card = read_identity(bank / "fedvalue" / "identity").card
    assert (card.consortium, card.role, card.name) == ("bank", "task", "bank")
    assert read_invitation(invitation).card == card
    again = fedvalue_here(*INVITE, cwd=bank)
    assert again.code == 4
    assert "is not overwritten" in again.err


def test_doctor_after_an_invitation_warns_and_does_not_fail(bank):
    """Cards are pinned later, when everybody has signed: their absence is no fault yet."""
    done = fedvalue_here("doctor", cwd=bank)
    assert done.code == 0, done.out
    assert "warn  cards            no card is pinned" in done.out
    assert "not everybody has signed yet" in done.out
    assert "-> Ask the operators of compute, validate to accept and to start their servers." in done.out
    assert (
        "warn  server compute   server 'compute' cannot be reached: nothing listens at 127.0.0.1:1"
        in done.out
    )
    assert done.err.endswith("warnings\n")


def test_doctor_checks_the_terms_of_an_open_invitation(bank, tmp_path):
    """They were checked again only after everybody had signed."""
    shutil.copytree(bank / "fedvalue", tmp_path / "fedvalue")
    (tmp_path / "fedvalue" / "accept.toml").write_text("exact = false\n")
    done = fedvalue_here("doctor", cwd=tmp_path)
    assert done.code == 4
    (refused,) = [line for line in done.out.splitlines() if line.startswith("fail")]
    assert refused.startswith("fail  agreement ")
    assert "[E_MANIFEST]" in refused
    assert "-> ask the task party for other terms" in done.out


def test_an_agreement_of_another_release_does_not_keep_the_others_from_being_seen(bank, tmp_path):
    """Found after an upgrade: one old file ended `status` and `doctor` with an error."""
    old = tmp_path / "fedvalue" / "agreements" / "000000000000"
    shutil.copytree(bank / "fedvalue", tmp_path / "fedvalue")
    shutil.copytree(next((bank / "fedvalue" / "agreements").iterdir()), old)
    (old / "manifest.json").write_text('{"manifest": {"schema": "fedvalue.manifest/1"}, "signatures": {}}')
    shown = fedvalue_here("status", "--offline", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert shown.out.count("collecting answers") == 1
    found = fedvalue_here("doctor", cwd=tmp_path)
    assert found.code == 0, found.out
    assert "000000000000 is not used: " in found.out
    assert "[E_VERSION]" in found.out


def test_status_of_an_invitation_names_the_next_step(bank, tmp_path):
    shown = fedvalue_here("status", "--offline", cwd=bank).out
    assert "stage     collecting answers to the invitation" in shown
    assert "next      Start `fedvalue run`, unless it is running already" in shown
    assert accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes").code == 0
    assert "next      Start `fedvalue serve compute`" in fedvalue_here("status", cwd=tmp_path).out
    assert " port             " in fedvalue_here("doctor", cwd=tmp_path).out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--party", "telco"), "two participants have the same name"),
        (("--samples", "0"), "n_samples must be an integer from 1"),
        (("--compute", "nowhere"), "must be host:port"),
        (("--party", "Big Corp"), "lower-case letters"),
        (("--days", "9999"), "days must be from 1"),
    ],
)
def test_a_wrong_invitation_leaves_nothing_behind(tmp_path, change, words):
    arguments = list(INVITE)
    if change[0] in arguments and change[0] != "--party":
        arguments[arguments.index(change[0]) + 1] = change[1]
    else:
        arguments += change
    done = fedvalue_here(*arguments, cwd=tmp_path)
    assert done.code == 4
    assert words in done.err
    assert not list(tmp_path.iterdir())


def test_an_operator_accepts_and_is_told_the_next_step(bank, tmp_path):
    done = accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes")
    assert done.code == 0, done.err
    assert "INVITATION " in done.out
    assert "from bank, to compute (compute)" in done.out
    assert "Purpose: a test" in done.out
    assert "Next: fedvalue serve compute" in done.err
    home = Home(tmp_path / "fedvalue")
    assert home.agreement().progress.seat == "compute"
    for secret in ("invitation.txt", "progress.json"):
        assert (home.agreement().folder / secret).stat().st_mode & 0o777 == 0o600
    again = accept(tmp_path, bank / "invitation.txt", "--yes")  # the name is known by now
    assert again.code == 0
    assert len(home.agreements()) == 1


def test_an_operator_who_has_accepted_may_do_so_again_after_the_invitation_has_expired(
    bank, tmp_path, monkeypatch
):
    """A container accepts at every start; a week later its server must still start."""
    assert accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes").code == 0
    monkeypatch.setattr(Invitation, "check_now", mock.Mock(side_effect=AssertionError("asked for the time")))
    again = accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes")
    assert (again.code, again.err) == (0, "Accepted before as compute.\n")


def test_the_terms_are_shown_before_anything_is_asked_or_made(bank, tmp_path):
    done = accept(tmp_path, bank / "invitation.txt", "--as", "compute")
    assert done.code == 4
    assert "Purpose: a test" in done.out
    assert "add --yes" in done.err
    assert not (tmp_path / "fedvalue").exists()


def test_no_is_no(bank, tmp_path):
    class Person(io.StringIO):
        def isatty(self) -> bool:
            return True

    with mock.patch.object(sys, "stdin", Person("n\n")):
        done = accept(tmp_path, bank / "invitation.txt", "--as", "compute")
    assert done.code != 0
    assert not (tmp_path / "fedvalue").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name your seat with --as; the seats are shop (data), telco (data), compute (compute)"),
        (("--as", "nobody"), "the invitation has no seat 'nobody'; its seats are bank, shop, telco"),
        (("--as", "bank"), "'bank' has made this invitation"),
    ],
)
def test_a_seat_must_be_named_and_exist(bank, tmp_path, arguments, words):
    done = accept(tmp_path, bank / "invitation.txt", *arguments, "--yes")
    assert (done.code, "[E_INVITATION]" in done.err) == (4, True)
    assert words in done.err
    assert not (tmp_path / "fedvalue").exists()


def test_an_expired_invitation_is_refused(bank, tmp_path):
    one = read_invitation(bank / "invitation.txt")
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=8)
    terms = {**one.terms, "created": f"{past:%Y-%m-%dT%H:%M:%SZ}"}
    terms["expires"] = f"{past + dt.timedelta(days=7):%Y-%m-%dT%H:%M:%SZ}"
    late = replace(one, terms=terms, signature=b"")
    identity = read_identity(bank / "fedvalue" / "identity")
    late = replace(late, signature=identity.sign("invitation", late._content()))
    (tmp_path / "late.txt").write_text(late.to_text())
    done = accept(tmp_path, tmp_path / "late.txt", "--as", "compute", "--yes")
    assert (done.code, "[E_INVITATION]" in done.err) == (7, True)
    assert "ask 'bank' for a new one" in done.err


def test_an_altered_or_damaged_invitation_is_refused(bank, tmp_path):
    one = read_invitation(bank / "invitation.txt")
    altered = replace(one, terms={**one.terms, "purpose": "another"})
    (tmp_path / "altered.txt").write_text(altered.to_text())
    done = accept(tmp_path, tmp_path / "altered.txt", "--as", "compute", "--yes")
    assert (done.code, "was altered" in done.err) == (7, True)
    (tmp_path / "cut.txt").write_text(one.to_text()[:500])
    assert accept(tmp_path, tmp_path / "cut.txt", "--as", "compute", "--yes").code == 4
    assert accept(tmp_path, tmp_path / "missing.txt", "--as", "compute", "--yes").code == 4


def test_terms_beyond_the_own_limits_are_refused(bank, tmp_path):
    (tmp_path / "fedvalue").mkdir()
    (tmp_path / "fedvalue" / "accept.toml").write_text('exact = false\nalign = ["equal"]\n')
    done = accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes")
    assert done.code == 7
    assert "values without noise (no epsilon) are not accepted here" in done.err
    (tmp_path / "fedvalue" / "accept.toml").write_text("exakt = false\n")
    wrong = accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes")
    assert wrong.code == 4
    assert "accept.toml" in wrong.err


def test_a_home_belongs_to_one_participant(bank, tmp_path):
    assert accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes").code == 0
    done = accept(tmp_path, bank / "invitation.txt", "--as", "validate", "--yes")
    assert (done.code, "[E_IDENTITY]" in done.err) == (4, True)
    assert "choose another folder with --home" in done.err


def test_join_and_run_name_what_is_missing(bank, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("id,x\n1,2\n")
    done = fedvalue_here("join", "--table", rows, "--id", "id", cwd=tmp_path)
    assert (done.code, "run `fedvalue accept INVITATION` first" in done.err) == (4, True)
    done = fedvalue_here("join", "--id", "id", cwd=tmp_path)
    assert (done.code, "--table" in done.err) == (3, True)
    done = fedvalue_here("run", "--table", tmp_path / "none.csv", "--id", "id", cwd=tmp_path)
    assert (done.code, "none.csv" in done.err) == (3, True)
    both = ("--words", "a b c d e f", "--skip-words")
    done = fedvalue_here("run", "--table", rows, "--id", "id", "--label", "x", *both, cwd=bank)
    assert (done.code, "cannot be used together" in done.err) == (3, True)


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        (
            "run",
            ("--id", "custmer", "--label", "late"),
            "column 'custmer' not found; did you mean 'customer'?",
        ),
        ("run", ("--id", "customer", "--label", "lat"), "column 'lat' not found; did you mean 'late'?"),
        ("run", ("--id", "customer"), "needs table.label"),
        ("join", ("--id", "customer", "--features", "agee"), "column 'agee' not found"),
        ("join", ("--id", "customer", "--categorical", "agee"), "column 'agee' not found"),
    ],
)
def test_a_wrong_column_is_refused_before_anybody_is_waited_for(bank, tmp_path, command, options, words):
    rows = tmp_path / "rows.csv"
    rows.write_text("customer,age,late\n1,2,0\n")
    with mock.patch("fedvalue.deployment.parties.accepting.agree", side_effect=AssertionError("waited")):
        done = fedvalue_here(command, "--table", rows, *options, cwd=bank)
    assert done.code in (3, 4), done.err
    assert words in done.err


def test_doctor_checks_the_columns_before_everybody_has_signed(bank, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("customer,age,late\n1,2,0\n")
    bad = fedvalue_here("doctor", "--table", rows, "--id", "custmer", "--label", "late", cwd=bank)
    assert bad.code == 4
    assert "fail  table" in bad.out
    assert "did you mean 'customer'?" in bad.out
    good = fedvalue_here("doctor", "--table", rows, "--id", "customer", "--label", "late", cwd=bank)
    assert good.code == 0, good.out
    assert "ok    table            has the named columns, features: age;" in good.out


def test_serve_refuses_the_home_of_a_party_and_a_malformed_address(bank, tmp_path):
    done = fedvalue_here("serve", "compute", cwd=bank)
    assert (done.code, "'bank' has role 'task' in fedvalue and runs no server" in done.err) == (4, True)
    assert accept(tmp_path, bank / "invitation.txt", "--as", "compute", "--yes").code == 0
    done = fedvalue_here("serve", "compute", "--listen", "nowhere", cwd=tmp_path)
    assert (done.code, "--listen: listen must be host:port, got 'nowhere'" in done.err) == (4, True)


def test_intersect_is_a_term_that_everybody_sees(tmp_path):
    """Problem 18 of the first review: it was a switch in six files."""
    done = fedvalue_here(*INVITE, "--align", "intersect", cwd=tmp_path)
    assert done.code == 0, done.err
    (tmp_path / "operator").mkdir()
    seen = accept(tmp_path / "operator", tmp_path / "invitation.txt", "--as", "compute", "--yes")
    assert seen.code == 0, seen.err
    assert "The servers learn how the encrypted ids overlap" in " ".join(seen.out.split())


def test_a_third_server_has_a_seat_of_its_own(tmp_path):
    arguments = [*INVITE, "--assist", "127.0.0.1:9", "--assist-name", "umpire"]
    arguments[arguments.index("--samples") + 1] = "20000"
    done = fedvalue_here(*arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "Protocol gram, because three operators are available" in done.err
    assert "Assisting server: umpire at 127.0.0.1:9" in done.out
    guest = tmp_path / "guest"
    guest.mkdir()
    accepted = accept(guest, tmp_path / "invitation.txt", "--as", "umpire", "--yes")
    assert accepted.code == 0, accepted.err
    assert "Next: fedvalue serve assist" in accepted.err
