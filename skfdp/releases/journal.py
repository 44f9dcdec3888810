"""The journal of a fit that may be stopped: every release that it was given.

What a fit does between two releases follows from releases and public facts. So whoever
runs a fit again, and gets the releases of before from here, comes to where it stopped,
whatever the method: a desk with a journal reads no private row for these.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from skfdp.privacy.leases import Lease
from skfdp.records.guards import warn_caller
from skfdp.releases.checkpoint_file import CheckpointFile

# Fits that came to their end in this process. In another one the same call gives the
# model again, which may have been lost; here it would pass for one of other rows.
_ENDED: set[str] = set()
# What is computed again on another machine, or by another number of threads, differs by
# rounding.
_ROUNDING = 1e-6


class Journal:
    """The releases of one fit, in a file; a context that holds it, and nobody else.

    Parameters
    ----------
    path : str or PathLike
        The checkpoint; made where it does not exist.
    promise : mapping of str to JSON values
        Public facts that the fit has to have in common with the one that began.

    Attributes
    ----------
    fit : str
        Random name of the fit.
    coins : bytes
        Random key of public coins, which have to be the same again. Not a secret.
    begun : bool
        Whether the file holds a release that was given out.

    Raises
    ------
    ValueError
        If the file is no checkpoint, damaged, or that of another fit.
    OSError
        If another fit holds it, or it cannot be written.

    Notes
    -----
    **Guarantees.**

    * The file holds what was released, and public facts: no key of a private stream, no
      coins of a batch, no exact sum, no digest of private data.
    * `keep` returns when its release is on disk: nobody has seen a release that a
      resumed fit would draw again.
    * A release is readable when all of it is there, and is then the one of its
      position, for ever. One that was being written when its process was killed is
      never readable, and the resumed fit draws another one.
    * With a lease the ledger counts a release in the same instant in which it becomes
      readable, since the ledger keeps its seal. Of several copies of a checkpoint one
      goes on; what another one has computed is never readable.
    * Without a lease one file is held by one fit at a time, and goes on from where it
      is. A copy of it cannot be seen.
    """

    def __init__(self, path: str | os.PathLike[str], promise: Mapping[str, Any]):
        self._process = os.getpid()
        self._file = CheckpointFile(path)
        self._lease: Lease | None = None
        self._next = self._n_new = 0
        try:
            promise = json.loads(json.dumps(promise))
            self._new = self._file.facts is None
            if self._new:
                coins = secrets.token_hex(32)
                facts = {"fit": secrets.token_hex(16), "coins": coins}
                self._file.begin({**facts, "promise": promise})
            facts = self._file.facts
            self.fit, self.coins = facts["fit"], bytes.fromhex(facts["coins"])
            self._compare(promise, facts["promise"])
            if self.fit in _ENDED:
                raise ValueError(
                    f"checkpoint={str(self._file.path)!r} is of a fit that has ended "
                    "in this process, and has its model: give each fit a path of its "
                    "own, or remove the file, so that a new fit begins."
                )
        except BaseException:
            self.close()
            raise
        self.begun = self._file.has_seal

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._lease is not None:
                self._lease.end(self._next)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _compare(self, asked: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
        """Raise ValueError unless the facts are those of the fit that began."""
        others = [name for name in asked | kept if asked.get(name) != kept.get(name)]
        if others:
            raise ValueError(
                f"checkpoint={str(self._file.path)!r} is of a fit with another "
                f"{', another '.join(others)}: give what that fit was given, or "
                "another path, where a new fit begins."
            )

    def settle(self, lease: Lease | None) -> None:
        """Find out which release was the last one, before any is asked for.

        Parameters
        ----------
        lease : Lease or None
            None: the file alone decides.

        Raises
        ------
        PrivacyBudgetError
            If the ledger has counted others: the file, or the ledger, is an older copy.
        """
        self._lease = lease
        if lease is None:
            self._file.drop_torn()
        else:
            self._file.agree(*lease.newest())

    def given(
        self, label: str, stream: str, shape: tuple[int, ...], theta: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the next release of before, None if there are no more.

        Parameters
        ----------
        label, stream : str
        shape : tuple of int
        theta : ndarray or None
            Where it is asked for.

        Raises
        ------
        ValueError
            If it was another one, or asked for elsewhere.
        """
        if self._next == len(self._file):
            return None
        about, _, values = self._file.read(self._next).partition(b"\n")
        kept, asked = json.loads(about), _about(label, stream, shape, theta)
        same = all(kept[name] == asked[name] for name in ("label", "stream", "shape"))
        if not (same and _close(kept["theta"], asked["theta"])):
            raise ValueError(
                f"checkpoint={str(self._file.path)!r} is of a fit that asked for "
                f"release {self._next + 1} otherwise, or at other weights: give what "
                "that fit was given, public values and versions of packages included, "
                "or another path, where a new fit begins."
            )
        self._next += 1
        found = np.frombuffer(values, dtype="<f8", count=math.prod(shape))
        return found.reshape(shape).astype(np.float64)

    def keep(
        self, label: str, stream: str, theta: np.ndarray | None, values: np.ndarray
    ) -> None:
        """Write the next release; when this returns it may be seen.

        Raises
        ------
        PrivacyBudgetError
            If another copy of the checkpoint went on meanwhile.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "checkpoint is held by the process that opened it, and this is a fork "
                "of it: go on in that one."
            )
        about = json.dumps(_about(label, stream, values.shape, theta)).encode()
        released = np.ascontiguousarray(values, dtype="<f8").tobytes()
        count = None if self._lease is None else self._lease.advance
        self._file.append(about + b"\n" + released, count)
        self._next += 1
        self._n_new += 1

    def forget(self) -> None:
        """Remove the file if it was made just now, for a fit that was not charged."""
        if self._new:
            self._file.remove()

    def finish(self) -> None:
        """Tell that the fit has its model; the file stays, and gives it again."""
        _ENDED.add(self.fit)
        if not self._n_new:
            warn_caller(
                f"checkpoint={str(self._file.path)!r} held every release of this fit: "
                "the model is the one that the file began with, and has learnt nothing "
                "from rows that are new; remove the file where a new fit is wanted.",
                UserWarning,
            )


def _about(
    label: str, stream: str, shape: tuple[int, ...], theta: np.ndarray | None
) -> dict[str, Any]:
    """Return what tells a release from others: public facts, and earlier releases."""
    sums = None
    if theta is not None:
        sums = [theta.size, float(np.sum(theta)), float(np.sum(np.square(theta)))]
    return {"label": label, "stream": stream, "shape": list(shape), "theta": sums}


def _close(one: list[float] | None, other: list[float] | None) -> bool:
    """Whether the sums of two weights, and of their squares, differ by rounding."""
    if one is None or other is None or one[0] != other[0]:
        return one == other
    size, total, squares = one
    near = math.isclose(squares, other[2], rel_tol=_ROUNDING)
    return near and abs(total - other[1]) <= _ROUNDING * math.sqrt(size * squares)
