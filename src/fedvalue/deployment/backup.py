"""Backup and restore of a participant's state, safe at any moment.

- A backup holds the databases (copied while they are in use), the pinned cards and our own card. Private keys
  are copied once, by hand, to a safe place; they are never in a backup.
- Unfinished runs are ended in the copy: their seeds and messages are left out. Continuing one from an old
  copy would use a secret twice, or contradict receipts of others. Everybody agrees on a new run.
- A restored ledger does not know what was spent after the backup: `restore` says so.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import re
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

from fedvalue import documents
from fedvalue._version import __version__
from fedvalue.deployment.sites import Site
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, InputError, VerificationError
from fedvalue.identity.identity_files import read_identity
from fedvalue.storage.durable_files import exclusive_lock, storage_errors, write_durably

SCHEMA = "fedvalue.backup/1"
MAX_BYTES = 1 << 36
_DATABASES = ("server.sqlite", "party.sqlite", "ledger.sqlite")
_NAMES = re.compile(
    r"contents\.json|identity/card\.json|peers/[^/.][^/]*\.json"
    + "".join(f"|state/{re.escape(name)}" for name in _DATABASES)
)
"""Files that an archive may hold: never a private key."""
_ENDED = "restored from a backup; agree on a new run"
_END_RUNS = {
    "server.sqlite": (
        "UPDATE runs SET state = 'failed', stage = 'failed', code = 'E_STORAGE', reason = ?, ended = 0, "
        "purged = 1 WHERE state NOT IN ('done', 'failed')",
        # A run that really ended has a time. The mail of the others has parts of the noise and of salts.
        "DELETE FROM outbox WHERE run_id IN (SELECT run_id FROM runs WHERE ended = 0)",
        "DELETE FROM seeds",
        "UPDATE inbox SET body = x''",
    ),
    "party.sqlite": (
        "UPDATE runs SET state = 'failed', code = 'E_STORAGE', reason = ?, kind = 'EngineError' "
        "WHERE state NOT IN ('done', 'failed')",
        "UPDATE runs SET seed = x''",
        "DELETE FROM inbox",
    ),
}
"""Statements that leave no unfinished run, no seed and no message in a copy. The first takes the reason."""


class Contents(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The list of an archive's files, with the SHA-256 of each."""

    name: str
    role: str
    created: dt.datetime
    software: str
    files: dict[str, str]


def back_up(site: Site, folder: Path, keep: int = 0) -> Path:
    """Write a new archive into `folder`, and keep only the newest `keep` of this participant; 0 keeps all.

    Raises:
        InputError: There is no state to back up.
        EngineError: E_STORAGE.
    """
    card = read_identity(site.identity).card
    files = {"identity/card.json": card.to_json()}
    for path in sorted(site.peers.glob("*.json")) if site.peers.is_dir() else ():
        files[f"peers/{path.name}"] = path.read_bytes()
    databases = [name for name in _DATABASES if (site.state / name).is_file()]
    if not databases:
        raise InputError(f"nothing to back up: there is no database in {site.state}")
    for name in databases:
        files[f"state/{name}"] = _copied(site.state / name)
    now = dt.datetime.now(dt.UTC)
    contents = Contents(
        name=card.name, role=card.role, created=now.replace(microsecond=0), software=__version__,
        files=_digests(files),
    )  # fmt: skip
    target = folder / f"fedvalue-{card.name}-{now:%Y%m%dT%H%M%S}Z.tar"
    write_durably(target, _archive({"contents.json": documents.encode(contents), **files}, now))
    for old in _archives_of(card.name, folder)[:-keep] if keep else ():
        old.unlink()
    return target


def _archives_of(name: str, folder: Path) -> list[Path]:
    """A participant's archives, the oldest first. `bank` has none of those of `bank-2`."""
    form = re.compile(rf"fedvalue-{re.escape(name)}-\d{{8}}T\d{{6}}Z\.tar")
    return sorted(path for path in folder.iterdir() if form.fullmatch(path.name))


def restore(archive: Path, home: Path) -> Contents:
    """Put the state of an archive into an empty home; the private keys must be there already, or follow.

    Raises:
        ConfigError: There is a state or another card of a peer already, or it is not a backup.
        VerificationError: E_BACKUP: a file differs from its digest.
    """
    files = _read(archive)
    contents = documents.decode(Contents, files.pop("contents.json"), schema=SCHEMA, error=ConfigError)
    if _digests(files) != contents.files:
        raise VerificationError(f"{archive} is damaged: a file differs from its digest", code="E_BACKUP")
    state = home / "state"
    for name in _DATABASES:
        if (state / name).exists():
            raise ConfigError(f"{state / name} exists: a state is never overwritten; move it away first")
    own = home / "identity" / "card.json"
    if own.exists() and own.read_bytes() != files["identity/card.json"]:
        raise ConfigError(f"{own} is a different identity than the backup's", code="E_IDENTITY")
    for name, data in files.items():
        pinned = home / name
        if name.startswith("peers/") and pinned.exists() and pinned.read_bytes() != data:
            raise ConfigError(
                f"{pinned} is a different card than the backup's; move away the one that you do not trust",
                code="E_IDENTITY",
            )
    with exclusive_lock(state / "restore.lock"):
        # The ledger first: interrupted before it, a party would start again with nothing spent.
        for name in sorted(files, key=lambda name: name != "state/ledger.sqlite"):
            if name != "identity/card.json":
                write_durably(home / name, files[name], mode=0o644 if name.startswith("peers/") else 0o600)
    return contents


def _digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _copied(path: Path) -> bytes:
    """A consistent copy of a database in use, without unfinished runs.

    In memory: a copy on disk would hold seeds until they are left out, and stay if the process is killed.
    """
    with (
        storage_errors(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as target,
    ):
        source.backup(target)
        for number, statement in enumerate(_END_RUNS.get(path.name, ())):
            target.execute(statement, (_ENDED,) if number == 0 else ())
        target.execute("VACUUM")  # no page of what was left out remains
        return target.serialize()


def _archive(files: dict[str, bytes], now: dt.datetime) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o600, int(now.timestamp())
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _read(archive: Path) -> dict[str, bytes]:
    """The files of an archive, by the names that a backup may have and no others."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, mode="r:") as tar:
            for info in tar:
                if not (info.isreg() and info.size <= MAX_BYTES and _NAMES.fullmatch(info.name)):
                    raise ConfigError(f"{archive} is not a backup: it holds {info.name!r}")
                member = tar.extractfile(info)
                assert member is not None
                files[info.name] = member.read()
    except (OSError, tarfile.TarError) as error:
        raise ConfigError(f"cannot read the backup {archive}: {error}") from None
    if not {"contents.json", "identity/card.json"} <= set(files):
        raise ConfigError(f"{archive} is not a backup")
    return files
