"""Where runs stand, at every participant: the command, the JSON, the page, and the doctor."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from fedvalue.agreement.manifest_rules import Versions
from fedvalue.deployment import doctor, run_status
from fedvalue.deployment.config import TableConfig, read_party_config
from fedvalue.deployment.doctor import examine
from fedvalue.deployment.health import Level
from fedvalue.deployment.network import tls_probe
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.run_status import read_status
from fedvalue.deployment.servers.observability import LoopbackServer
from fedvalue.deployment.sites import site_of
from fedvalue.deployment.status_page import page_routes
from fedvalue.errors import ConfigError, InputError
from fedvalue.identity.cards import create_identity
from fedvalue.identity.identity_files import save_identity, write_card
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.support.processes import PATIENCE, until
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network
HOME = Path("nowhere")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on a busy machine answers late; what is asked here is always answered."""
    for module in (doctor, run_status):
        monkeypatch.setattr(module, "ASK_SECONDS", PATIENCE)
    monkeypatch.setattr(tls_probe, "SECONDS", PATIENCE)


def config_of(town: Town, name: str) -> Path:
    return next(town.member(name).folder.glob("*.toml"))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Both servers run, telco has joined, the others have not."""
    found = Town(tmp_path_factory.mktemp("status"), purpose="What helps <b>us</b>?").start()
    config = read_party_config(config_of(found, "telco"))
    threading.Thread(target=take_part, args=(config, "data"), daemon=True).start()
    until(lambda: found.awaited() == (TASK, "shop"), what="telco's first message")
    store = found.servers["validate"][0]._store
    until(lambda: store.run(found.run_id) is not None, what="telco at the other server")
    yield found
    ends = found.join(TASK, "shop")
    found.stop()
    assert ended_well(ends), "looking at a run does not disturb it"


@pytest.mark.parametrize("name", ["telco", "shop", TASK, "compute", "validate"])
def test_every_participant_sees_stage_awaited_deadline_and_what_to_do(town: Town, name: str) -> None:
    status = read_status(site_of(config_of(town, name), HOME))
    assert status.name == name
    (run,) = status.runs
    assert run.run_id == town.run_id.hex()
    assert (run.stage, run.purpose) == ("open", "What helps <b>us</b>?")
    assert run.deadline is not None
    assert [view.reachable for view in run.servers] == [True, True]
    if name != "validate":
        assert set(run.awaited) == {TASK, "shop"}
    if name in (TASK, "shop"):
        assert run.next.startswith("Your part: start")
    elif name != "validate":
        assert run.next.startswith("Wait for bank, shop, or remind them.")
    if name == "compute":
        (sender,) = run.senders
        assert (sender.name, sender.role, sender.messages) == ("telco", "data", 1)
        assert run.n_bytes == sender.n_bytes > 0
        assert run.audit == "1 entries, unbroken"


def test_the_command_prints_for_people_and_for_programs(town: Town) -> None:
    config = str(config_of(town, "telco"))
    shown = fedvalue("status", "--config", config)
    assert shown.code == 0, shown.err
    assert "awaited   bank, shop" in shown.out
    assert "next      Wait for bank, shop" in shown.out
    data = json.loads(fedvalue_here("status", town.run_id.hex()[:8], "--config", config, "--json").out)
    assert data["schema"] == "fedvalue.status/1"
    assert data["runs"][0]["awaited"] == [TASK, "shop"]
    secret = (town.member("telco").folder / "identity" / "tls.key").read_text().splitlines()[1]
    assert secret not in json.dumps(data)


def test_an_unknown_run_and_an_empty_folder_are_refused_with_the_next_step(
    town: Town, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="begins with 'beef'"):
        read_status(site_of(config_of(town, "telco"), HOME), "beef")
    with pytest.raises(ConfigError, match="fedvalue accept INVITATION"):
        site_of(None, tmp_path)


def test_without_its_servers_a_party_still_sees_what_it_knows(tmp_path: Path) -> None:
    town = Town(tmp_path)
    (run,) = read_status(site_of(config_of(town, "shop"), HOME)).runs
    assert [view.reachable for view in run.servers] == [False, False]
    assert "nothing listens at" in run.next
    (offline,) = read_status(site_of(config_of(town, "shop"), HOME), ask=False).runs
    assert offline.servers == ()
    assert offline.next == "Start `fedvalue run` or `fedvalue join`, unless it is running already."


def test_after_the_end_the_status_says_so_everywhere(tmp_path: Path) -> None:
    town = Town(tmp_path, parties=("telco",)).start()
    assert ended_well(town.join())
    town.stop()
    for name in (TASK, "telco", "compute"):
        (run,) = read_status(site_of(config_of(town, name), HOME)).runs
        assert (run.state, run.next) == ("done", "Nothing: the run has ended with a result.")
        assert run.history[-1].event == "done"
        assert run.audit.endswith("entries, unbroken")
    done = fedvalue_here("status", run.run_id, "--watch", "--json", "--config", config_of(town, "compute"))
    assert done.code == 0, "watching one run ends with it"
    (line,) = done.out.splitlines()
    assert json.loads(line)["runs"][0]["state"] == "done"


def levels(town: Town, name: str, **changes: object) -> dict[str, tuple[Level, str]]:
    site = replace(site_of(config_of(town, name), HOME), **changes)  # type: ignore[arg-type]
    return {one.check: (one.level, str(one)) for one in examine(site)}


def test_the_doctor_finds_nothing_wrong_where_nothing_is(town: Town) -> None:
    for name in ("telco", TASK, "compute"):
        found = levels(town, name)
        assert all(level is not Level.FAIL for level, _ in found.values()), found
    assert {
        "software",
        "identity",
        "card",
        "clock",
        "disk",
        "agreement",
        "server compute",
        "server validate",
    } < set(levels(town, "telco"))
    assert "120 rows, 3 codes" in levels(town, "telco")["table"][1]


def test_the_doctor_names_each_trouble_with_its_remedy(town: Town, tmp_path: Path) -> None:
    telco = town.member("telco").folder
    # A table that cannot be read, and one that does not fit.
    missing = TableConfig(source=str(tmp_path / "none.csv"), id="id")
    assert levels(town, "telco", table=missing)["table"][0] is Level.FAIL
    # Another key: not pinned by the servers, and not the agreement's.
    save_identity(create_identity("demo", "data", "telco"), tmp_path / "identity")
    found = levels(town, "telco", identity=tmp_path / "identity")
    assert "has not pinned the card of 'telco'" in found["server compute"][1]
    assert found["agreement"][0] is Level.FAIL
    # A private key that others may read.
    shutil.copytree(telco / "identity", tmp_path / "open")
    (tmp_path / "open" / "tls.key").chmod(0o644)
    found = levels(town, "telco", identity=tmp_path / "open")
    assert "chmod 600" in found["identity"][1]
    # Nobody there.
    found = levels(town, "telco", addresses={"compute": "127.0.0.1:9"})
    assert "nothing listens at 127.0.0.1:9" in found["server compute"][1]
    # Terms that the party does not accept.
    strict = site_of(config_of(town, "telco"), HOME).accept
    found = levels(town, "telco", accept=structs.replace(strict, exact=False))
    assert "values without noise" in found["agreement"][1]
    # A peer without a card.
    shutil.copytree(telco / "peers", tmp_path / "peers")
    (tmp_path / "peers" / "shop.json").unlink()
    found = levels(town, "telco", peers=tmp_path / "peers")
    assert "no identity card of 'shop' is pinned here" in found["agreement"][1]
    write_card(town.member("shop").identity.card, tmp_path / "peers" / "shop.json")


def test_the_doctor_ends_with_an_exit_code(town: Town) -> None:
    good = fedvalue("doctor", "--config", str(config_of(town, "compute")), "--json")
    assert good.code == 0, good.out
    assert {one["level"] for one in json.loads(good.out)} <= {"ok", "warn"}
    bad = fedvalue_here("doctor", "--config", str(config_of(town, "telco")), "--table", "none.csv")
    assert bad.code == 4
    assert "fail  table" in bad.out


@pytest.fixture(scope="module")
def page_url(town: Town) -> Iterator[str]:
    server = LoopbackServer(page_routes(site_of(config_of(town, "compute"), HOME)), "127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.stop()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_shows_the_run_and_updates_itself(page_url: str, width: int) -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=flags, timeout=1000 * PATIENCE)
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.set_default_timeout(1000 * PATIENCE)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        requested: set[str] = set()
        page.on("request", lambda request: requested.add(request.url))
        page.goto(page_url)
        assert page.inner_text("h1") == "compute · computation server"
        assert page.inner_text("article h3") == "What helps <b>us</b>?", "a purpose is text, never markup"
        assert page.inner_text("li.now") == "waiting for the participants"
        assert "bank, shop" in page.inner_text("article")
        page.click("summary")
        before = page.get_attribute("#page", "data-time")
        page.wait_for_selector(f'#page:not([data-time="{before}"])')
        assert page.get_attribute("details", "open") is not None, "what was opened stays open"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert problems == []
    assert requested == {page_url}


@pytest.mark.parametrize(("values", "levels"), [(99, {Level.OK, Level.FAIL}), (None, {Level.OK})])
def test_doctor_names_a_server_whose_versions_differ(
    town: Town, monkeypatch: pytest.MonkeyPatch, values: int | None, levels: set[Level]
) -> None:
    """Decision 0416: another release is fine as long as protocol and values are the same."""
    from fedvalue.deployment.servers import relay_server

    theirs = Versions(software="9.9.0") if values is None else Versions(values=values, software="9.9.0")
    monkeypatch.setattr(relay_server, "Versions", lambda: theirs)
    found = [one for one in examine(site_of(config_of(town, "shop"), HOME)) if one.check == "server compute"]
    assert {one.level for one in found} == levels
    bad = [one for one in found if one.level is Level.FAIL]
    assert all("it runs FedValue 9.9.0 with" in one.words and "install" in one.remedy for one in bad)
