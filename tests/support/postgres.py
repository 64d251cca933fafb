"""A real PostgreSQL server on loopback, for the fixture `postgres`, thrown away at the end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedvalue.simulation.local_consortium import reserve_port

USER = "analyst"


@dataclass(frozen=True)
class PostgresServer:
    """Where the server listens; it asks for a password."""

    port: int
    password: str = field(repr=False)

    @property
    def uri(self) -> str:
        """Connection URI with the password in it."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> None:
        """Execute statements and commit."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def store(self, name: str, table: Any) -> None:
        """Write an Arrow table as a new database table."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="replace")
            connection.commit()


def server_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def postgres_server(binaries: Path) -> Iterator[PostgresServer]:
    """Start a server on a free port of the loopback, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fedvalue-postgres-"))
    port, reservation = reserve_port()
    server = PostgresServer(port, secrets.token_hex(12))
    process = None
    try:
        (folder / "password").write_text(server.password)
        as_user = _unprivileged(folder)
        initdb = [binaries / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256"]
        subprocess.run(
            [*as_user, *initdb, "--pwfile", folder / "password", "--no-sync", "-E", "UTF8", "--locale", "C"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(server.port),
            "unix_socket_directories": str(folder),
            "fsync": "off",
        }
        settings = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*as_user, binaries / "postgres", "-D", folder / "data", *settings],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        _wait(binaries, server.port, process, folder / "log")
        yield server
    finally:
        if process is not None:
            process.terminate()  # waits for clients to leave
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reservation.close()
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> list[str]:
    """What to put before a command: PostgreSQL refuses to run as root, so root lends it another user."""
    if os.geteuid() != 0:
        return []
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    for path in (folder, *folder.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _wait(binaries: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        if subprocess.run(ready, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError("PostgreSQL did not start: " + log.read_text()[-2000:])
