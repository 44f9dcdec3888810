"""Clipped sums of per-example gradients of linear models.

The gradient of a record with row x is the outer product ``residual (x) x``, with norm
``|residual| |x|``. So no array of shape (batch, n_columns * n_outputs) is needed. If
persons have several rows, the gradient of a person is an array of shape (n_outputs,
n_columns), computed for one person after the other.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from skfdp import kernels
from skfdp.data.grid import Integers, sum_unit
from skfdp.data.records import PublicRecords
from skfdp.data.sources import request
from skfdp.data.target import MOST_CLASSES
from skfdp.data.units import Units
from skfdp.kernels.losses import Loss, narrow
from skfdp.privacy import Event
from skfdp.privacy.checks import computed
from skfdp.privacy.events import Relation
from skfdp.queries import Query

if TYPE_CHECKING:
    from skfdp.kernels.contributions import Clip, Task
    from skfdp.queries.products import Products

# A thread costs more time than it saves, if it reads fewer entries, times the outputs.
_ENTRIES_PER_THREAD = 2**22
# Largest residuals as integers, and finest grid steps. As an integer, a clipped
# residual of a row of norm 1 is at most 2**12. Rows of smaller norm may have larger
# residuals, which saturate at 2**15 - 1. In differences to a public loss residuals have
# more bits, because rounding affects the norm of a difference more.
_LARGEST_RESIDUAL, _LARGEST_OF_DIFFERENCES = 2.0**15 - 1, 2.0**29 - 1
_FINEST_RESIDUAL, _FINEST_OF_DIFFERENCES = 2.0**-12, 2.0**-24
_FINEST_OF_PERSONS = 2.0**-36


@dataclasses.dataclass(frozen=True)
class LinearQuery:
    """The sum of the clipped gradients of a linear model.

    A record with row x contributes ``clip(residual (x) x - public_residual (x)
    padded)``, where (x) is the outer product. The second term is the gradient of the
    public loss, if there is one. If `units` has persons, a person contributes
    ``clip(sum of share * residual (x) x)``, summed over the person's rows.

    Notes
    -----
    **Guarantees.** Each vector of `exact_sum` depends on its own record and theta only,
    and has an L2 norm of at most ``clip_norm / unit``, in exact arithmetic. Norms are
    those of the quantised rows, enlarged by a factor of 1 + 1e-9. The clip norm is
    reduced by the largest effect of rounding the residuals. A record with a NaN or
    infinite residual contributes 0.

    Weights, and private exposures, multiply the residuals before clipping. All rows of
    a person are clipped together, and contribute 0 if one of their residuals is NaN or
    infinite (:ref:`persons-and-weights`).

    A replaced record changes the sum by at most `label_bound`, or ``2 clip_norm``
    without it, and any other change of a record by at most `clip_norm`. With `orthant`,
    the bound for a replaced record is ``sqrt(2) clip_norm`` if the target is public,
    every column is public or non-negative, and no rows are padded (:ref:`orthant`). The
    caller must ensure the conditions of `orthant` and `label_bound`. The sum of several
    rows of a person has no public signs, so it refuses `orthant` and padded rows.
    """

    rows: Integers  # the records, bias column included
    #: Class of each record, 0-based, or the target value of each record. Shape: int64
    #: or float64 (n_rows,).
    target: np.ndarray
    loss: Loss  # computes the residuals
    n_outputs: int  # number of columns of the margins: 1 for two classes
    clip_norm: float  # L2 bound of a contribution
    capacity: int  # public bound on the number of rows, from which the grid is computed
    #: Public factor of the residual before clipping; None means no factor. Shape:
    #: float64 (n_classes,).
    class_weight: np.ndarray | None = None
    #: The public part of each record, padded to a full row, for a public loss
    #: (Algorithm 1). Type, centre and scale must be those of `rows`. None means no
    #: public loss.
    padded: Integers | None = None
    public_target: bool = False  # whether the public loss may use the target
    #: Margins of a public model, added to those of theta. Shape: float64 (n_rows,
    #: n_outputs).
    offset: np.ndarray | None = None
    #: Whether to set residuals to 0 if the target fixes the opposite sign. For non-
    #: negative inputs the sensitivity is then smaller; see the guarantees.
    orthant: bool = False
    #: Bound of the change of a contribution if its label is replaced and only the
    #: target is private; at most ``2 clip_norm``. None means ``2 clip_norm``.
    label_bound: float | None = None
    #: Public weights ("shares") of the rows, and the person of each row; set by
    #: `of_units`. None means that each row is a record of weight 1.
    units: Units | None = None
    #: Factor of the residual before clipping, which may be private: the exposure of
    #: each row. Shape: float64 (n_rows,). None means 1.
    exposure: np.ndarray | None = None
    n_jobs: int = 1  # threads over row blocks; their number does not change the result
    n_rows: int = computed()
    #: Shape of theta and of the sum.
    shape: tuple[int, int] = computed()
    #: Whether the rows of a person are clipped together.
    _joins_rows: bool = computed()
    #: Whether the contribution of each row has rank one: `padded` is None, or is the
    #: same object as `rows`.
    _plain: bool = computed()
    #: Cached results of `_clip` and `contributions.flat`, by unit.
    _clips: dict[float, tuple[Clip, tuple]] = computed()

    def __post_init__(self):
        vars(self).update(
            n_rows=self.rows.n_rows,
            shape=(self.n_outputs, self.rows.n_columns),
            _joins_rows=self.units is not None and self.units.joint,
            _plain=self.padded is None or self.padded is self.rows,
            _clips={},
        )
        padded, bounded = self.padded is not None, self.label_bound is not None
        units = self.units
        for wrong, text in (
            (
                padded and self.padded.unit != self.rows.unit,
                "rows and padded rows must share one centre and scale.",
            ),
            (self.orthant and padded, "orthant=True needs padded=None."),
            (
                self.orthant and bounded,
                "orthant=True and label_bound cannot be combined.",
            ),
            (
                self.exposure is not None and (padded or bounded),
                "exposure needs padded=None and label_bound=None.",
            ),
            (
                self.n_outputs > MOST_CLASSES,
                f"n_outputs={self.n_outputs} must be at most {MOST_CLASSES}.",
            ),
            (
                units is not None and units.n_rows != self.n_rows,
                f"units must be those of the {self.n_rows} rows.",
            ),
            (
                self._joins_rows and (self.orthant or padded),
                "persons with several rows cannot have orthant=True or padded rows.",
            ),
        ):
            if wrong:
                raise ValueError(text)

    def __getstate__(self) -> dict:
        """Leave out the addresses in `_clips`, valid in this process alone."""
        return vars(self) | {"_clips": {}}

    def of_units(self, units: Units) -> LinearQuery:
        """Return this query with the weights and persons of `units`."""
        if self.units is units:
            return self
        if self.units is not None:
            raise ValueError(
                "`units` of a query cannot be replaced: make a new query for others."
            )
        return dataclasses.replace(self, units=units)

    def derived(self, make: Callable[[LinearQuery], Query]) -> Query:
        """Return ``make(self)``; with Dask, workers call a pickled `make`."""
        return make(self)

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum; see the guarantees."""
        moved = math.sqrt(2) * self.clip_norm if self.orthant else self.label_bound
        return relation.sensitivity(self.clip_norm, moved)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        if self._joins_rows:
            return person_unit(noise_std, self.clip_norm, self.capacity)
        if self._plain:
            return gradient_unit(self.rows, noise_std, self.clip_norm, self.capacity)
        finest = self.rows.unit * _FINEST_OF_DIFFERENCES
        return sum_unit(noise_std, self.clip_norm, self.capacity, finest)

    def exact_sum(self, theta, batch, unit: float) -> np.ndarray:
        """Return the int64 sum of clipped contributions, in `unit`.

        The shape of theta is (n_outputs, n_columns). `batch` are row numbers; None
        means every row.
        """
        if not np.isfinite(theta).all():
            # Gradients would be useless and inexact. theta is public, so that the zeros
            # reveal nothing.
            return np.zeros(self.shape, dtype=np.int64)
        people, n_jobs = None, 1
        if self.rows.file is not None and batch is not None:
            request(self.rows.file, 2 * self.rows.n_columns, batch)
        if self._joins_rows:
            batch, people = self.units.by_person(batch)
        if unit not in self._clips:
            from skfdp.kernels.contributions import flat

            clip = self._clip(unit)
            self._clips[unit] = clip, flat(self._task, clip)
        asked = theta, batch, people, *self._clips[unit]
        size = self.n_rows if batch is None else len(batch)
        if self.n_jobs > 1:
            work = size * self.rows.n_entries * self.n_outputs
            n_jobs = min(self.n_jobs, 1 + work // _ENTRIES_PER_THREAD, max(1, size))
        if n_jobs == 1:
            last = size if people is None else len(people) - 1
            return self._partial_sum(*asked, self._workspaces[0], 0, last)
        ends = size * np.arange(n_jobs + 1) // n_jobs
        if people is not None:  # about the same number of rows, and whole persons
            ends = np.searchsorted(people, ends)
        some = functools.partial(self._partial_sum, *asked)
        ends = ends.tolist()
        parts = self._threads.map(some, self._workspaces[:n_jobs], ends[:-1], ends[1:])
        return np.sum(list(parts), axis=0)

    def public_gradient(self, theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the mean gradient of the public loss over a public batch, float64.

        Only the padded rows are read, and the target if the public loss may use it.
        """
        from skfdp.queries.products import products

        work = products(self.padded, self.n_outputs)
        work.start(theta)
        total = np.zeros(self.shape)
        for part in work.parts(batch, 0, len(batch)):
            total += work.pull(part, self._residual(work, part, self._public_task))
        n_units = self.n_rows if self.units is None else self.units.n_units
        return total * (self.n_rows / n_units / len(batch))

    @functools.cached_property
    def _workspaces(self) -> list[tuple[Products, ...]]:
        """The memory of each thread: products of rows, and of other padded rows."""
        # numba is loaded by the first fit, not by `import skfdp`.
        from skfdp.queries import products

        kernels.compiles = self.n_rows * math.prod(self.shape) >= kernels.SMALL

        # Clipping bounds the entries of a difference, but not those of its two terms.
        short = self._plain and not self._joins_rows
        of = functools.partial(products.products, n_outputs=self.n_outputs, short=short)
        tables = (self.rows,) if self._plain else (self.rows, self.padded)
        return [tuple(map(of, tables)) for _ in range(self.n_jobs)]

    @functools.cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_jobs)

    @functools.cached_property
    def _inner(self) -> np.ndarray:
        """The exact inner product of each row and its padded row."""
        return self.rows.inner_products(self.padded)

    def _partial_sum(self, theta, batch, people, clip, given, work, start, stop):
        # Set here, because each thread has its own error state. An overflow warning
        # would reveal private margins.
        with np.errstate(all="ignore"):
            if people is None and self.padded is None:
                return work[0].clipped_sum(theta, batch, start, stop, given)
            for one in work:
                one.start(theta)
            if people is not None:
                rows = work[0]
                for part, ends in rows.parts_of_persons(batch, people, start, stop):
                    residual = self._residual(rows, part, self._task)
                    rows.add_persons(part, ends, residual, clip)
                return rows.total()
            return self._sum_of_differences(work, batch, start, stop, clip)

    def _clip(self, unit: float) -> Clip:
        """Return the bounds of a contribution, in units of the integers of rows."""
        from skfdp.kernels.contributions import Clip, PerRow, limits_of

        rows = self.rows
        largest = _LARGEST_RESIDUAL if self._plain else _LARGEST_OF_DIFFERENCES
        norms = self.clip_norm / rows.unit, unit / rows.unit
        clip = Clip(PerRow(*rows.norms_in_memory), *norms, largest)
        # Norms beside the rows are read with them, in random order. A table in a file
        # may have many rows.
        apart = clip.squared_norms.step == 1 and rows.file is None
        if self._plain and not self._joins_rows and apart:
            limits = PerRow(limits_of(clip, self.n_outputs), 1, 0)
            clip = clip._replace(limits=limits)
        return clip

    def _sum_of_differences(self, work, batch, start, stop, clip):
        """Return the sum of clipped differences to gradients of the public loss."""
        from skfdp.kernels import contributions

        rows, padded = work[0], work[-1]
        public_norms = contributions.PerRow(*self.padded.norms_in_memory)
        for part in rows.parts(batch, start, stop):
            residual = self._residual(rows, part, self._task)
            if padded is rows:
                residual -= self._residual(rows, part, self._public_task)
                contributions.clip_residuals(residual, part, clip)
            else:
                public = self._residual(padded, part, self._public_task)
                norms = public_norms, self._inner
                contributions.clip_differences(residual, public, part, clip, *norms)
                padded.add(part, -public)
            rows.add(part, residual)
        return sum([one.total() for one in work])

    def _residual(self, rows: Products, part: np.ndarray, task: Task) -> np.ndarray:
        """Return the residuals of one block, float64 (n_outputs, len(part))."""
        from skfdp.kernels.contributions import weighted_residuals

        margins = np.empty((self.n_outputs, len(part)))
        rows.margins(part, margins)
        weighted_residuals(margins, part, task)
        return margins

    @functools.cached_property
    def _task(self) -> Task:
        """Parameters of the kernels that compute residuals from margins."""
        from skfdp.kernels.contributions import LOSS_LEAVES, PerRow, Task

        weight = np.empty(0)
        if self.class_weight is not None and (self.class_weight != 1).any():
            weight = np.asarray(self.class_weight, dtype=np.float64)
        offset = np.empty((0, 0)) if self.offset is None else self.offset
        share = np.empty(0) if self.units is None else self.units.shares
        if self.exposure is not None:
            share = self.exposure * share if share.size else self.exposure
        return Task(
            kind=LOSS_LEAVES.index(self.loss.leaf),
            parameter=self.loss.parameter,
            target=PerRow(*self.rows.target_in_memory(narrow(self.target))),
            class_weight=weight,
            offset=np.ascontiguousarray(offset, dtype=np.float64),
            orthant=self.orthant,
            share=share,
        )

    @property
    def _public_task(self) -> Task:
        """Parameters of the kernels that compute the residuals of the public loss."""
        if self.public_target:
            return self._task
        none = self._task.target._replace(memory=self._task.target.memory[:0])
        return self._task._replace(
            parameter=self.loss.target_free.parameter,
            target=none,
            class_weight=np.empty(0),
        )


def gradient_unit(
    rows: Integers, noise_std: float, clip_norm: float, capacity: int
) -> float:
    """Return the grid unit of a sum of gradients of rank one.

    Clipping leaves a relative margin of 1e-9. So every entry of a contribution of
    `GridRows` is strictly below `products.LARGEST_SHORT_PRODUCT` units.
    """
    finest = clip_norm * max(_FINEST_RESIDUAL * rows.unit, rows.finest)
    return sum_unit(noise_std, clip_norm, capacity, finest, rows.largest_std)


def person_unit(noise_std: float, clip_norm: float, capacity: int) -> float:
    """Return the grid unit of a sum of gradients of persons with several rows.

    Every entry of a contribution is strictly below ``2**ENTRY_BITS`` units.
    """
    return sum_unit(noise_std, clip_norm, capacity, clip_norm * _FINEST_OF_PERSONS)


# Sensitivities of sums of clipped gradients to a replaced record.
#
# The sensitivity is always at most twice the clip norm. The two functions below give
# smaller bounds. They check conditions on public and declared facts.
# :ref:`sensitivities` has the proofs.


def has_public_signs(public: PublicRecords, loss: Loss) -> bool:
    """Whether the signs of a gradient's entries are public (:ref:`orthant`).

    **Guarantees.** If the public target determines the signs of the residuals, and the
    input scaler maps each private column to [0, 1], a replaced private part moves a
    clipped gradient by at most ``sqrt(2) clip_norm``. This does not hold if private
    columns are centred, or if anything is subtracted before clipping.
    """
    return public.has_target and loss.sign_fixed and public.private_bounded


def label_bound(
    public: PublicRecords, loss: Loss, rows: Integers, event: Event
) -> float:
    """Return the sensitivity to replaced labels, if every column is public.

    **Guarantees.** The contributions of a row x of weight w for two labels differ by at
    most ``|residual - residual'| w |x|`` before they are quantised, and those of a
    person by the sum over the person's rows (:ref:`label-loop`). To this are added the
    largest effects of rounding: of residuals, of the clip factor (a relative 1e-8), and
    for persons `_rounding_of_persons`.

    `rows` are the public rows of the query, and `event` a descent with sensitivity ``2
    clip_norm``. A smaller sensitivity needs less noise, so its grid is the coarsest.
    """
    if loss.label_reach is None or not (public.class_weight == 1).all():
        return event.sensitivity
    units, clip_norm = public.units, event.clip_norm
    # A label can also be nulled. The contribution then becomes zero.
    largest = loss.max_residual(public.n_classes)
    apart = max(loss.label_reach(public.n_classes), largest)
    lengths = np.sqrt(rows.squared_norms) * rows.unit
    shared = lengths if units is None else lengths * units.shares
    noise_std = event.step_stds.max()
    if units is not None and units.joint:
        shared = np.bincount(units.persons, shared)
        unit = person_unit(noise_std, clip_norm, public.capacity)
        slack = _rounding_of_persons(public, rows, lengths, unit, largest)
    else:
        unit = gradient_unit(rows, noise_std, clip_norm, public.capacity)
        longest = lengths.max(initial=0.0)
        slack = math.sqrt(public.n_outputs) * unit / rows.unit * longest
    bound = apart * shared.max(initial=0.0) * (1 + 1e-12) + slack + 1e-8 * clip_norm
    return min(event.sensitivity, bound)


def _rounding_of_persons(public, rows, lengths, unit: float, largest: float) -> float:
    """Return a bound of the rounding errors in a difference of two contributions.

    The contributions are those of one person, computed by `kernels.persons`. Let top be
    the product of the number of a person's rows, the norm of the longest row and the
    largest residual. Residuals are rounded to integers of a unit below ``2**-49 top``,
    and the norm of the sum, for K outputs and D columns, is rounded up by less than
    ``2**-23 sqrt(K) sqrt(K D) top``; entries are truncated.
    """
    units, n_outputs = public.units, public.n_outputs
    root = math.sqrt(n_outputs * rows.n_columns)
    counts, longest = np.bincount(units.persons), np.zeros((2, units.n_units))
    np.maximum.at(longest[0], units.persons, lengths + rows.unit)
    np.maximum.at(longest[1], units.persons, units.shares * largest)
    top = float((counts * longest[0] * longest[1]).max())
    total = float(np.bincount(units.persons, lengths).max()) / rows.unit
    of_residuals = 2.0**-49 * math.sqrt(n_outputs) * total
    of_norm = 2.0**-23 * math.sqrt(n_outputs) * root
    return 2 * (top * (of_residuals + of_norm) + root * unit)
