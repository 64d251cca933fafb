"""Which run under an agreement a party takes part in: the first, unless it failed and is repeated.

- A party never goes back: after a run of a number, only that one or a later one.
- A run with a result is the last. Servers refuse another one too.
- A late party, whose run has failed without it, goes on to the next number by itself: it has sent nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.agreement.manifest import run_id_of
from fedvalue.agreement.manifest_rules import LIMITS
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.errors import ConfigError, FedValueError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.deployment.config import PartyConfig
    from fedvalue.identity.cards import Identity

_ASK_SECONDS = 2.0
"""How long the computation server is asked which runs have failed; without an answer, none has."""


def numbered(
    signed: SignedManifest, config: PartyConfig, identity: Identity, *, again: bool
) -> SignedManifest:
    """The agreement with the number of the run to take part in.

    Args:
        signed: The agreement.
        config: Where the party's state is, and how servers are reached.
        identity: The party's.
        again: Whether a failed run is repeated.

    Raises:
        ConfigError: E_RUN: there is nothing to repeat, or too often.
    """
    _, most = LIMITS["run"]
    states = _by_number(signed, own_states(config.state))
    last = max(states, default=0)
    if last and not (again and states[last] == "failed"):
        if again and states[last] == "running":
            raise ConfigError(
                f"run {last} has not failed; without --again the command continues it", code="E_RUN"
            )
        return signed.repeated(last)
    client = ServerClient(
        identity,
        signed.manifest.compute,
        signed.manifest,
        patience=_ASK_SECONDS,
        address=config.addresses.get(signed.manifest.compute.name),
    )
    try:
        for number in range(last + 1, most + 1):
            if not _failed(client, signed.repeated(number)):
                return signed.repeated(number)
    finally:
        client.close()
    raise ConfigError(f"all {most} runs of this agreement have failed; agree on a new one", code="E_RUN")


def likely_run(signed: SignedManifest, config: PartyConfig, *, again: bool = False) -> SignedManifest:
    """The agreement with the number of the run that this party would take part in, by what it knows itself.

    Somebody else may have repeated a failed run meanwhile; `numbered` asks.
    """
    return latest_run(signed, own_states(config.state), again=again)


def latest_run(signed: SignedManifest, states: Mapping[bytes, str], *, again: bool = False) -> SignedManifest:
    """The agreement with the number of its last known run; of the next one if that failed and `again`."""
    _, most = LIMITS["run"]
    known = _by_number(signed, states)
    last = max(known, default=1)
    failed = known.get(last) == "failed"
    return signed.repeated(min(last + 1, most) if failed and again else last)


def _by_number(signed: SignedManifest, states: Mapping[bytes, str]) -> dict[int, str]:
    """The states of the runs under an agreement."""
    agreement, (_, most) = signed.manifest.agreement_id, LIMITS["run"]
    ids = {number: run_id_of(agreement, number) for number in range(1, most + 1)}
    return {number: states[run_id] for number, run_id in ids.items() if run_id in states}


def own_states(state: Path) -> dict[bytes, str]:
    """The state of every run of a party, by run id."""
    store = PartyStore(state)
    try:
        return {run_id: state for run_id, state, _, _ in store.runs()}
    finally:
        store.close()


def _failed(client: ServerClient, signed: SignedManifest) -> bool:
    """Whether a run has failed, as the computation server says when we join it. A lie can only delay us.

    A run that somebody ended by hand is repeated on request only: whoever joins it learns why it ended.
    """
    try:
        standing = client.submit(signed.to_json().encode())
    except FedValueError as error:
        # Refused or not reachable: the run itself meets the same, and says why. But where the others have
        # gone on to a later number, we follow.
        return error.code == "E_SUPERSEDED"
    return standing.state == "failed" and standing.code != "E_ABORTED"
