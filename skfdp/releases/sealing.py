"""Sealed records: readable when all of them is there, and not before.

The all-or-nothing transform of Rivest (1997): a record is masked by a fresh random key,
and its seal is that key, masked by the digest of all that was masked.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from skfdp.privacy.leases import SEAL_BYTES
from skfdp.releases.noise import generator_of, random_words

#: What a record grows by.
DIGEST_BYTES = 32


def sealed(record: bytes) -> tuple[bytes, bytes]:
    """Return a record that is not readable without its seal, and the seal.

    Notes
    -----
    **Guarantees.** Without the seal, or with the seal and without 16 bytes of what is
    masked, the record is as good as random bytes: AES in counter mode under a key of
    128 bits that is kept nowhere else, SHA-256 taken as a random function.
    """
    key = secrets.token_bytes(SEAL_BYTES)
    masked = _masked(hashlib.sha256(record).digest() + record, key)
    return masked, _both(key, _digest(masked))


def unsealed(masked: bytes, seal: bytes) -> bytes | None:
    """Return the record, None if this is not all of it or not its seal."""
    found = _masked(masked, _both(seal, _digest(masked)))
    digest, record = found[:DIGEST_BYTES], found[DIGEST_BYTES:]
    return record if hashlib.sha256(record).digest() == digest else None


def _masked(text: bytes, key: bytes) -> bytes:
    generator = generator_of(int.from_bytes(key, "little"))
    mask = random_words(generator, -(-len(text) // 8)).astype("<u8", copy=False)
    return _both(text, mask.tobytes()[: len(text)])


def _digest(masked: bytes) -> bytes:
    return hashlib.sha256(masked).digest()[:SEAL_BYTES]


def _both(one: bytes, other: bytes) -> bytes:
    """Return the exclusive or of two texts of one length."""
    found = np.frombuffer(one, dtype=np.uint8) ^ np.frombuffer(other, dtype=np.uint8)
    return found.tobytes()
