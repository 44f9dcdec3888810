"""Poisson batches of rows that are elsewhere: each partition draws its own members.

The coins of one step and one partition have a key of their own, so that whoever draws
them, and however often, draws the same members.
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from skfdp.releases.coins import PoissonBatches
from skfdp.releases.noise import generator_of, random_words

# Of the key from which those of steps and partitions are derived.
_KEY_WORDS = 4


@dataclasses.dataclass(frozen=True)
class Coins:
    """The coins of one partition in one batch; a secret.

    Attributes
    ----------
    key : int
        Of 128 bits.
    rate : float
        Probability of each row.
    """

    key: int = dataclasses.field(repr=False)
    rate: float

    def members(self, n_rows: int) -> np.ndarray:
        """Return the members among the rows of the partition, int64, increasing."""
        return PoissonBatches(generator_of(self.key), n_rows, self.rate).draw()


@dataclasses.dataclass(frozen=True)
class PartitionBatch:
    """One Poisson batch over all partitions, not drawn yet.

    Attributes
    ----------
    step : int
        Number of the batch.
    rate : float
        Probability of each row.
    """

    step: int
    rate: float
    _key: bytes = dataclasses.field(repr=False)

    def of(self, partition: int) -> Coins:
        """Return the coins of a partition, given by number."""
        place = f"{self.step}/{partition}".encode()
        found = hashlib.blake2b(place, key=self._key, digest_size=16).digest()
        return Coins(int.from_bytes(found, "little"), self.rate)


class PartitionBatches:
    """Batches that each row enters independently with probability `rate`.

    Parameters
    ----------
    generator : Generator
        A private stream, which nothing public shares.
    n_rows : int
        Of all partitions.
    rate : float
        Probability of each row, in (0, 1].

    Notes
    -----
    **Guarantees.** Keys are those of a keyed hash of (step, partition), under a key
    that never leaves this object and is drawn from the stream: whoever knows the coins
    of one step and partition learns nothing of any others. So the members of different
    partitions and steps are independent, and each is drawn as `PoissonBatches` says:
    the union over the partitions is a Poisson batch of all rows.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        self._key = random_words(generator, _KEY_WORDS).tobytes()
        self._rate, self._step = rate, -1

    def draw(self) -> PartitionBatch:
        """Return the next batch."""
        self._step += 1
        return PartitionBatch(self._step, self._rate, self._key)
