"""The keys of a run as a party holds them, one method per purpose.

K_run is common to all parties; a pairwise key is common to two. The servers hold none of them; the keys that
a server gets (`QueryKey`, `ShareKeys`, code keys) are derived here and serve one purpose in one run. Keys of
this party alone come from a third secret, `own`. All three are bound to the transcript of the key agreement:
a party rebuilt from changed data has different keys throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.permute import numbers, permutation
from fedvalue.crypto.tokens import TokenKeys
from fedvalue.errors import InputError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of one participant for one run.

    Args:
        seed: 32 secret bytes, fresh for every run. All secret randomness of the role is derived
            from it, so that a role rebuilt from a journal is the same role.
        signing_key: Ed25519 private key, 32 raw bytes, long-term.
        pins: Ed25519 public key, 32 raw bytes, of every participant by name; exchanged out of band.
        psk: 32 bytes shared by all parties and mixed into every pairwise key, so that breaking X25519 alone
            is not enough.
    """

    seed: bytes = field(repr=False)
    signing_key: bytes = field(repr=False)
    pins: Mapping[str, bytes]
    psk: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for what, key in (("seed", self.seed), ("signing_key", self.signing_key), ("psk", self.psk)):
            if key is not None and len(key) != 32:
                raise InputError(f"{what} must have 32 bytes, got {len(key)}")


@dataclass(frozen=True, slots=True)
class AlignmentKeys:
    """Keys of one party under which sample ids are aligned: K_run, and a secret of this party alone."""

    run_id: bytes
    run_key: bytes = field(repr=False)
    own: bytes = field(repr=False)

    def tokens(self, server: str) -> bytes:
        """Key under which all parties encrypt their ids for one server."""
        return keys.subkey(self.run_key, self.run_id, "align-tokens", server, length=16)

    def salt(self, server: str, index: int) -> bytes:
        """Salt that keeps the digest of a part of our tokens from confirming a guess at our ids."""
        place = index.to_bytes(4, "big")
        return keys.subkey(self.own, self.run_id, "align-salt", server, place, length=16)


@dataclass(frozen=True, slots=True)
class Keyring:
    """Derived keys of one party in one run.

    Args:
        run_id: The run.
        run_key: K_run.
        own: A secret of this party alone.
        pairs: Pairwise key by peer.
        signs: +1 for a peer that comes later in the order of parties, -1 for an earlier one.
    """

    run_id: bytes
    run_key: bytes = field(repr=False)
    own: bytes = field(repr=False)
    pairs: Mapping[str, bytes] = field(repr=False)
    signs: Mapping[str, int]

    def _common(self, purpose: str, *parts: bytes | str, length: int = 16) -> bytes:
        return keys.subkey(self.run_key, self.run_id, purpose, *parts, length=length)

    def _pair(self, peer: str, purpose: str, *parts: bytes | str, length: int = 16) -> bytes:
        return keys.subkey(self.pairs[peer], self.run_id, purpose, *parts, length=length)

    def _alone(self, purpose: str, *parts: bytes | str, length: int = 16) -> bytes:
        return keys.subkey(self.own, self.run_id, purpose, *parts, length=length)

    def _mask_keys(self, purpose: str, server: str) -> list[tuple[int, bytes]]:
        """Sign and key of our masks towards every peer."""
        return [(self.signs[peer], self._pair(peer, purpose, server)) for peer in sorted(self.pairs)]

    def ids(self) -> bytes:
        """Key under which sample ids are hashed."""
        return self._common("id")

    def adversarial(self) -> bytes:
        """Key under which adversarial samples are made, different from that of real ids."""
        return self._common("adversarial")

    def population(self, n_samples: int, total: bytes) -> bytes:
        """The value by which parties verify that they hold the same ids."""
        return keys.mac(
            self._common("population", length=32), "population", n_samples.to_bytes(8, "big"), total
        )

    def population_blocks(self) -> bytes:
        """Key of the multiset hash of all ids."""
        return self._common("population-blocks")

    def confirm(self) -> bytes:
        """Key of the confirmations."""
        return self._common("confirm", length=32)

    def agree(self) -> bytes:
        """Key of the agreements on results."""
        return self._common("agree", length=32)

    # gram

    def components(self) -> bytes:
        """Secret from which the components of our columns and the weights of our check columns derive."""
        return self._alone("gram", length=32)

    # mirror

    def row_order(self, server: str) -> bytes:
        """Key of the order of rows at one server."""
        return self._common("order", server)

    def label_map(self, server: str, column: str, n_codes: int) -> NDArray[np.int64]:
        """σ: the name of each code of a column at one server."""
        return permutation(self._common("labels", server, column), n_codes)

    def coordinate_order(self, n_parties: int) -> NDArray[np.int64]:
        """The secret order of the data parties' coordinates, the same at both servers."""
        return permutation(self._common("coordinates"), n_parties)

    def masks(self, server: str, n_pairs: int) -> list[tuple[int, list[bytes]]]:
        """Keys of our masks towards every peer, one per pair of lanes."""
        return [
            (self.signs[peer], [self._pair(peer, "mask", server, bytes([k])) for k in range(n_pairs)])
            for peer in sorted(self.pairs)
        ]

    def code_key(self, server: str, column: str) -> bytes:
        """Key of the authenticators of one of our columns; no other party has it."""
        return self._alone("code-authenticator", server, column)

    def code_key_masks(self, server: str) -> list[tuple[int, bytes]]:
        """Keys of the masks under which code keys reach a server."""
        return self._mask_keys("mask-code-keys", server)

    def feature_map(self, server: str, column: str, feature: int, n_codes: int) -> NDArray[np.int64]:
        """The name of each code of one of our features at one server, or among the other parties."""
        place = feature.to_bytes(4, "big")
        return permutation(self._alone("feature-labels", server, column, place), n_codes)

    def feature_order(self, column: str, sizes: Sequence[int]) -> list[int]:
        """The secret order of a column's features: by size, and at random where sizes are equal.

        The others know the sizes and hence the place of each size; the order is the same at both servers.
        """
        rank = permutation(self._alone("feature-order", column), len(sizes))
        return sorted(range(len(sizes)), key=lambda k: (sizes[k], int(rank[k])))

    def codebook_masks(self, server: str) -> list[tuple[int, bytes]]:
        """Keys of the masks under which codebooks reach a server."""
        return self._mask_keys("mask-codebooks", server)

    def codebook_salt(self, server: str, index: int) -> bytes:
        """Salt that keeps the digest of a part of our codebooks from confirming a guess."""
        return self._alone("codebook-salt", server, index.to_bytes(4, "big"))

    def common_codebook(self, party: str, index: int) -> bytes:
        """Key under which a party seals a part of its codebook for all parties."""
        return self._common("codebook", party, index.to_bytes(4, "big"), length=32)

    def task_codebook(self, peer: str, index: int) -> bytes:
        """Key of a codebook for the task party alone; `peer` is the other of task and data party."""
        return self._pair(peer, "codebook", index.to_bytes(4, "big"), length=32)

    def chunk_salt(self, server: str, index: int) -> bytes:
        """Salt that keeps the digest of an uploaded chunk from confirming a guess at its rows."""
        return self._alone("chunk-salt", server, index.to_bytes(4, "big"))

    def token_salt(self, query: bytes, index: int) -> bytes:
        """Salt of the digest of a part of a token set."""
        return self._alone("token-salt", query, index.to_bytes(4, "big"))

    def share_task(self, server: str) -> bytes:
        """Key under which a server seals the task party's part of the result."""
        return self._alone("share-task", server, length=32)

    def share(self, peer: str, server: str) -> bytes:
        """Key under which a server seals a data party's share; `peer` is the other of task and data party."""
        return self._pair(peer, "share", server, length=32)

    def endorsement(self, peer: str) -> bytes:
        """Key under which a data party states its place to the task party; `peer` is the other of the two."""
        return self._pair(peer, "endorsement", length=32)

    # single and paper

    def query_ids(self, n_queries: int) -> list[bytes]:
        """One random-looking name per query."""
        blocks = aes.encrypt(self._common("query"), aes.counter_blocks(n_queries))
        return [row.tobytes() for row in blocks]

    def query_order(self, n_queries: int) -> NDArray[np.int64]:
        """The secret order in which queries are asked."""
        return permutation(self._common("query-order"), n_queries)

    def adversarial_counts(self, n_cells: int, high: int, scope: bytes) -> NDArray[np.int64]:
        """n_r per cell, 1 to `high`, for a random rule."""
        return numbers(self._common("n-r", scope), n_cells, 1, high)

    def tokens(self, query: bytes) -> TokenKeys:
        """K_in and K_out of a query."""
        return TokenKeys(self._common("token-inner", query), self._common("token-outer", query))

    def validation(self, query: bytes) -> bytes:
        """K_V of a query (H2)."""
        return self._common("token-validation", query)

    def dummies(self, query: bytes) -> bytes:
        """Key of our private padding in a query."""
        return self._alone("dummy", query)

    def authenticators(self, query: bytes, coalition: tuple[str, ...]) -> list[tuple[int, bytes]]:
        """Keys of our authenticators towards the other members of the query's coalition (H2)."""
        return [
            (self.signs[peer], self._pair(peer, "token-pair", query))
            for peer in coalition
            if peer in self.pairs
        ]
