"""Known-answer vectors: the bytes of every construction, made by tests/vectors/make_vectors.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedvalue.crypto import aes, keys
from fedvalue.crypto.hashing import adversarial_hashes, hash_ids, multiset_hash
from fedvalue.crypto.ids import canonical_ids
from fedvalue.crypto.masks import RowMasks, add_masks, masks_of
from fedvalue.crypto.permute import row_order
from fedvalue.crypto.tokens import token_blocks, tokens
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.messages import bulk_digest
from fedvalue.protocol.mirror.authenticators import RowWeights, masked_keys, row_counters

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "crypto.json").read_text(encoding="utf-8")
)
RUN_ID = bytes.fromhex(VECTORS["run_id"])
SECRET = bytes.fromhex(VECTORS["secret"])
QUERY = bytes.fromhex(VECTORS["query"])


@pytest.fixture(scope="module")
def ring() -> Keyring:
    pairs = {
        "b": keys.subkey(SECRET, RUN_ID, "pair-b"),
        "c": keys.subkey(SECRET, RUN_ID, "pair-c"),
    }
    own = keys.subkey(SECRET, RUN_ID, "own")
    return Keyring(RUN_ID, SECRET, own, pairs, {"b": 1, "c": -1})


@pytest.fixture(scope="module")
def hashes(ring: Keyring) -> aes.Blocks:
    return hash_ids(ring.ids(), canonical_ids(VECTORS["ids"]))


def hexes(blocks: aes.Blocks) -> list[str]:
    return [row.tobytes().hex() for row in blocks]


def test_subkeys() -> None:
    assert keys.subkey(SECRET, RUN_ID, "some purpose", b"part", "another").hex() == VECTORS["subkey_32"]
    assert keys.subkey(SECRET, RUN_ID, "long", length=80).hex() == VECTORS["subkey_80"]


def test_hkdf_of_rfc_5869() -> None:
    """Test case 1 of RFC 5869, appendix A."""
    key = keys.hkdf(
        bytes.fromhex("0b" * 22),
        salt=bytes.fromhex("000102030405060708090a0b0c"),
        info=bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
        length=42,
    )
    assert key.hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


def test_id_hashes(ring: Keyring, hashes: aes.Blocks) -> None:
    assert ring.ids().hex() == VECTORS["id_key"]
    assert hexes(hashes) == VECTORS["hashes"]


def test_adversarial_hashes(ring: Keyring) -> None:
    assert hexes(adversarial_hashes(ring.adversarial(), 4)) == VECTORS["adversarial"]


def test_tokens_and_authenticators(ring: Keyring, hashes: aes.Blocks) -> None:
    token_keys = ring.tokens(QUERY)
    blocks = token_blocks(token_keys, hashes, 3)
    assert hexes(tokens(token_keys, blocks)) == VECTORS["tokens"]
    sums = masks_of(blocks, ring.authenticators(QUERY, ("a", "b", "c")))
    assert sums.tolist() == VECTORS["authenticators"]
    sums += aes.encrypt(ring.validation(QUERY), blocks)[:, 0]
    assert sums.tolist() == VECTORS["task_authenticators"]


def test_masks_and_row_order(ring: Keyring, hashes: aes.Blocks) -> None:
    words = np.zeros((len(hashes), 1), dtype=np.uint64)
    add_masks(words, hashes, ring.masks("compute", 1))
    assert words[:, 0].tolist() == VECTORS["masks"]
    for n_lanes, n_keys in ((1, 1), (2, 1), (6, 2)):
        rows = np.zeros((len(hashes), n_lanes), dtype=np.uint32)
        assert RowMasks(ring.masks("compute", n_keys)).add(rows, hashes) == VECTORS["tag_mask"]
        assert rows.tolist() == [lanes[:n_lanes] for lanes in VECTORS["row_masks"]]
    assert row_order(ring.row_order("compute"), hashes).tolist() == VECTORS["row_order"]


def test_code_authenticators(ring: Keyring) -> None:
    key = ring.code_key("compute", "shop")
    assert key.hex() == VECTORS["code_key"]
    for first in range(4):
        weights = RowWeights(key).of(row_counters(first, 5), first)
        assert weights[:5].tolist() == VECTORS["row_weights"][first : first + 5]
    uploaded = masked_keys({2: key}, 4, ring.code_key_masks("compute"))
    assert np.frombuffer(uploaded, "<u8").tolist() == VECTORS["masked_code_keys"]


def test_permutations_and_numbers(ring: Keyring) -> None:
    assert ring.label_map("compute", "shop", 9).tolist() == VECTORS["label_map"]
    assert ring.coordinate_order(7).tolist() == VECTORS["coordinate_order"]
    assert [query.hex() for query in ring.query_ids(3)] == VECTORS["query_ids"]
    assert ring.adversarial_counts(10, 8, b"scope").tolist() == VECTORS["n_r"]


def test_multiset_hash(ring: Keyring, hashes: aes.Blocks) -> None:
    digest = multiset_hash(ring.population_blocks(), [hashes])
    assert digest.hex() == VECTORS["multiset"]
    assert multiset_hash(ring.population_blocks(), [hashes[::-1]]) == digest
    assert multiset_hash(ring.population_blocks(), [hashes[2:], hashes[:2]]) == digest


def test_agreement_signature_mac_seal() -> None:
    alice = keys.subkey(SECRET, RUN_ID, "alice")
    bob = keys.agreement_public(keys.subkey(SECRET, RUN_ID, "bob"))
    assert bob.hex() == VECTORS["x25519_public"]
    assert keys.agreement_secret(alice, bob).hex() == VECTORS["x25519"]
    signer = keys.subkey(SECRET, RUN_ID, "signer")
    assert keys.sign(signer, "result", RUN_ID, "compute", bytes(32)).hex() == VECTORS["signature"]
    assert keys.mac(SECRET, "agree", "shop", b"\1").hex() == VECTORS["mac"]
    sealed = keys.seal(keys.subkey(SECRET, RUN_ID, "seal"), b"a share", keys.info("share"))
    assert sealed.hex() == VECTORS["sealed"]


def test_chunk_digest() -> None:
    assert bulk_digest(2, 5, b"abc").hex() == VECTORS["chunk_digest"]
