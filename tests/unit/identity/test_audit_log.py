"""Audit logs: whoever edits, drops, reorders or forks is found out, at the right entry."""

from __future__ import annotations

import json

import pytest

from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.audit_log import (
    GENESIS,
    ChainWriter,
    Receipt,
    check_receipts,
    last_receipt,
    read_log,
)
from tests.support.consortium import identity

RUN = "ab" * 32


def written(events: list[str], actor: str = "compute", run: str = RUN) -> tuple[list[str], list[Receipt]]:
    writer = ChainWriter(identity(actor), run)
    lines, receipts = [], []
    for event in events:
        lines.append(writer.append(event, "cd" * 32, "2030-01-01T00:00:00Z"))
        receipts.append(writer.receipt)
    return lines, receipts


EVENTS = ["accepted", "received bank", "received telco", "computed", "released"]
KEY = identity("compute").card.sign_key


def test_an_honest_log_passes_and_keeps_every_receipt():
    lines, receipts = written(EVENTS)
    entries = read_log(lines, KEY)
    assert [entry.event for entry in entries] == EVENTS
    assert entries[0].prev == GENESIS
    assert check_receipts(entries, receipts, KEY) == 5


def test_a_log_rebuilt_from_the_same_events_is_the_same_to_the_byte():
    """Recovery after a crash writes no second history."""
    assert written(EVENTS)[0] == written(EVENTS)[0]


def test_a_writer_continues_where_a_log_ended():
    lines, receipts = written(EVENTS)
    writer = ChainWriter(identity("compute"), RUN, seq=3, prev=receipts[2].head)
    again = [writer.append(event, "cd" * 32, "2030-01-01T00:00:00Z") for event in EVENTS[3:]]
    assert lines[:3] + again == lines


@pytest.mark.parametrize("seq", [0, 2, 4])
def test_an_edited_entry_breaks_the_log_there(seq):
    """Item 35: edit."""
    lines, _ = written(EVENTS)
    data = json.loads(lines[seq])
    data["entry"]["event"] = "something else"
    lines[seq] = json.dumps(data)
    with pytest.raises(VerificationError, match=f"entry {seq}:") as caught:
        read_log(lines, KEY)
    assert caught.value.code == "E_AUDIT"


@pytest.mark.parametrize("seq", [0, 2, 3])
def test_a_deleted_entry_breaks_the_log_there(seq):
    """Item 35: delete."""
    lines, _ = written(EVENTS)
    del lines[seq]
    with pytest.raises(VerificationError, match=f"entry {seq}:"):
        read_log(lines, KEY)


def test_reordered_entries_break_the_log_at_the_first_of_them():
    """Item 35: reorder."""
    lines, _ = written(EVENTS)
    lines[1], lines[2] = lines[2], lines[1]
    with pytest.raises(VerificationError, match="entry 1:"):
        read_log(lines, KEY)


def test_a_cut_off_tail_is_contradicted_by_a_receipt():
    """Item 35: the chain alone cannot show this, a receipt does."""
    lines, receipts = written(EVENTS)
    entries = read_log(lines[:3], KEY)
    with pytest.raises(VerificationError, match="entry 4: a receipt"):
        check_receipts(entries, receipts[4:], KEY)


def test_a_forked_history_is_contradicted_by_a_receipt():
    """Item 35: a second, validly signed history for another reader."""
    _, receipts = written(EVENTS)
    other, _ = written([*EVENTS[:3], "aborted", "released"])
    entries = read_log(other, KEY)
    assert check_receipts(entries, receipts[:3], KEY) == 3
    with pytest.raises(VerificationError, match="entry 3: a receipt"):
        check_receipts(entries, receipts, KEY)


def test_another_writers_log_does_not_pass_with_this_key():
    lines, _ = written(EVENTS, actor="validate")
    with pytest.raises(VerificationError, match="entry 0: its signature"):
        read_log(lines, KEY)


def test_entries_of_two_runs_cannot_be_mixed():
    first, _ = written(EVENTS[:1])
    writer = ChainWriter(identity("compute"), "ef" * 32, seq=1, prev=read_log(first, KEY)[0].head)
    line = writer.append("x", "", "2030-01-01T00:00:00Z")
    with pytest.raises(VerificationError, match="entry 1: it belongs to another run"):
        read_log([*first, line], KEY)


def test_entries_are_numbered_without_a_gap_even_where_their_hashes_fit():
    """Otherwise a writer could hide entries that it never shows, and give receipts for them."""
    first, receipts = written(EVENTS[:1])
    writer = ChainWriter(identity("compute"), RUN, seq=2, prev=receipts[0].head)
    line = writer.append("x", "", "2030-01-01T00:00:00Z")
    with pytest.raises(VerificationError, match="entry 1: the entry there has number 2"):
        read_log([*first, line], KEY)


def test_a_log_is_continued_from_its_last_signed_head():
    lines, receipts = written(EVENTS)
    assert last_receipt(lines) == receipts[-1]
    assert last_receipt(lines[:1]) == receipts[0]
    assert last_receipt([]) is None


@pytest.mark.parametrize("line", ["", "{}", "[]", "nonsense", '{"entry": 1, "signature": ""}', "[" * 100_000])
def test_lines_that_are_no_entries_break_the_log(line):
    with pytest.raises(VerificationError, match="entry 0:"):
        read_log([line], KEY)


def test_receipts_survive_a_file_and_a_forged_one_is_refused():
    lines, receipts = written(EVENTS)
    assert Receipt.from_line(receipts[2].to_line()) == receipts[2]
    with pytest.raises(ConfigError, match="not a receipt"):
        Receipt.from_line("{}")
    forged = Receipt("compute", RUN, 2, "00" * 32, receipts[2].signature)
    with pytest.raises(VerificationError) as caught:
        check_receipts(read_log(lines, KEY), [forged], KEY)
    assert caught.value.code == "E_SIGNATURE"


def test_an_emptied_log_is_contradicted_by_a_receipt():
    _, receipts = written(EVENTS)
    with pytest.raises(VerificationError, match="entry 0: the log is empty") as caught:
        check_receipts(read_log([], KEY), receipts, KEY)
    assert caught.value.code == "E_AUDIT"


def test_a_log_of_another_run_or_spelling_does_not_pass_beside_receipts():
    """Signed by the right key, under a label that the receipts do not have."""
    _, receipts = written(EVENTS)
    other, _ = written(EVENTS, run="ef" * 32)
    with pytest.raises(VerificationError, match="another run") as caught:
        check_receipts(read_log(other, KEY), receipts, KEY)
    assert caught.value.code == "E_AUDIT"
    with pytest.raises(ValueError, match="64 lower-case hex digits"):
        written(EVENTS, run="AB" * 32)


def test_receipts_of_which_none_is_the_writers_prove_nothing():
    lines, _ = written(EVENTS)
    _, others = written(EVENTS, actor="validate")
    for entries in (read_log(lines, KEY), []):
        with pytest.raises(VerificationError, match="none of the receipts") as caught:
            check_receipts(entries, others, KEY)
        assert caught.value.code == "E_AUDIT"


def test_a_signature_on_a_head_fits_one_run_and_one_number():
    _, receipts = written(EVENTS)
    one = receipts[2]
    one.check(KEY)
    for moved in (
        Receipt(one.actor, one.run_id, 3, one.head, one.signature),
        Receipt(one.actor, "ef" * 32, one.seq, one.head, one.signature),
    ):
        with pytest.raises(VerificationError):
            moved.check(KEY)
