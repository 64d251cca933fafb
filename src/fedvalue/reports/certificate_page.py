"""The certificate for people: what was agreed, what was found, what is proved and what is not.

The caller has checked the certificate; this module only words and lays out what it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedvalue.reports.html import templates
from fedvalue.reports.view import view

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.valuation.result import Valuation

ROLES = {
    "task": "asked, and holds the label", "data": "data party", "compute": "computation server",
    "validate": "validation server", "assist": "assisting server",
}  # fmt: skip
"""What participants do, in the order of the page."""


def render_certificate(
    result: Valuation, manifest: Manifest, *, proved: Sequence[str], unproved: Sequence[str], digest: str
) -> str:
    """The page as HTML text.

    Args:
        result: The certificate's result.
        manifest: The agreement in it.
        proved: One sentence per thing that was checked.
        unproved: What a reader might believe to be checked, and is not.
        digest: SHA-256 of the certificate file, in hex.
    """
    return (
        templates()
        .get_template("certificate.html")
        .render(
            v=view(result),
            headline=_headline(manifest),
            agreement=(
                ("Purpose", manifest.purpose),
                ("Consortium", manifest.consortium),
                ("Agreed on", f"{manifest.created:%d %B %Y, %H:%M} UTC, for one run"),
                ("Cases", f"{result.n_samples:,}"),
                ("Run", manifest.run_id.hex()),
                ("SHA-256 of this certificate", digest),
            ),
            proved=[_sentence(one) for one in proved],
            unproved=[*map(_sentence, unproved), *_NEVER_PROVED],
            signers=[
                {"name": one.name, "role": words, "fingerprint": manifest.card_of(one).fingerprint}
                for role, words in ROLES.items()
                for one in manifest.of_role(role)
            ],
        )
    )


_NEVER_PROVED = (
    "That each party’s table is true. No file can show that.",
    "That servers, or a party and a server, did not work together.",
)


def _headline(manifest: Manifest) -> str:
    if manifest.protocol == "mirror":
        return (
            f"The servers {manifest.compute.name} and {manifest.validate.name} computed these values "
            "independently, and both signed them."
        )
    if manifest.protocol == "gram":
        names = ", ".join(server.name for server in manifest.servers)
        return f"The servers {names} signed sums that fit together, and these values follow from them."
    return f"These values are the word of {manifest.task.name}, who signed them."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
