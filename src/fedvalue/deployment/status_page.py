"""The read-only page for operators and parties: runs, health and history, on loopback.

Plain HTML that reloads every few seconds and works without scripts too. Everything on it is in
`fedvalue status --json` and `/healthz`; nothing can be changed from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedvalue import documents
from fedvalue._version import __version__
from fedvalue.deployment.health import Finding, check_cards, check_clock, check_disk, guarded
from fedvalue.deployment.run_status import STAGES, read_status
from fedvalue.deployment.servers.observability import TEXT, Reply
from fedvalue.deployment.sites import Site
from fedvalue.errors import FedValueError
from fedvalue.identity.identity_files import read_cards, read_identity

REFRESH_SECONDS = 3

_ORDER = ("inviting", "open", "keying", "uploading", "agreeing", "done")
_ROLES = {
    "task": "task party",
    "data": "data party",
    "compute": "computation server",
    "validate": "validation server",
    "assist": "assisting server",
}

_templates = Environment(
    loader=PackageLoader("fedvalue.deployment"), autoescape=True, undefined=StrictUndefined
)


def page_routes(
    site: Site, findings: Callable[[], list[Finding]] | None = None
) -> dict[str, Callable[[], Reply]]:
    """The page, and the same as JSON.

    Args:
        site: The participant.
        findings: Reports its health; None checks it here.
    """

    def html() -> Reply:
        try:
            status = read_status(site)
            health = (findings or (lambda: _health(site)))()
        except FedValueError as error:
            return 503, f"{error} [{error.code}]\n".encode(), TEXT
        page = _templates.get_template("status.html").render(
            status=status, findings=health, stages=STAGES, order=_ORDER, roles=_ROLES, version=__version__,
            refresh=REFRESH_SECONDS,
        )  # fmt: skip
        return 200, page.encode(), "text/html; charset=utf-8"

    def json() -> Reply:
        try:
            return 200, documents.encode(read_status(site)), "application/json"
        except FedValueError as error:
            body = msgspec.json.encode({"error": str(error), "code": error.code})
            return 503, body, "application/json"

    return {"/": html, "/status.json": json}


def _health(site: Site) -> list[Finding]:
    own = read_identity(site.identity).card
    pinned = read_cards(site.peers) if site.peers.is_dir() else {}
    return [
        guarded("disk", lambda: check_disk(site.state)),
        check_clock(time.time()),
        *check_cards(own, pinned.values(), time.time()),
    ]
