"""After a run: `fedvalue audit`, and `fedvalue join` and `fedvalue run` once more."""

from __future__ import annotations

import json

import pytest

from fedvalue.reports.wording import nats
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.support.town import TASK, Town, values_of

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A finished run; its servers are gone."""
    found = Town(tmp_path_factory.mktemp("audit"), n=100).start()
    found.join()
    found.stop()
    return found


@pytest.fixture(scope="module")
def log(town, tmp_path_factory):
    """The computation server's audit log, exported."""
    path = tmp_path_factory.mktemp("log") / "compute.jsonl"
    done = fedvalue_here(
        "audit", "export", town.member("compute").folder / "state", town.run_id.hex(), "-o", path
    )
    assert done.code == 0, done.err
    return path


def card(town: Town, name: str):
    return town.member(name).folder / "identity" / "card.json"


def receipts(town: Town, name: str):
    return town.member(name).folder / "state" / f"receipts-{town.run_id.hex()[:12]}.jsonl"


def test_an_honest_log_passes_with_the_receipts_of_a_party(town, log):
    done = fedvalue_here(
        "audit",
        "verify",
        log,
        "--card",
        card(town, "compute"),
        "--receipts",
        receipts(town, "telco"),
        "--receipts",
        receipts(town, TASK),
    )
    assert done.code == 0
    assert "unbroken" in done.out
    assert "receipts agree" in done.out


def test_a_changed_log_fails_at_the_right_entry(town, log, tmp_path):
    """Item 35 through the command."""
    lines = log.read_text().splitlines()
    cases = {
        "edited": [*lines[:4], lines[4].replace("received", "recovered"), *lines[5:]],
        "deleted": lines[:4] + lines[5:],
        "reordered": [*lines[:4], lines[5], lines[4], *lines[6:]],
    }
    for name, changed in cases.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(changed) + "\n")
        done = fedvalue_here("audit", "verify", path, "--card", card(town, "compute"))
        assert (done.code, "entry 4:" in done.err, "[E_AUDIT]" in done.err) == (7, True, True), (
            name,
            done.err,
        )
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(lines[:4]) + "\n")
    assert fedvalue_here("audit", "verify", cut, "--card", card(town, "compute")).code == 0
    done = fedvalue_here(
        "audit", "verify", cut, "--card", card(town, "compute"), "--receipts", receipts(town, TASK)
    )
    assert (done.code, "receipt" in done.err) == (7, True)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    done = fedvalue_here(
        "audit", "verify", empty, "--card", card(town, "compute"), "--receipts", receipts(town, TASK)
    )
    assert (done.code, "[E_AUDIT]" in done.err) == (7, True)


def test_a_log_shown_to_people_holds_events_only(town, log):
    done = fedvalue("audit", "show", log)
    assert done.code == 0
    assert "received telco" in done.out
    assert "uploading" in done.out


def test_the_certificate_checks_offline_and_a_forged_one_does_not(town, tmp_path):
    path = town.member(TASK).folder / "certificate.json"
    done = fedvalue_here("audit", "verify", path)
    assert done.code == 0
    assert "telco" in done.out
    assert "signed these values" in done.err
    assert "NOT CHECKED  whose keys these are" in done.err
    assert town.member("telco").identity.card.fingerprint in done.err
    done = fedvalue_here("audit", "verify", path, "--peers", town.root / "cards")
    assert (done.code, "NOT CHECKED" in done.err) == (0, False)
    data = json.loads(path.read_text())
    data["result"]["parties"][0]["value"] += 0.001
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(data))
    done = fedvalue_here("audit", "verify", forged)
    assert done.code == 7
    assert done.out == ""


def test_join_and_run_give_the_stored_result_again(town):
    """The run is over and the servers are gone: the same command prints the same result."""
    done = fedvalue("run", "--config", town.member(TASK).folder / "party.toml", "--json", "-")
    assert done.code == 0, done.err
    assert values_of(json.loads(done.out)) == pytest.approx(town.values, abs=1e-9)
    (own,) = json.loads((town.member("telco").folder / "result.json").read_bytes())["parties"]
    done = fedvalue_here("join", "--config", town.member("telco").folder / "party.toml")
    assert done.code == 0
    assert nats(own["learnable"]) in done.out
    done = fedvalue_here("join", "--config", town.member("telco").folder / "party.toml", "--json", "-")
    assert json.loads(done.out)["parties"] == [own]
    assert own["name"] == "telco"


def test_the_wrong_command_for_a_role_is_refused(town):
    done = fedvalue_here("join", "--config", town.member(TASK).folder / "party.toml")
    assert (done.code, "has role 'task', not 'data'" in done.err) == (4, True)
    done = fedvalue("serve", "validate", "--config", town.member("compute").folder / "server.toml")
    assert (done.code, "has role 'compute', not 'validate'" in done.err) == (4, True)


def test_keys_are_in_the_identity_folders_and_nowhere_else(town):
    """Item 37: private keys in no log, journal, result or certificate of anybody."""
    secrets: dict[str, list[bytes]] = {}
    for name, member in town.consortium.members.items():
        raw = member.identity.signing.private_bytes_raw()
        pem = member.identity.tls_key.splitlines()[1]
        secrets[name] = [raw, raw.hex().encode(), pem, member.identity.signing_pem().splitlines()[1]]
    searched = 0
    for path in town.root.rglob("*"):
        if not path.is_file() or path.name in ("sign.key", "tls.key"):
            continue
        data = path.read_bytes()
        searched += 1
        for name, needles in secrets.items():
            assert not any(needle in data for needle in needles), (name, path)
    assert searched > 30
    for stream in town.logs.values():
        assert not any(one in stream.getvalue().encode() for needles in secrets.values() for one in needles)


def test_state_of_a_participant_is_private(town):
    """Item 37: databases, journals and receipts are for the owner only."""
    for name in town.consortium.members:
        paths = list((town.member(name).folder / "state").rglob("*"))
        assert any(path.suffix == ".sqlite" for path in paths)
        for path in paths:
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_line_that_is_nested_too_deep_is_no_log_entry(tmp_path):
    log = tmp_path / "deep.jsonl"
    log.write_text("[" * 100_000)
    done = fedvalue_here("audit", "show", log)
    assert (done.code, "line 1 is not a log entry" in done.err) == (4, True)


def test_a_certificate_has_a_page_for_people(town, tmp_path):
    """What was agreed, found, checked and not shown; a changed certificate has no page."""
    certificate = town.member(TASK).folder / "certificate.json"
    done = fedvalue_here("report", certificate, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert "<h1>The servers compute and validate computed these values independently, and both signed" in page
    for words in (
        "Every data party signed which column",
        "Whose keys these are (no --peers)",
        "table is true",
        town.run_id.hex(),
    ):
        assert words in page
    peers = town.root / "cards"
    assert fedvalue_here("report", certificate, "-o", tmp_path / "pinned.html", "--peers", peers).code == 0
    assert "Whose keys these are" not in (tmp_path / "pinned.html").read_text()
    data = json.loads(certificate.read_text())
    data["result"]["parties"][0]["learnable"] += 0.01
    (tmp_path / "forged.json").write_text(json.dumps(data))
    forged = fedvalue_here("report", tmp_path / "forged.json", "-o", tmp_path / "forged.html")
    assert forged.code == 7
    assert not (tmp_path / "forged.html").exists()


def test_one_entry_is_counted_in_the_singular(tmp_path, monkeypatch):
    monkeypatch.setattr("fedvalue.deployment.servers.server_store.read_audit", lambda state, run: ["{}"])
    done = fedvalue_here("audit", "export", tmp_path, "ab", "-o", tmp_path / "log.jsonl")
    assert (done.code, done.err) == (0, "1 entry\n")
