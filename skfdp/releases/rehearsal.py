"""Rehearsals: fits whose coins are fixed and whose releases an audit answers.

There is none but inside of an audit (`skfdp.audit.replay`). What comes out of one is
not private: coins and noise have keys that anybody can compute, and an answer may be
that of another table. The events and reports of fits inside say so: they are *seeded*.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

import numpy as np

from skfdp.privacy.events import Event
from skfdp.queries import Query


@dataclasses.dataclass(frozen=True)
class Asked:
    """One release that a desk was asked for.

    Attributes
    ----------
    event : Event
        What was charged for it.
    stream : str
        Name of the noise.
    query : Query
    theta : ndarray or None
    noise_std : float
        Of this release.
    batch : int64 ndarray or None
        The rows that are summed, void ones left out; None: every row. Private, and
        valid until the next release.
    void : bool ndarray of shape (n_rows,) or None
        Records that are null: private.
    """

    event: Event
    stream: str
    query: Query
    theta: np.ndarray | None
    noise_std: float
    batch: np.ndarray | None
    void: np.ndarray | None


class Rehearsal(Protocol):
    """The part of an audit that stands for the operating system and the noise."""

    def key(self, stream: str) -> int:
        """Return the key of the next stream of this name, 128 bits."""

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what a desk gives out; `noisy_sum` is what it would have."""


@dataclasses.dataclass
class _Stage:
    """A rehearsal, None as soon as it is closed, and where it was opened."""

    rehearsal: Rehearsal | None
    place: tuple[int, int]


_STAGE: ContextVar[_Stage | None] = ContextVar("skfdp_rehearsal", default=None)


def current() -> Rehearsal | None:
    """Return the rehearsal of the audit around this call; None: this is no audit.

    Notes
    -----
    **Guarantees.** None outside of `opened`, in every other thread and process, and
    after it was closed, even where a copy of its context lives on: threads, forks, and
    tasks that outlive it draw real noise.
    """
    stage = _STAGE.get()
    return stage.rehearsal if stage is not None and stage.place == _here() else None


def _here() -> tuple[int, int]:
    """Return the process and the thread of this call."""
    return os.getpid(), threading.get_ident()


@contextlib.contextmanager
def opened(rehearsal: Rehearsal) -> Iterator[None]:
    """Let a rehearsal answer the desks of this thread; for `skfdp.audit` alone.

    Raises
    ------
    RuntimeError
        If one is open already: an audit inside of an audit would see the answers of
        the outer one.
    """
    if current() is not None:
        raise RuntimeError("an audit is running around this one: run one at a time.")
    stage = _Stage(rehearsal, _here())
    token = _STAGE.set(stage)
    try:
        yield
    finally:
        stage.rehearsal = None
        _STAGE.reset(token)
