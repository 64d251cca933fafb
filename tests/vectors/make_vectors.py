"""Makes crypto.json: expected bytes of every construction, from the standard library and AES alone.

Run `python tests/vectors/make_vectors.py` to make the file again. Nothing of the package is used:
plain loops over hashlib, hmac and single AES blocks, written from docs/protocol.md.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.cmac import CMAC

RUN_ID = bytes(range(32))
SECRET = hashlib.sha256(b"a secret of the test vectors").digest()
IDS = ["1", "ada", "customer-00000001", "0123456789abcdef", "Zoë Ångström", "x" * 100]


def aes(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def info(purpose: str, *parts: bytes) -> bytes:
    out = b"fedvalue/1/" + purpose.encode() + b"\0"
    for part in parts:
        out += struct.pack(">I", len(part)) + part
    return out


def subkey(secret: bytes, purpose: str, *parts: bytes, length: int) -> bytes:
    prk = hmac.new(RUN_ID, secret, hashlib.sha256).digest()
    context, block, out, count = info(purpose, *parts), b"", b"", 1
    while len(out) < length:
        block = hmac.new(prk, block + context + bytes([count]), hashlib.sha256).digest()
        out += block
        count += 1
    return out[:length]


def cmac(key: bytes, message: bytes) -> bytes:
    state = CMAC(algorithms.AES(key))
    state.update(message)
    return state.finalize()


def little(block: bytes) -> int:
    return int.from_bytes(block, "little")


def counter(k: int, prefix: int = 0) -> bytes:
    return struct.pack("<QQ", k, prefix)


def permutation(key: bytes, n: int) -> list[int]:
    ranks = [struct.unpack("<QQ", aes(key, counter(k))) for k in range(n)]
    return sorted(range(n), key=lambda k: ranks[k])


def token_block(inner: bytes, h: bytes, copy: int) -> bytes:
    return aes(inner, h)[:10] + bytes([copy]) + bytes(5)


def mask(keys: list[tuple[int, bytes]], block: bytes, lane: int = 0) -> int:
    return sum(sign * little(aes(key, block)[8 * lane : 8 * lane + 8]) for sign, key in keys) % 2**64


def row_masks(keys: list[tuple[int, bytes, bytes]], block: bytes) -> tuple[list[int], int]:
    """The masks of six lanes of 32 bits, and what the row adds to the mask of the tag."""
    lanes, tag = [0] * 6, 0
    for sign, first, second in keys:
        stream = aes(first, block)
        tag += sign * little(stream[8:])
        stream = stream[:8] + aes(second, block)
        for k in range(6):
            lanes[k] = (lanes[k] + sign * little(stream[4 * k : 4 * k + 4])) % 2**32
    return lanes, tag


def main() -> None:
    id_key = subkey(SECRET, "id", length=16)
    hashes = [cmac(id_key, text.encode()) for text in IDS]
    query = bytes(range(100, 116))
    inner = subkey(SECRET, "token-inner", query, length=16)
    outer = subkey(SECRET, "token-outer", query, length=16)
    validation = subkey(SECRET, "token-validation", query, length=16)
    pair_b, pair_c = subkey(SECRET, "pair-b", length=32), subkey(SECRET, "pair-c", length=32)
    blocks = [token_block(inner, h, copy) for h in hashes for copy in range(3)]
    pair_keys = [
        (1, subkey(pair_b, "token-pair", query, length=16)),
        (-1, subkey(pair_c, "token-pair", query, length=16)),
    ]
    masks = [
        (1, subkey(pair_b, "mask", b"compute", b"\0", length=16)),
        (-1, subkey(pair_c, "mask", b"compute", b"\0", length=16)),
    ]
    row_keys = [
        (sign, first, subkey(pair, "mask", b"compute", b"\1", length=16))
        for (sign, first), pair in zip(masks, (pair_b, pair_c), strict=True)
    ]
    masked = [row_masks(row_keys, h) for h in hashes]
    own = subkey(SECRET, "own", length=32)
    code_key = subkey(own, "code-authenticator", b"compute", b"shop", length=16)
    key_masks = [
        (1, subkey(pair_b, "mask-code-keys", b"compute", length=16)),
        (-1, subkey(pair_c, "mask-code-keys", b"compute", length=16)),
    ]
    order_key = subkey(SECRET, "order", b"compute", length=16)
    ranks = [struct.unpack("<QQ", aes(order_key, h)) for h in hashes]
    multiset = [0, 0]
    population_key = subkey(SECRET, "population-blocks", length=16)
    for h in hashes:
        for lane in (0, 1):
            part = aes(population_key, h)[8 * lane : 8 * lane + 8]
            multiset[lane] = (multiset[lane] + little(part)) % 2**64
    alice = X25519PrivateKey.from_private_bytes(subkey(SECRET, "alice", length=32))
    bob = X25519PrivateKey.from_private_bytes(subkey(SECRET, "bob", length=32))
    bob_public = bob.public_key().public_bytes_raw()
    signer = Ed25519PrivateKey.from_private_bytes(subkey(SECRET, "signer", length=32))
    seal_key = subkey(SECRET, "seal", length=32)
    vectors = {
        "run_id": RUN_ID.hex(),
        "secret": SECRET.hex(),
        "ids": IDS,
        "subkey_32": subkey(SECRET, "some purpose", b"part", b"another", length=32).hex(),
        "subkey_80": subkey(SECRET, "long", length=80).hex(),
        "id_key": id_key.hex(),
        "hashes": [h.hex() for h in hashes],
        "adversarial": [aes(subkey(SECRET, "adversarial", length=16), counter(k)).hex() for k in range(4)],
        "query": query.hex(),
        "tokens": [aes(outer, block).hex() for block in blocks],
        "authenticators": [mask(pair_keys, block) for block in blocks],
        "task_authenticators": [
            (mask(pair_keys, block) + little(aes(validation, block)[:8])) % 2**64 for block in blocks
        ],
        "masks": [mask(masks, h) for h in hashes],
        "code_key": code_key.hex(),
        "row_masks": [lanes for lanes, _ in masked],
        "tag_mask": sum(tag for _, tag in masked) % 2**64,
        "row_weights": [little(aes(code_key, counter(row // 2))[8 * (row % 2) :][:8]) for row in range(9)],
        "masked_code_keys": [
            (own + mask(key_masks, counter(place), lane)) % 2**64
            for place in range(4)
            for lane, own in enumerate(struct.unpack("<QQ", code_key) if place == 2 else (0, 0))
        ],
        "row_order": sorted(range(len(hashes)), key=lambda k: ranks[k]),
        "label_map": permutation(subkey(SECRET, "labels", b"compute", b"shop", length=16), 9),
        "coordinate_order": permutation(subkey(SECRET, "coordinates", length=16), 7),
        "query_ids": [aes(subkey(SECRET, "query", length=16), counter(k)).hex() for k in range(3)],
        "n_r": [
            1 + little(aes(subkey(SECRET, "n-r", b"scope", length=16), counter(k))[:8]) % 8 for k in range(10)
        ],
        "multiset": (multiset[0].to_bytes(8, "little") + multiset[1].to_bytes(8, "little")).hex(),
        "x25519": alice.exchange(X25519PublicKey.from_public_bytes(bob_public)).hex(),
        "x25519_public": bob_public.hex(),
        "signature": signer.sign(info("sign/result", RUN_ID, b"compute", bytes(32))).hex(),
        "mac": hmac.new(SECRET, info("mac/agree", b"shop", b"\1"), hashlib.sha256).hexdigest(),
        "sealed": ChaCha20Poly1305(seal_key).encrypt(bytes(12), b"a share", info("share")).hex(),
        "chunk_digest": hashlib.sha256(struct.pack("<II", 2, 5) + struct.pack("<Q", 3) + b"abc").hexdigest(),
    }
    path = Path(__file__).with_name("crypto.json")
    path.write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
