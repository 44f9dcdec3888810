"""A fit that died is started again at no charge: the key of its noise is in a file."""

from __future__ import annotations

import contextlib
import hmac
import os
import pickle
import secrets
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher
from threadpoolctl import threadpool_info

from skfdp.addresses import public
from skfdp.data.grid import blocks
from skfdp.data.records import Records
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.mechanisms.release import KEEPER, generator_of
from skfdp.privacy.entries import Receipt, package_versions
from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

# A file has 16 bytes of magic, a key and a digest of 32 bytes, and 16 bytes per sum.
_MAGIC, _HEAD, _MARK = b"skfdp-checkpoint", 80, 16


@public("skfdp")
@contextlib.contextmanager
def checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep the key of the noise of one fit, so that a fit that died can start again.

    Within `checkpoint` the same fit gives the same model, to the bit, and is charged
    once. Save the model before the ``with`` ends. See :ref:`resuming`.

    Parameters
    ----------
    path : str or PathLike
        The file of the key, **as secret as the table**. The fit creates it, and the end
        of the ``with`` destroys it. An exception leaves it.

    Notes
    -----
    **Guarantees.** Those of the fit, if only the curator can read the file, and can see
    whether a restart was refused. Before the charge the file has the key and a digest,
    keyed by it, of rows, parameters, events, versions and processor. A fit with another
    digest is refused. The noise of a release follows from the key and the exact sum,
    and the file marks this sum. Another sum in its place is refused. A refusal destroys
    the key.

    Examples
    --------
    >>> import os, tempfile
    >>> import skfdp
    >>> X, y = [[0.1], [0.4], [0.6], [0.9]] * 50, [0, 0, 1, 1] * 50
    >>> model = skfdp.FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.checkpoint")
    >>> with skfdp.checkpoint(path):
    ...     model = model.fit(X, y)
    """
    key = NoiseKey(Path(path).expanduser().resolve())
    token = KEEPER.set(key)
    try:
        yield
        key.destroy()
    finally:
        key.close()
        KEEPER.reset(token)
    if not key.used:
        warn_caller(f"no private fit used {key}: call fit within it.", UtilityWarning)


class NoiseKey:
    """The key of all random numbers of one fit, in a locked file of mode 0600."""

    def __init__(self, path: Path):
        self.path, self.used = path, False
        self._file, self._n_sums = -1, 0

    def __str__(self) -> str:
        return f"checkpoint({str(self.path)!r})"

    def open(
        self, records: Records, facts: Mapping[str, Any], report: PrivacyReport
    ) -> None:
        """Lock the file, and read the key of this fit, or write a new one."""
        if self.used:
            raise ValueError(f"{self} is for one fit: enter a new one for each fit.")
        if records.public.in_partitions or fcntl is None:
            raise ValueError(
                f"{self} works on Linux and macOS, and not with Dask: leave it out."
            )
        self.close()  # of an attempt that failed
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = f"{self} cannot be used ({error.strerror}): give a path of its own."
            raise type(error)(text) from None
        head = os.pread(self._file, _HEAD, 0)
        if not (head.startswith(_MAGIC) or _MAGIC.startswith(head)):
            raise ValueError(f"{self} is a file of another kind: give another path.")
        self.used, self._is_new = True, len(head) < _HEAD  # new: not charged yet
        self._key = secrets.token_bytes(32) if self._is_new else head[16:48]
        self._digest = self.hashed(*_facts(records, facts, report))
        if self._is_new:
            os.fchmod(self._file, 0o600)
            os.pwrite(self._file, _MAGIC + self._key + self._digest, 0)
            os.fsync(self._file)
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)  # so that the name of the file survives a power failure
            os.close(folder)
        elif not hmac.compare_digest(self._digest, head[48:]):
            raise self._refused()

    def hashed(self, *texts: bytes) -> bytes:
        """Return a hash of 32 bytes, keyed by the key."""
        found = blake2b(key=self._key, digest_size=32)
        for text in texts:
            found.update(len(text).to_bytes(8, "little") + text)
        return found.digest()

    def charge(self, ledger: PrivacyLedger, *of_fit: Any, label: str) -> Receipt:
        """Charge the fit, unless the ledger holds the charge of this key."""
        name = self.hashed(b"charge", self._digest).hex()
        try:
            return ledger.charge(*of_fit, label=label, name=name)
        except PrivacyBudgetError:
            if self._is_new:  # so that a fit that costs less can use the path
                self.destroy()
            raise

    def noise(self, name: str, total: np.ndarray, std: float) -> np.random.Generator:
        """Return the stream of the noise of the next sum, and mark the sum."""
        place = _HEAD + _MARK * self._n_sums
        about = repr((name, self._n_sums, std)).encode()
        found = self.hashed(b"sum", about, total.astype("<i8").tobytes())
        marked, self._n_sums = os.pread(self._file, _MARK, place), self._n_sums + 1
        if len(marked) == _MARK and marked != found[_MARK:]:
            raise self._refused()
        os.pwrite(self._file, found[_MARK:], place)
        return generator_of(int.from_bytes(found[:_MARK], "little"))

    def destroy(self) -> None:
        """Remove the file, and overwrite the key."""
        if self.used and self._file >= 0:
            self.path.unlink(missing_ok=True)
            os.pwrite(self._file, bytes(_HEAD), 0)
            os.fsync(self._file)
            self.close()

    def close(self) -> None:
        """Close and unlock the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _refused(self) -> ValueError:
        self.destroy()
        return ValueError(
            f"{self} is of a fit with other rows, parameters, random numbers of a "
            "public model, packages or processor, so its key is destroyed and its "
            "charge stands: fit again, which is charged."
        )


def _facts(
    records: Records, facts: Mapping[str, Any], report: PrivacyReport
) -> Iterator[bytes]:
    """Yield hashes of everything that decides the sums of a fit."""
    found, X, units = records.public, records.X, records.public.units
    blas = {one.get("architecture") for one in threadpool_info()}
    processor = np.show_config(mode="dicts")["SIMD Extensions"], blas
    yield _hash((package_versions(), version("numba"), processor))
    yield _hash((report.subject, [event.to_dict() for event in report.events]))
    for name in sorted(facts.keys() - {"n_jobs"}):
        try:
            yield _hash((name, facts[name]))
        except (pickle.PicklingError, AttributeError, TypeError):  # such as a lambda
            yield _hash((name, str(type(facts[name]))))
    weights = units and (units.weights, units.persons, units.count)
    yield _hash((records.target, records.is_null, found.classes, weights))
    yield _hash(records.exposure)
    if found.sparse:
        yield _hash((X.shape, X.data, X.indices, X.indptr))
    elif found.encoding is not None:  # sums of encoded rows tell more than smooth rows
        yield _hash((X.rows, [(one.places, one.values) for one in X.source.parts]))
    else:
        yield from (_hash(np.asarray(X[block])) for block in blocks(*X.shape))


def _hash(value: Any) -> bytes:
    """Return a hash of a value that is equal in other processes."""
    return NumpyHasher("sha256").hash(value).encode()
