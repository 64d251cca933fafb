"""`fedvalue report`: a result or a certificate as a page for people, HTML or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.shared_options import Peers


def report(
    result: Annotated[
        Path, typer.Argument(help="A result or a certificate (JSON).", metavar="RESULT.json|CERTIFICATE.json")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The page to write: .html or .pdf.", metavar="FILE.html|FILE.pdf"
        ),
    ],
    prices: Annotated[
        Path | None,
        typer.Option(help="Table with the columns party and price, for the selection.", metavar="FILE"),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Most that may be spent.", metavar="AMOUNT")] = None,
    peers: Peers = None,
) -> None:
    """Write the report of a result: whom to invite, values with intervals, overlap, how it was computed.

    For a certificate, it checks every signature and writes a page on the agreement, the values and the proof.
    The page loads nothing and contains no script. A PDF needs Chromium, Chrome or Edge.
    """
    from fedvalue.cli.terminal import refuse_unwritable, say
    from fedvalue.decisions.price_list import read_prices
    from fedvalue.errors import InputError

    if output.suffix.lower() not in (".html", ".htm", ".pdf"):
        raise InputError(f"{output}: the report is an .html or a .pdf file")
    refuse_unwritable(output)
    if budget is not None and prices is None:
        raise InputError("--budget needs --prices: without prices there is nothing to spend it on")
    if _is_certificate(result):
        if prices is not None:
            raise InputError("--prices goes with a result, not with a certificate")
        _write_certificate(result, output, peers)
    else:
        if peers is not None:
            raise InputError("--peers goes with a certificate; a result has no keys")
        from fedvalue.cli.decide import read_result
        from fedvalue.decisions.own_share import refuse_own_share
        from fedvalue.reports import html

        listed = None if prices is None else read_prices(prices)
        valuation = read_result(result)
        if listed is not None:
            refuse_own_share(valuation, "selection")
        html.write(valuation, output, prices=listed, budget=budget)
    say(f"report written to {output}")


def _is_certificate(path: Path) -> bool:
    """The file has the schema of a certificate."""
    import json

    from fedvalue.errors import InputError

    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError:
        return False  # reading it as a result will explain the error
    return isinstance(content, dict) and str(content.get("schema", "")).startswith("fedvalue.certificate/")


def _write_certificate(path: Path, output: Path, peers: Path | None) -> None:
    import hashlib

    from fedvalue.deployment.evidence import certificate_page
    from fedvalue.identity.identity_files import read_cards
    from fedvalue.reports.html import render_certificate, write_page

    lines, certificate = certificate_page(path, None if peers is None else read_cards(peers))
    page = render_certificate(
        certificate.result,
        certificate.manifest.manifest,
        proved=[line[4:] for line in lines if line.startswith("ok  ")],
        unproved=[line[13:] for line in lines if line.startswith("NOT CHECKED  ")],
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    write_page(page, output)
