"""The small findings of the review (10): what the old rule let through, and that it is refused now."""

from __future__ import annotations

import io
import json
import math

import pytest

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.deployment.servers.observability import Log
from fedvalue.deployment.valuation_certificate import read_certificate
from fedvalue.errors import ConfigError
from fedvalue.protocol.outcome import same_numbers
from fedvalue.untrusted_text import printable
from tests.support.consortium import signed

ODD = {
    "C0": "\x07", "escape": "\x1b[2J", "C1": "\x9b2J", "line separator": "\u2028", "paragraph": "\u2029",
    "right to left": "\u202e", "isolate": "\u2066", "mark": "\u200f", "newline": "\n",
}  # fmt: skip


def test_a_certificate_with_a_key_twice_is_refused(tmp_path):
    """Readers that keep the first and readers that keep the last would see two different results."""
    text = '{"result": {"total": 1}, "result": {"total": 2}}'
    assert json.loads(text) == {"result": {"total": 2}}  # the old rule: the last one counts, silently
    path = tmp_path / "certificate.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="the key 'result' occurs twice") as caught:
        read_certificate(path)
    assert caught.value.code == "E_CERTIFICATE"


@pytest.mark.parametrize("deep", ["manifest", "signatures"])
def test_a_manifest_with_a_key_twice_is_refused_at_any_depth(deep: str) -> None:
    text = signed().to_json()
    key = '"bank":' if deep == "signatures" else '"n_samples":'
    at = text.rindex(key)
    doubled = text[:at] + f"{key} 5, " + text[at:]
    with pytest.raises(ConfigError, match="occurs twice"):
        SignedManifest.from_json(doubled)


@pytest.mark.parametrize(("a", "b"), [(300, 300.0000000001), (300, 300.0), (True, 1), (0, False)])
def test_a_whole_number_is_not_one_with_a_fraction(a: float, b: float) -> None:
    assert math.isclose(a, b, abs_tol=1e-9)  # the old rule
    assert not same_numbers({"n_samples": a}, {"n_samples": b})


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_no_character_of_a_peer_commands_a_terminal_or_forges_a_line_of_a_log(odd: str) -> None:
    assert "\ufffd" not in printable(odd)
    assert printable(f"a{odd}b").isprintable()
    stream = io.StringIO()
    Log("compute", stream).event("refused", reason=f"a{odd}fedvalue: all is well", peer=f"x{odd}")
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    kept = json.dumps({"reason": f"a{odd}"}, ensure_ascii=False)  # the old rule: JSON escapes C0 only
    assert kept.isprintable() == (odd in "\x07\x1b[2J\n")


def test_text_that_nobody_can_write_down_again_is_refused() -> None:
    """Found by a million changed manifests: half of a surrogate pair ended in an untyped error."""
    text = signed().to_json()
    for half in ("\\ud800", "\\uDC50"):
        with pytest.raises(ConfigError, match="not valid JSON"):
            SignedManifest.from_json(text.replace("What is", half))
    for raw in (b"\xed\xa0\x80", b"\xff", b"\xed\xb1\x90"):
        with pytest.raises(ConfigError, match="not valid JSON"):
            SignedManifest.from_json(text.encode().replace(b"What is", raw))
    whole = SignedManifest.from_json(text.replace("What is", "\\ud83d\\ude00"))
    assert whole.manifest.purpose.startswith("\U0001f600")


def test_settings_that_the_engine_refuses_cannot_be_agreed_on() -> None:
    """The old rule found out after all uploads."""
    data = json.loads(signed().to_json())
    data["manifest"]["settings"]["n_permutations"] = 1
    with pytest.raises(ConfigError, match="n_permutations must be at least 2"):
        SignedManifest.from_json(json.dumps(data))
