"""The legal steps of every role, as tables. Whatever is not here is refused.

`TABLES[role][state][message]` is the set of states in which the role may be after it has handled
the message. FAILED is reachable from every state that is not final, and is not drawn. The state
diagrams of docs/protocol.md are rendered from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from fedvalue.protocol import messages as m


class State(StrEnum):
    """Where a role is in its run."""

    CREATED = "created"
    KEYING = "keying"
    WRAPPING = "wrapping"
    ALIGNING = "aligning"
    READYING = "readying"
    CONFIRMING = "confirming"
    UPLOADING = "uploading"
    COMPARING = "comparing"
    AGREEING = "agreeing"
    DONE = "done"
    FAILED = "failed"


class RoleName(StrEnum):
    """The five roles."""

    TASK_PARTY = "task party"
    DATA_PARTY = "data party"
    COMPUTATION_SERVER = "computation server"
    VALIDATION_SERVER = "validation server"
    ASSISTING_SERVER = "assisting server"


FINAL = frozenset({State.DONE, State.FAILED})

Steps: TypeAlias = Mapping[State, Mapping[type[m.Message], frozenset[State]]]


def _to(*states: State) -> frozenset[State]:
    return frozenset(states)


_RESULTS: Mapping[type[m.Message], frozenset[State]] = {
    m.SealedCodebook: _to(State.UPLOADING),
    m.QueryCount: _to(State.UPLOADING),
    m.ResultChunk: _to(State.UPLOADING),
    m.ResultSeal: _to(State.UPLOADING, State.AGREEING),
    m.GramCommitment: _to(State.UPLOADING),
}

_PREPARING: Steps = {
    State.ALIGNING: {m.AlignMask: _to(State.ALIGNING, State.READYING)},
    State.READYING: {m.ReadyRoster: _to(State.READYING, State.CONFIRMING)},
}

TASK_PARTY: Steps = {
    State.KEYING: {m.KeyRoster: _to(State.ALIGNING, State.READYING)},
    **_PREPARING,
    State.CONFIRMING: {m.ConfirmRoster: _to(State.UPLOADING)},
    State.UPLOADING: _RESULTS,
    State.AGREEING: {m.AgreeRoster: _to(State.DONE)},
}

DATA_PARTY: Steps = {
    State.KEYING: {m.KeyRoster: _to(State.WRAPPING)},
    State.WRAPPING: {m.WrappedKey: _to(State.ALIGNING, State.READYING)},
    **_PREPARING,
    State.CONFIRMING: {m.ConfirmRoster: _to(State.UPLOADING)},
    State.UPLOADING: _RESULTS,
    State.AGREEING: {m.AgreeRoster: _to(State.DONE)},
}

_COUNTING: Mapping[type[m.Message], frozenset[State]] = {
    m.Declaration: _to(State.UPLOADING),
    m.ShareKeys: _to(State.UPLOADING),
    m.CodebookChunk: _to(State.UPLOADING),
    m.Chunk: _to(State.UPLOADING, State.COMPARING),
    m.ResultCommit: _to(State.UPLOADING),
}

_SUMMING: tuple[type[m.Message], ...] = (
    m.GramDeclaration, m.GramPledge, m.GramCoin, m.GramSigns, m.GramCheck,
)  # fmt: skip
_OPENING: tuple[type[m.Message], ...] = (m.GramReveal, m.GramTest)

COMPUTATION_SERVER: Steps = {
    State.KEYING: {m.EphemeralKey: _to(State.KEYING, State.WRAPPING)},
    State.WRAPPING: {m.WrappedKeys: _to(State.ALIGNING, State.READYING)},
    State.ALIGNING: {m.AlignTokens: _to(State.ALIGNING, State.READYING)},
    State.READYING: {m.Ready: _to(State.READYING, State.CONFIRMING)},
    State.CONFIRMING: {m.Confirm: _to(State.CONFIRMING, State.UPLOADING)},
    State.UPLOADING: {
        **_COUNTING,
        m.SealedCodebook: _to(State.UPLOADING),
        m.TokenChunk: _to(State.UPLOADING, State.AGREEING),
        **dict.fromkeys(_SUMMING, _to(State.UPLOADING)),
        **dict.fromkeys(_OPENING, _to(State.UPLOADING, State.AGREEING)),
    },
    State.COMPARING: {
        m.ResultCommit: _to(State.COMPARING),
        m.ResultOpening: _to(State.COMPARING, State.AGREEING),
        m.NoiseSeed: _to(State.COMPARING, State.AGREEING),
    },
    State.AGREEING: {m.Agree: _to(State.AGREEING, State.DONE)},
}

VALIDATION_SERVER: Steps = {
    State.ALIGNING: {m.AlignTokens: _to(State.ALIGNING, State.READYING)},
    State.READYING: {m.Ready: _to(State.READYING, State.UPLOADING)},
    State.UPLOADING: {
        **_COUNTING,
        m.QueryKey: _to(State.UPLOADING, State.DONE),
        m.IntersectionChunk: _to(State.UPLOADING, State.DONE),
        m.NoiseCommit: _to(State.UPLOADING),
        **dict.fromkeys(_SUMMING, _to(State.UPLOADING)),
        **dict.fromkeys(_OPENING, _to(State.UPLOADING, State.DONE)),
    },
    State.COMPARING: {
        m.ResultCommit: _to(State.COMPARING),
        m.ResultOpening: _to(State.COMPARING, State.DONE),
        m.NoiseCommit: _to(State.COMPARING),
        m.NoiseOpening: _to(State.COMPARING, State.DONE),
    },
}

ASSISTING_SERVER: Steps = {
    State.ALIGNING: {m.AlignTokens: _to(State.ALIGNING, State.READYING)},
    State.READYING: {m.Ready: _to(State.READYING, State.UPLOADING)},
    State.UPLOADING: {
        **dict.fromkeys((m.Chunk, *_SUMMING), _to(State.UPLOADING)),
        **dict.fromkeys(_OPENING, _to(State.UPLOADING, State.DONE)),
    },
}

TABLES: Mapping[RoleName, Steps] = {
    RoleName.TASK_PARTY: TASK_PARTY,
    RoleName.DATA_PARTY: DATA_PARTY,
    RoleName.COMPUTATION_SERVER: COMPUTATION_SERVER,
    RoleName.VALIDATION_SERVER: VALIDATION_SERVER,
    RoleName.ASSISTING_SERVER: ASSISTING_SERVER,
}


def mermaid(role: RoleName) -> str:
    """The state diagram of a role in Mermaid's language, drawn from its table."""
    lines = ["stateDiagram-v2"]
    for state, steps in TABLES[role].items():
        arrows: dict[State, list[str]] = {}
        for message, after in steps.items():
            for target in sorted(after):
                arrows.setdefault(target, []).append(message.__name__)
        lines += [f"    {state} --> {target}: {', '.join(names)}" for target, names in arrows.items()]
    return "\n".join(lines)
