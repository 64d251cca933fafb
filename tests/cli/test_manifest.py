"""`fedvalue init`, `fedvalue manifest` and `fedvalue audit` as people use them."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.support.town import TASK, Town


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A consortium made without the command line, to look at with it."""
    return Town(tmp_path_factory.mktemp("manifest"), n=100)


def test_init_makes_private_keys_and_prints_the_fingerprint(tmp_path):
    done = fedvalue("init", tmp_path / "id", "--consortium", "alpha", "--role", "data", "--name", "telco")
    assert done.code == 0
    assert "fedvalue://alpha/data/telco" in done.out
    shown = done.out.split("fingerprint")[1].split()
    assert len(shown) == 16
    for name in ("sign.key", "tls.key"):
        assert (tmp_path / "id" / name).stat().st_mode & 0o777 == 0o600
    card = fedvalue_here("audit", "card", tmp_path / "id" / "card.json")
    assert card.out.split("fingerprint")[1].split() == shown
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=365)
    assert re.search(r"valid until  (\d{4}-\d\d-\d\d) ", card.out)[1] in (
        f"{end:%Y-%m-%d}", f"{end - dt.timedelta(minutes=1):%Y-%m-%d}",
    )  # fmt: skip
    again = fedvalue_here(
        "init", tmp_path / "id", "--consortium", "alpha", "--role", "data", "--name", "telco"
    )
    assert again.code == 4
    assert "never overwritten" in again.err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--role", "king", "role must be one of"), ("--name", "Tel co", "lower-case")],
)
def test_init_refuses_what_does_not_fit_a_certificate(tmp_path, option, value, words):
    arguments = {"--consortium": "alpha", "--role": "data", "--name": "telco", option: value}
    done = fedvalue_here("init", tmp_path / "id", *(part for pair in arguments.items() for part in pair))
    assert done.code == 4
    assert words in done.err
    assert not (tmp_path / "id").exists()


def test_show_explains_the_agreement_in_words(made):
    done = fedvalue("manifest", "show", made.member(TASK).folder / "manifest.json")
    assert done.code == 0
    text = " ".join(done.out.split())
    for words in (
        "AGREEMENT " + made.run_id.hex(), "Purpose: a test", "Data parties (are valued): shop, telco",
        "must be run by different operators", "detects every number that it changes by more than 0.0001",
        "sees every row of the joint table under secret names", "With public statistics",
        "can reveal attributes of single persons",
        "Columns are used one by one",
        "the same 100 samples", "At least 100 samples", "for one result: a run that fails may",
        "At least 10 samples of every label", "multiples of 0.0001", "at most 12 bits",
        "at random to multiples of 0.3 with 100 samples", "value of each column of the task party",
            "A data party learns its learnable value, the learnable total and an error of each",
    ):  # fmt: skip
        assert words in text
    assert "NOT SIGNED" not in text
    for member in made.consortium.members.values():
        assert member.identity.card.fingerprint in text  # as people have compared it


@pytest.mark.parametrize("command", ["verify", "show"])
def test_reading_an_agreement_loads_neither_numpy_nor_the_compiler(made, command):
    """They take longer to load than all else that these commands do."""
    program = """
import sys
from fedvalue.cli import main
try:
    main()
finally:
    print("loaded:", *({"numpy", "numba"} & set(sys.modules)))
"""
    file = made.member(TASK).folder / "manifest.json"
    ran = subprocess.run(
        [sys.executable, "-c", program, "manifest", command, str(file)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.splitlines()[-1] == "loaded:"


def test_verify_accepts_the_signed_one_and_names_what_is_wrong_with_others(made, tmp_path):
    original = made.member(TASK).folder / "manifest.json"
    assert fedvalue_here("manifest", "verify", original).out.strip() == f"run id  {made.run_id.hex()}"
    data = json.loads(original.read_text())
    del data["signatures"]["shop"]
    unsigned = tmp_path / "unsigned.json"
    unsigned.write_text(json.dumps(data))
    done = fedvalue_here("manifest", "verify", unsigned)
    assert (done.code, "not signed by shop" in done.err, "[E_MANIFEST]" in done.err) == (7, True, True)
    data = json.loads(original.read_text())
    data["manifest"]["policy"] = "counts"
    altered = tmp_path / "altered.json"
    altered.write_text(json.dumps(data))
    assert fedvalue_here("manifest", "verify", altered).code == 7
    peers = tmp_path / "peers"
    shutil.copytree(made.root / "cards", peers)
    assert fedvalue_here("manifest", "verify", original, "--peers", peers).code == 0
    (peers / "shop.json").unlink()
    done = fedvalue_here("manifest", "verify", original, "--peers", peers)
    assert (done.code, "[E_IDENTITY]" in done.err) == (7, True)


def test_new_sign_merge_without(made, tmp_path):
    """The agreement from cards, signed in two copies, merged; then without a party."""
    file, copy = tmp_path / "m.json", tmp_path / "copy.json"
    draft = (
        "manifest", "new", file, "--cards", made.root / "cards", "--purpose", "again", "--samples", "500",
        "--compute", "10.0.0.1:7101", "--validate", "10.0.0.2:7102",
    )  # fmt: skip
    assert fedvalue_here(*draft).code == 0
    again = fedvalue_here(*draft)
    assert (again.code, "is not overwritten" in again.err) == (4, True)
    shutil.copy(file, copy)
    assert (
        fedvalue_here("manifest", "sign", file, "--identity", made.member("telco").folder / "identity").code
        == 0
    )
    done = fedvalue_here("manifest", "sign", copy, "--identity", made.member("shop").folder / "identity")
    assert "missing signatures: bank, telco, compute, validate" in done.err
    done = fedvalue_here("manifest", "merge", file, copy)
    assert "missing signatures: bank, compute, validate" in done.err
    rest = tmp_path / "rest.json"
    assert fedvalue_here("manifest", "without", file, "shop", "-o", rest).code == 0
    assert "shop" not in json.loads(rest.read_text())["signatures"]
    assert fedvalue_here("manifest", "without", file, "bank", "-o", rest).code == 4
    other = made.member(TASK).folder / "manifest.json"
    done = fedvalue_here("manifest", "merge", file, other)
    assert (done.code, "different agreements" in done.err) == (4, True)


def test_new_refuses_unsafe_terms(made, tmp_path):
    for extra, words in (
        (["--samples", "50"], "below the gate of 100"),
        (["--samples", "500", "--protocol", "single", "--policy", "counts"], "needs research"),
        (["--samples", "500", "--protocol", "paper"], "needs policy 'counts'"),
        (["--samples", "500", "--n-r", "many"], "n_r must be"),
        (["--samples", "500", "--compute", "nowhere"], "host:port"),
        (["--samples", "500", "--compute", "h:2"], "different addresses, got h:2, h:2"),
        (["--samples", "500", "--days", "1000000000"], "days must be from 1 to 825"),
    ):
        done = fedvalue_here(
            "manifest", "new", tmp_path / "m.json", "--cards", made.root / "cards", "--purpose", "x",
            "--compute", "h:1", "--validate", "h:2", *extra,
        )  # fmt: skip
        assert done.code == 4
        assert words in done.err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--permutations", "1", "n_permutations must be at least 2, got 1"),
        ("--bins", "1", "bins must be a whole number from 2 to 65536, got 1"),
        ("--columns", "some", "columns must be one of features, joint, got 'some'"),
        ("--binning", "log", "binning must be 'quantile' or 'width', got 'log'"),
    ],
)
def test_new_refuses_settings_that_the_engine_would_refuse(made, tmp_path, option, value, words):
    """Not after everybody has signed and uploaded."""
    done = fedvalue_here(
        "manifest", "new", tmp_path / "m.json", "--cards", made.root / "cards", "--purpose", "x",
        "--compute", "h:1", "--validate", "h:2", "--samples", "500", option, value,
    )  # fmt: skip
    assert done.code == 3
    assert words in done.err
    assert not (tmp_path / "m.json").exists()


def test_show_says_what_servers_see_of_joint_columns(made, tmp_path):
    done = fedvalue_here(
        "manifest", "new", tmp_path / "m.json", "--cards", made.root / "cards", "--purpose", "x",
        "--compute", "h:1", "--validate", "h:2", "--samples", "500", "--columns", "joint",
    )  # fmt: skip
    assert done.code == 0
    shown = fedvalue_here("manifest", "show", tmp_path / "m.json")
    assert "The columns of a party are used as one" in " ".join(shown.out.split())


@pytest.mark.parametrize("odd", ["\x1b[2J", "\x9b2J", "\u2028fedvalue: all is well", "\u202e"])
def test_a_file_of_a_stranger_sends_no_commands_to_the_terminal(made, tmp_path, odd):
    """Controls of both sets, separators and overrides, where a message quotes the file."""
    data = json.loads((made.member(TASK).folder / "manifest.json").read_text())
    for change in ({f"term{odd}": 1}, {"protocol": odd}):
        file = tmp_path / "odd.json"
        file.write_text(json.dumps({**data, "manifest": {**data["manifest"], **change}}))
        refused = fedvalue_here("manifest", "show", file)
        assert refused.code == 4
        assert refused.err.rstrip("\n").isprintable(), refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("manifest", "show", "missing.json"),
        ("audit", "verify", "missing.json"),
        ("audit", "verify", "missing.jsonl", "--card", "missing.json"),
        ("join", "--config", "missing.toml"),
        ("run", "--config", "missing.toml"),
    ],
)
def test_a_missing_file_is_one_line_and_exit_code_4(arguments, tmp_path):
    done = fedvalue_here(*arguments, cwd=tmp_path)
    assert done.code == 4
    assert "missing" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_server_without_its_configuration_is_one_line_and_exit_code_4(tmp_path):
    done = fedvalue("serve", "compute", "--config", "missing.toml", cwd=tmp_path)
    assert done.code == 4
    assert "missing" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_an_address_of_a_server_that_is_none_is_refused(made):
    """A misspelt name would leave the address unused, without a word."""
    config = made.member(TASK).folder / "tunnel.toml"
    written = (made.member(TASK).folder / "party.toml").read_text()
    config.write_text(written + '\n[addresses]\ncomput = "127.0.0.1:1"\n')
    done = fedvalue_here("run", "--config", config)
    assert done.code == 4
    assert "addresses.comput: the servers of this run are compute and validate" in done.err


def test_new_names_the_protocol_that_fits_and_why(tmp_path):
    """With a third server gram where there are samples enough; otherwise the third takes no part."""
    town = Town(tmp_path, n=100, parties=("telco",), protocol="gram", epsilon="1")
    addresses = ("--compute", "h:1", "--validate", "h:2", "--assist", "h:3")
    for samples, protocol, words in (
        ("12000", "gram", "Protocol gram, because three operators are available"),
        ("1200", "mirror", "1,200 samples are too few"),
    ):
        file = tmp_path / f"{protocol}.json"
        done = fedvalue(
            "manifest", "new", file, "--cards", town.root / "cards", "--purpose", "x", "--samples", samples,
            *addresses,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert words in done.err
        agreed = json.loads(file.read_text())["manifest"]
        assert agreed["protocol"] == protocol
        assert agreed["epsilon"] == ("1" if protocol == "gram" else None)
        assert ("assist" in [one["role"] for one in agreed["participants"]]) == (protocol == "gram")
        coding = agreed["settings"]["coding"]
        assert (coding["bins"], coding["label_bins"]) == ((10, 5) if protocol == "gram" else (5, None))
