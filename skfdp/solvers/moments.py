"""The method of second moments: least squares from two releases.

What is public of a record, z (a constant among it), is exact and free in every product
with itself. What is private is released in two steps: the products of the private
columns p and a private target y with z, which project both onto z; then the second
moments of what is left of them,

    p~ = p - B z,    y~ = y - C z,    prediction = C z + b p~.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from skfdp.data.grid import GRID, GridRows, blocks, squared_norms, sum_unit
from skfdp.data.input_scaler import Coordinates
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import SPREAD, TargetMap
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.events import Relation
from skfdp.queries import chosen, no_rows
from skfdp.queries.statistics import clipped
from skfdp.solvers import parameters
from skfdp.solvers.centring import Moments
from skfdp.solvers.method import Budget, Plan, existing
from skfdp.solvers.target_scales import OneRelease
from skfdp.solvers.whitening import EXPLAINED, water_filling

# Public rules of the moments: where rows are cut, and how releases share the budget.


#: What an error of the projection of the private columns counts, over one of weights.
PROJECTION = 0.2


@dataclasses.dataclass(frozen=True)
class MomentRules:
    """Public numbers of a fit by moments, in units of mean lengths and spreads.

    All lengths grow with the signal, more slowly than the noise falls: nothing is cut
    at last, and the limit is unbiased. The signal is ``mu n``: records over the noise
    of a sum of unit vectors; n is the number whose plain sum is as noisy, where rows
    have weights. A constant counts as a public column.
    """

    signal: float
    n_private: int
    n_public: int
    has_target: bool = False

    @property
    def hope(self) -> float:
        """What the second moments may tell of the private columns, from 0 to 1.

        Where it is small, the mean of the target is all that the budget can buy: what
        serves the private columns then gets little of it.
        """
        return min(1.0, self.signal / (10 * self.n_private)) ** 2

    @property
    def scale_share(self) -> float:
        """Share of the budget for each scale.

        An error of about 1/16 of half of the bounds, where it pays: they may be wide.
        """
        return self.hope * min(0.15, max(0.02, (16 / self.signal) ** 2))

    @property
    def target_share(self) -> float:
        """Share of the squared norm of the first release that a private target has."""
        return 1 - 0.5 * self.hope

    @property
    def row_reach(self) -> float:
        """Length beyond which private rows are shortened in the first release."""
        return max(2.0, (self.signal / (100 * self.n_private)) ** (1 / 3))

    @property
    def square_reach(self) -> float:
        """Length of what is left of a row beyond which its record counts less."""
        return max(1.0, (self.signal / (30 * self.n_private**1.5)) ** (1 / 3))

    @property
    def target_reach(self) -> float:
        """Distance from the mean, in spreads, beyond which targets are cut."""
        return max(1.5, math.sqrt(self.signal / (20 * self.n_private)))

    @property
    def cross_share(self) -> float:
        """Share of the first release in what is left of the budget.

        It minimises a bound of the risk: of the mean of the target, which nothing
        limits; of the weights on public columns, and of those on private ones, either
        of which can be left out. With a public target the first release only projects
        the private columns, and its error matters less.
        """
        share = np.linspace(0.05, 0.99, 95)
        unit = (2 * 2 / self.signal) ** 2
        constant, columns = unit, (self.n_public - 1) ** 2 * unit
        if self.has_target:
            columns *= PROJECTION
        rest = self.n_private**2 * unit
        risk = constant / share + columns / (share + columns)
        risk += rest / (1 - share + rest)
        return float(share[np.argmin(risk)])


# The public side of mixed moments: rows of norm 1 at most, and their weights.


#: Noise of a release that shares its budget with others, in what the whole one buys.
NOISE = 8.0
#: Share of the variance of a target that no linear model explains but weights may bend.
CURVED = 0.1
# Directions below this share of the largest variance are rounding.
_NEGLIGIBLE = 1e-9
# Quantiles of the lengths that rows may be compared with.
_QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
# Rows and targets have a norm of at most 1 up to rounding; this covers the rounding.
_SHRINK = 1 - 1e-9


class PublicSide:
    """``z = (constant, basis' (u - mean))`` of public columns u, and its weights.

    All of it is exact and free. Each record has the weight ``min(1, 1 / |z|)`` in the
    loss: it bounds what a record contributes, and does not bend a linear relation. The
    weighted rows are `grid`, and `moments` is the mean of ``weight z z'``.

    ``rows(block)`` returns the public columns of a slice of records, and `shape` their
    numbers. Without columns nothing is read but the number of records, which sizes the
    rows of the sum. `signal` is that of `MomentRules`, and `shares` say how often each
    record counts in the means. Without an intercept `constant` is empty.
    """

    def __init__(
        self,
        rows: Callable[[slice], np.ndarray],
        shape: tuple[int, int],
        *,
        intercept: bool,
        signal: float,
        shares: np.ndarray | None = None,
    ):
        n_rows = shape[0]
        shares = np.ones(n_rows) if shares is None else shares
        self.mean, basis, width = _directions(rows, shape, intercept, signal, shares)
        share = _constant_share(width, signal) if intercept else 0.0
        self.constant = np.full(int(intercept), np.sqrt(share))
        if basis.shape[1]:
            lengths = np.empty(n_rows)
            for block in blocks(*shape):
                u = rows(block) - self.mean
                lengths[block] = np.sqrt(squared_norms(u @ basis))
            root = np.sqrt(1 - share)
            noise = width / signal / root
            basis = basis * (root / _longest(lengths, shares, noise))
        self.basis = basis
        self.weight = np.empty(n_rows)

        def short(numbers: np.ndarray) -> np.ndarray:
            block = slice(numbers[0, 0], numbers[-1, 0] + 1)
            z = self.rows(rows(block))
            norm = np.sqrt(squared_norms(z))
            self.weight[block] = _SHRINK / np.maximum(norm, 1.0)
            return z * self.weight[block, None]

        width = len(self.constant) + basis.shape[1]
        numbers = np.arange(n_rows)[:, None]
        self.grid = GridRows.build(numbers, short, n_features=width)
        self.moments = np.diag(self.constant**2)
        if shape[1]:  # else the number of records may be private: no mean over them
            total = np.zeros((width, width))
            for block in blocks(n_rows, max(width, shape[1])):
                z = self.rows(rows(block)) * shares[block, None]
                total += (self.grid.values[block] * GRID).T @ z
            self.moments = (total + total.T) / 2 / shares.sum()

    def rows(self, u: np.ndarray) -> np.ndarray:
        """Return z of some records, not shortened."""
        first = np.broadcast_to(self.constant, (len(u), len(self.constant)))
        return np.column_stack([first, (u - self.mean) @ self.basis])

    def fold(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return weights on u and a constant, given weights on z."""
        split = len(self.constant)
        on_u = self.basis @ weights[split:]
        return on_u, float(self.constant @ weights[:split] - on_u @ self.mean)


def _directions(
    rows, shape, centre: bool, signal: float, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the mean, the principal directions in shares of 1, and their number.

    Shares are those of the label statistic: the noise leaves the small directions out,
    and little noise makes all of them alike. A tenth goes by the roots of the
    variances, so that none is lost. The number is that of equal shares.
    """
    n_records, width = float(shares.sum()), shape[1]
    mean, square = np.zeros(width), np.zeros((width, width))
    if width and centre:
        for block in blocks(*shape):
            mean += (rows(block) * shares[block, None]).sum(axis=0)
        mean /= n_records
    for block in blocks(*shape) if width else ():
        u = rows(block) - mean
        u *= np.sqrt(shares[block, None])
        square += u.T @ u
    if not width or not square.any() or not np.isfinite(square).all():
        return mean, np.zeros((width, 0)), 0.0  # no columns, or beyond float64
    values, vectors = eigh(square / n_records)
    kept = values > _NEGLIGIBLE * values[-1]
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    root = np.sqrt(values)
    prior = EXPLAINED * values / values.sum()
    share = water_filling(prior, NOISE / 2 / signal, n_records)
    share = 0.9 * share / share.sum() + 0.1 * root / root.sum()
    return mean, vectors * np.sqrt(share / values), float(1 / (share @ share))


def _constant_share(width: float, signal: float) -> float:
    """Return the share of the squared norm of a public row that its constant has.

    With k columns beside it the noise of a prediction has a variance in proportion to
    ``1 / share + k**2 / (1 - share)``, which is least at ``1 / (1 + k)``. Where the
    columns have little hope, the constant has the most.
    """
    if not width:
        return 1.0
    return 1 - min(1.0, signal / (10 * width)) ** 2 * width / (1 + width)


def _longest(lengths: np.ndarray, shares: np.ndarray, noise: float) -> float:
    """Return the length beyond which public rows weigh less.

    A long one costs noise, a short one weight, and the mean weight that is lost is what
    a model that is not linear may be biased by.
    """
    best, least = 1.0, np.inf
    for length in np.quantile(lengths, _QUANTILES):
        length = max(length, 1e-6)
        weight = np.minimum(1.0, length / np.maximum(lengths, 1e-300))
        weight = float(np.average(weight, weights=shares))
        variance = (NOISE * noise * length / weight) ** 2
        risk = variance / (1 + variance) + CURVED * (1 - weight) ** 2
        if risk < least:
            best, least = length, risk
    return best


# Ridge regression from noisy moments; post-processing alone.
#
# Every penalty is chosen by Stein's lemma (1981): for Gaussian noise Z in a statistic
# S, ``E <w(S), Z> = std**2 E div w(S)``, so that the risk of w on the exact statistic
# has an unbiased estimate from released numbers, for free. No penalty is too large: the
# infinite one, which is the constant, has risk 0 and is among them.


#: Penalties over the size of the matrix, where only the vector is noisy.
_FACTORS = tuple(10.0 ** (np.arange(-12, 7) / 2))
#: Penalties over the spectral norm of the noise, where the matrix is noisy, too.
_SPECTRAL_FACTORS = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30, 100)
# Below this one the smallest eigenvalue must allow it.
_USUAL = 0.5
#: Standard deviations by which an estimated risk must be below that of no weights.
CAUTION = 1.0
#: Estimates that are noisier say nothing: no model of a target of spread 1 gains more
#: than 1/2.
MOST_SPREAD = 0.15


def on_exact(
    gram: np.ndarray,
    cross: np.ndarray,
    noise_std: float,
    fixed: np.ndarray,
    *,
    variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for noisy cross moments with rows whose moments are exact.

    Each entry of `cross`, of shape (n_outputs, k), has noise of `noise_std`; `fixed` is
    the penalty of the columns that are not penalised otherwise, NaN elsewhere, and
    `variance` a lower bound of that of an output. Returned second is ``inverse`` with
    the penalty that was chosen: ``weights = cross @ inverse``.
    """
    free = np.isnan(fixed)
    if not len(fixed):
        return np.zeros(cross.shape), np.zeros((0, 0))
    size = float(np.trace(gram)) / len(gram) or 1.0
    steepest = 1e12 * size
    best, least, chosen = np.zeros(cross.shape), np.inf, np.zeros(gram.shape)
    # A penalty below noise_std**2 would fit weights of size 1, the largest to be
    # expected for a target of spread 1.
    for strength in (steepest, *sorted((f * size for f in _FACTORS), reverse=True)):
        strength = max(strength, noise_std**2)
        penalty = np.where(free, strength, fixed)
        inverse = np.linalg.inv(gram + np.diag(penalty))
        weights = cross @ inverse
        fit = ((weights @ gram) * weights).sum() / 2 - (weights * cross).sum()
        risk = float(fit) + noise_std**2 * len(cross) * float(np.trace(inverse))
        spread = noise_std * float(np.linalg.norm(weights[:, free]))
        if spread > MOST_SPREAD * variance and strength < steepest:
            continue
        if risk + CAUTION * spread < least:
            best, least, chosen = weights, risk + CAUTION * spread, inverse
    return best, chosen


def on_noisy(
    gram: np.ndarray,
    cross: np.ndarray,
    pair_std: float,
    cross_std: float,
    variance: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for noisy moments, zero where the noise hides the signal.

    `variance` is a lower bound of that of the target. Returned second is ``inverse``
    with the penalty that was chosen: ``weights = inverse @ cross``.
    """
    d = len(cross)
    best, least, chosen = np.zeros(d), 0.0, np.zeros(gram.shape)
    if not d:
        return best, chosen
    values, vectors = eigh(gram)
    noise = 2 * math.sqrt(d) * pair_std  # about its spectral norm
    for factor in _SPECTRAL_FACTORS:
        penalty = max(factor * noise, cross_std**2)
        # AdaSSP (Wang 2018) pays for the smallest eigenvalue, which was released here.
        if factor < _USUAL and values[0] + penalty < noise / 2:
            continue
        weights, risk = ridge_with_risk(
            values, vectors.T @ cross, penalty, pair_std, cross_std
        )
        # The estimate is as noisy as the moments are in the direction of w.
        square = float(weights @ weights)
        spread = math.sqrt(cross_std**2 * square + pair_std**2 * square**2 / 2)
        if spread < MOST_SPREAD * variance and risk + CAUTION * spread < least:
            best, least = vectors @ weights, risk + CAUTION * spread
            chosen = (vectors / (np.maximum(values, 0.0) + penalty)) @ vectors.T
    return best, chosen


def ridge_with_risk(
    values: np.ndarray,
    cross: np.ndarray,
    penalty: float,
    pair_std: float,
    cross_std: float,
) -> tuple[np.ndarray, float]:
    """Return ``h(v) c`` for ``h(v) = 1 / (max(v, 0) + penalty)``, and its risk.

    The risk is ``w'Gw / 2 - w'c`` on the exact moments, estimated from the noisy ones
    without bias. With E the noise of G, `pair_std` beside the diagonal and sqrt(2) of
    it on it, Stein's lemma gives

        E w'Ew = 2 pair_std**2 E (sum_ij h_ij w_j c_j + sum_i h_ii w_i c_i),

    where ``h_ij`` are the differences of h over those of v, the eigenvalues of the
    noisy matrix. The vectors are in its eigenvectors.
    """
    inverse = 1 / (np.maximum(values, 0.0) + penalty)
    weights = inverse * cross
    slopes = _slopes(values, inverse)
    moved = float((slopes.sum(axis=0) + np.diagonal(slopes)) @ (weights * cross))
    risk = float(values @ weights**2) / 2 - float(weights @ cross)
    return weights, risk - pair_std**2 * moved + cross_std**2 * float(inverse.sum())


def _slopes(values: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return the differences of inverse over those of values; the derivatives between.

    That of ``1 / (max(v, 0) + penalty)`` is ``-inverse**2`` for positive v, else 0.
    """
    apart = values[:, None] - values
    close = np.abs(apart) <= 1e-9 * np.abs(values).max(initial=1e-300)
    change = inverse[:, None] - inverse
    same = -inverse[:, None] * inverse * (values > 0)
    return np.where(close, same, change / np.where(close, 1.0, apart))


#: Integer weights of the squares, of the products of two columns, and of the products
#: with the target. 17 / 12 is just above sqrt(2): see the guarantees.
SQUARE, PAIR, CROSS = 12, 17, 12


@dataclasses.dataclass(frozen=True)
class MomentSum:
    """The sum of ``[12 x_i**2, 17 x_i x_j (i < j), 12 x_i y]`` over the records.

    The columns of `rows` are those of x, then y; see `build`. `capacity` is a public
    bound on their number, for the grid.

    Notes
    -----
    **Guarantees.** With ``|x| <= 1`` and ``|y| <= 1`` the contribution v has ``|v|**2
    <= a |x|**4 + b |x|**2 y**2 <= a + b``, where ``a = 17**2 / 2`` and ``b = 12**2``,
    and replacing a record moves the sum by at most ``sqrt(a) (sqrt(2) + b / (a
    sqrt(2)))``, for ``b <= 2 a``; see the page "Second moments" of the documentation.
    Both hold in exact integers: rows are truncated toward zero to a grid first, and
    products and sums of integers are exact. NaN counts as 0, and x that leaves float64
    as no record.
    """

    rows: GridRows
    capacity: int

    @classmethod
    def planned(cls) -> MomentSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(no_rows(), 0)

    @classmethod
    def build(
        cls,
        n_rows: int,
        n_columns: int,
        joined: Callable[[slice], np.ndarray],
        capacity: int,
    ) -> MomentSum:
        """Shorten each record and quantise it.

        A record is scaled as a whole, x and y by one factor, until ``|x| <= 1``: a
        linear relation between them stays what it is. Then y is clipped to [-1, 1].
        ``joined(block)`` returns x, then y, of a slice of records, each by itself.
        """

        def shortened(index: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):  # a warning would tell of a private value
                rows = np.nan_to_num(joined(slice(index[0, 0], index[-1, 0] + 1)))
                norm = np.sqrt(squared_norms(rows[:, :-1]))
                rows = rows * (_SHRINK / np.maximum(norm, 1.0))[:, None]
                rows[:, -1] = np.clip(rows[:, -1], -1.0, 1.0)
            return rows

        numbers = np.arange(n_rows)[:, None]
        return cls(GridRows.build(numbers, shortened, n_features=n_columns), capacity)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return self.rows.n_rows

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum: d squares, d (d - 1) / 2 products, d products with y."""
        d = self.rows.values.shape[1] - 1
        return (2 * d + d * (d - 1) // 2,)

    @property
    def clip_norm(self) -> float:
        """L2 bound of a contribution."""
        return math.sqrt(PAIR**2 / 2 + CROSS**2)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        a, b = PAIR**2 / 2, CROSS**2
        replaced = math.sqrt(a) * (math.sqrt(2) + b / (a * math.sqrt(2)))
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum, an even power of two."""
        unit = sum_unit(noise_std, self.clip_norm, self.capacity, GRID**2)
        return 4.0 ** np.ceil(np.log2(unit) / 2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every record."""
        (values,) = chosen(batch, self.rows.values)
        coarser = GRID / math.sqrt(unit)  # at most 1: drops bits of the rows
        d = values.shape[1] - 1
        total = np.zeros((d, d + 1), dtype=np.int64)
        for block in blocks(*values.shape):
            # 4096 products of 15 + 15 bits stay below 2**53: exact in float64.
            rows = np.trunc(values[block] * coarser)
            total += (rows[:, :-1].T @ rows).astype(np.int64)
        upper = np.triu_indices(d, 1)
        return np.concatenate(
            [SQUARE * np.diagonal(total), PAIR * total[upper], CROSS * total[:, d]]
        )


def unpacked(total: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the symmetric matrix of x x' and the vector of x y of a released sum."""
    gram = np.zeros((d, d))
    gram[np.triu_indices(d, 1)] = total[d:-d] / PAIR
    gram += gram.T
    gram[np.diag_indices(d)] = total[:d] / SQUARE
    return gram, total[-d:] / CROSS


@dataclasses.dataclass(frozen=True)
class OuterSum:
    """The sum of ``z q'`` over the records, z being public and q private.

    ``private(index)`` returns float64 rows q of a slice or an array of records, each
    record by itself, with `n_private` columns. It is asked for a block at a time, so
    that no copy of the table is kept. The rows z are `public`, int16 in units of GRID;
    `capacity` is a public bound on their number, for the grid.

    Notes
    -----
    **Guarantees.** Rows q and z are shortened here to a norm of 1, if they are longer;
    NaN counts as 0, and a row that leaves float64 as no row. So a contribution has norm
    ``|z| |q| <= 1``. Neighbours share z, so that a replaced record moves the sum by
    ``|z| |q - q'| <= 2``, and one that is nulled or removed by at most 1. In exact
    integers: both rows are truncated toward zero, and products and sums of integers are
    exact.
    """

    private: Callable[[slice | np.ndarray], np.ndarray]
    n_private: int
    public: np.ndarray
    capacity: int
    clip_norm: float = 1.0

    @classmethod
    def planned(cls) -> OuterSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(lambda index: np.empty((0, 0)), 0, np.empty((0, 0), np.int16), 0)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.public)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum: a row for each public column."""
        return self.public.shape[1], self.n_private

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: of the public rows, times that of q."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, GRID**2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every record."""
        n_rows = self.n_rows if batch is None else len(batch)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(n_rows, sum(self.shape)):
            index = block if batch is None else batch[block]
            # 4096 products of 15 + 15 bits stay below 2**53: exact in float64.
            rows = np.trunc(shortened(self.private(index)) * (GRID / unit))
            total += (clipped(self.public[index]).T @ rows).astype(np.int64)
        return total


def shortened(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm at most 1; NaN counts as 0."""
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        rows = np.nan_to_num(rows)
        factor = _SHRINK / np.maximum(np.sqrt(squared_norms(rows)), 1.0)
        return rows * factor[:, None]


_CROSS = "cross moments"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentPlan(Plan):
    """A plan with the public numbers of the method."""

    rules: MomentRules


@dataclasses.dataclass(frozen=True)
class SecondMoments(OneRelease):
    """Cross moments with what is public, then second moments of the rest."""

    label = "second moments"
    query = MomentSum

    def plan(
        self, public: PublicRecords, prepared: Moments | None, budget: Budget
    ) -> MomentPlan:
        """Calibrate the two releases, beside the mean and the scales."""
        mu = budget.mu / budget.relation.moves(1.0)
        rules = MomentRules(
            signal=mu * public.n_effective,
            n_private=public.n_private,
            n_public=int(public.mask.sum()) + bool(self.scales.fit_intercept),
            has_target=public.has_target,
        )
        target = self.scales.event(public, budget, mu, rules.scale_share)
        centring = self.centring
        if centring.mean_fraction == "auto":
            share = rules.hope * parameters.mean_fraction(
                mu, public.n_effective, rules.n_private
            )
            centring = dataclasses.replace(centring, mean_fraction=share)
        others = existing(target, *centring.events(public, budget, mu))
        if rules.n_public:
            left = 1 - sum(
                event.n_steps
                * (event.sensitivity / event.noise_std[0] / budget.mu) ** 2
                for event in others
            )
            moved = OuterSum.planned().sensitivity(budget.relation)
            std = moved / (math.sqrt(left * rules.cross_share) * budget.mu)
            others = (*others, budget.event(_CROSS, std, sensitivity=moved))
        last = budget.release_once(self.label, self.query.planned(), *others)
        return MomentPlan(**last, rules=rules)

    def _solve(
        self,
        records: Records,
        coordinates: Coordinates,
        plan: MomentPlan,
        target_map: TargetMap,
        mechanism: Mechanism,
    ) -> tuple[np.ndarray, int, np.ndarray]:
        fit = _Fit(records, coordinates, plan, target_map, self.scales.fit_intercept)
        fit.project(mechanism)
        gram, cross = fit.release_rest(mechanism)
        strength = self.scales.penalty(target_map, records.public.total_weight)
        if strength is None:
            weights, b, noise = fit.unpenalised(gram, cross)
        else:
            curvature = coordinates.penalty_curvature(strength)
            weights, b, noise = fit.penalised(gram, cross, curvature)
        ends = np.split(np.eye(len(noise)), [len(weights)], axis=1)
        J = np.vstack([fit.theta(*one) for one in zip(*ends, strict=True)])
        return fit.theta(weights, b), 1, J.T @ noise @ J


class _Fit:
    """One fit on its way; what is in it is released or public, but for the table.

    S are the released products of p and z, per record, and B the projection of p onto
    z, both of shape (n_private, n_columns); T and C are the same for y. The noise in S
    and T has the standard deviations `row_std` and `target_std` (0: public), and ``B =
    S @ of_rows``, ``C = T @ of_target``.
    """

    def __init__(
        self,
        records: Records,
        coordinates: Coordinates,
        plan: MomentPlan,
        target_map: TargetMap,
        intercept: bool,
    ):
        """Learn what is public and set the bounds; nothing private is read."""
        public, rules = records.public, plan.rules
        mask, self.n = public.mask, public.n_records
        self.records, self.coordinates, self.plan = records, coordinates, plan
        self.side = PublicSide(
            self._public,
            (len(records.X), int(mask.sum())),
            intercept=intercept,
            signal=rules.signal,
            shares=public.shares,
        )
        scale = float(np.broadcast_to(coordinates.scale, mask.shape)[~mask][0])
        longest = public.longest_private
        if public.input_scaler.normalize and math.isfinite(longest):
            longest = 1.0
        away = float(np.linalg.norm(coordinates.mean[~mask]))
        # Bounds of a private row and of the target, in the loop's units.
        self.furthest = scale * (longest + away)
        low, high = target_map(np.array([target_map.low, target_map.high]))
        self.bounds = low, high
        # Variances of the errors of the means of the target and of a private column.
        # The released mean is one of rows that were cut: off by its noise, and by more.
        off = (coordinates.mean_error * scale) ** 2
        self.prior = 0.0, max(off, 0.25 / max(1, public.n_private))
        # Least variance of the target that its released spread leaves room for.
        self.least = 1.0
        target = plan.event("target scale")
        if target is not None:
            error = target.noise_std[0] / self.n
            self.prior = ((high - low) / 2 * error) ** 2, self.prior[1]
            # The spread is 1, by a released number whose error is public.
            error *= SPREAD * max(-low, high) / 2
            self.least = max(0.0, 1 - 1.5 * error) ** 2
        # Where what is left of rows and targets is cut, and the noise, per record, of
        # its second moments beside the diagonal and of its products with the target.
        self.cuts = (
            min(rules.square_reach, self.furthest),
            min(rules.target_reach, 1 + max(map(abs, self.bounds))),
        )
        std = float(plan.schedule.noise_std[0]) / self.n
        self.pair_std = std * self.cuts[0] ** 2 / PAIR
        self.cross_std = std * math.prod(self.cuts) / CROSS

    def _public(self, block: slice) -> np.ndarray:
        """Return the public columns of some records, in the coordinates of the loop."""
        public, found = self.records.public, self.coordinates
        mask = public.mask
        if not mask.any():
            # The number of records may be private, and is that of the slice here.
            return np.empty((len(range(len(self.records.X))[block]), 0))
        scale = np.broadcast_to(found.scale, mask.shape)[mask]
        return (public.mapped[block] - found.mean[mask]) * scale

    def _private(self, block: slice | np.ndarray) -> np.ndarray:
        """Return the private columns of some records, in the same coordinates."""
        found = self.coordinates
        rows = (self.records.mapped[block] - found.mean) * found.scale
        return rows[:, ~self.records.public.mask]

    def project(self, mechanism: Mechanism) -> None:
        """Release the products with z; project p and y onto z."""
        public, side, rules = self.records.public, self.side, self.plan.rules
        k, event = len(side.moments), self.plan.event(_CROSS)
        if event is None:
            self.S = self.B = np.zeros((public.n_private, k))
            self.T = self.C = np.zeros(k)
            self.row_std = self.target_std = 0.0
            self.of_rows = self.of_target = np.zeros((k, k))
            return
        share = 0.0 if public.has_target else rules.target_share
        longest = min(rules.row_reach, self.furthest)
        low = max(self.bounds[0], -rules.target_reach)
        high = min(self.bounds[1], rules.target_reach)
        middle, half = (high + low) / 2, (high - low) / 2
        units = math.sqrt(1 - share) / longest, math.sqrt(share) / half
        target = None if public.has_target else self.records.target

        def joined(index: slice | np.ndarray) -> np.ndarray:
            p = self._private(index)
            longer = np.sqrt(squared_norms(p)) / longest
            p = p * (units[0] / np.maximum(longer, 1.0))[:, None]
            if target is None:
                return p
            y = np.clip(target[index] - middle, -half, half)
            return np.column_stack([p, y * units[1]])

        width = public.n_private + (target is not None)
        query = OuterSum(joined, width, side.grid.values, public.capacity)
        found = mechanism.release(_CROSS, query).T / self.n
        noise = event.noise_std[0] / self.n
        self.S, self.row_std = found[: public.n_private] / units[0], noise / units[0]
        fixed = self._fixed(self.row_std, self.prior[1])
        self.B, self.of_rows = on_exact(
            side.moments, self.S, self.row_std, fixed, variance=1.0
        )
        if public.has_target:
            self.T, self.C = self._exact_projection()
            self.target_std, self.of_target = 0.0, np.zeros((k, k))
            return
        weights = public.units
        if not side.basis.shape[1]:
            mean = side.constant  # of the weighted z, exact
        elif weights is None:
            mean = side.grid.values.sum(axis=0, dtype=np.int64) * GRID / self.n
        else:
            step = GRID * weights.step / self.n
            mean = (weights.weights @ side.grid.values) * step
        self.T = found[-1] / units[1] + middle * mean
        self.target_std = noise / units[1]
        fixed = self._fixed(self.target_std, self.prior[0])
        (self.C,), self.of_target = on_exact(
            side.moments, self.T[None], self.target_std, fixed, variance=self.least
        )

    def _fixed(self, std: float, variance: float) -> np.ndarray:
        """Return the penalty of the constant: its mean is known up to an error."""
        fixed = np.full(len(self.side.moments), np.nan)
        for i, constant in enumerate(self.side.constant):
            prior = variance / constant**2
            fixed[i] = min(std**2 / max(prior * self.side.moments[i, i], 1e-12), 1e6)
        return fixed

    def _exact_projection(self) -> tuple[np.ndarray, np.ndarray]:
        """Return T and C of a public target: the free model, no row shortened."""
        side, y, share = self.side, self.records.target, self.records.public.row_shares
        k = len(side.moments)
        weighted, gram, cross = np.zeros(k), np.zeros((k, k)), np.zeros(k)
        for block in blocks(len(y), max(k, self.records.X.shape[1])):
            z, own = side.rows(self._public(block)), y[block] * share[block]
            weighted += own @ (side.grid.values[block] * GRID)
            cross = cross + own @ z
            z = z * np.sqrt(share[block, None])
            gram = gram + z.T @ z
        ridge = 1e-9 * np.trace(gram) * np.eye(k)
        return weighted / self.n, np.linalg.solve(gram + ridge, cross)

    def release_rest(self, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
        """Release the second moments of p~, and its products with y~, per record."""
        records, (longest, furthest) = self.records, self.cuts
        d = records.public.n_private

        def joined(block: slice) -> np.ndarray:
            z = self.side.rows(self._public(block))
            p = (self._private(block) - z @ self.B.T) / longest
            y = (records.target[block] - z @ self.C) / furthest
            return np.column_stack([p, y]) * np.sqrt(self.side.weight[block, None])

        query = MomentSum.build(len(records.X), d + 1, joined, records.public.capacity)
        total = mechanism.release(SecondMoments.label, query) / self.n
        gram, cross = unpacked(total, d)
        return gram * longest**2, cross * longest * furthest

    def unpenalised(
        self, gram: np.ndarray, cross: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights on z and p, and the covariance of their noise.

        The weights are ``[C - b B, b]``, ``b = inverse @ cross``. To first order ``db =
        inverse (dc - dG b)``. The noise of the matrix G is `pair_std` beside the
        diagonal and sqrt(2) times that on it, so that ``dG b`` has the covariance
        ``pair_std**2 (|b|**2 I + b b')``. What is left of the private columns does not
        correlate with z, so that errors of B and C move b in second order only.
        """
        B, S, T = self.B, self.of_rows, self.of_target
        b, inverse = on_noisy(gram, cross, self.pair_std, self.cross_std, self.least)
        square, f = float(b @ b), self._noise_of_rest(b)
        own = inverse @ f @ inverse
        moved = self.target_std**2 * T @ T + self.row_std**2 * square * S @ S
        noise = np.block([[moved + B.T @ own @ B, -B.T @ own], [-own @ B, own]])
        return self.C - b @ B, b, noise

    def _noise_of_rest(self, b: np.ndarray) -> np.ndarray:
        """Return the covariance of ``dc - dG b`` in the second release."""
        own = (self.cross_std**2 + self.pair_std**2 * float(b @ b)) * np.eye(len(b))
        return own + self.pair_std**2 * np.outer(b, b)

    def penalised(
        self, gram: np.ndarray, cross: np.ndarray, curvature: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights on z and p of the user's penalty, and their noise.

        With G the matrix of z and p together and c the vector, ``dc - dG w`` is ``dT -
        dS' b`` for z, and ``f + B (dT - dS' b) + dS q`` for p, f being the noise of the
        second release and ``q = C - weights - B' b``.
        """
        side, B, C = self.side, self.B, self.C
        D, E = self.S - B @ side.moments, self.T - C @ side.moments
        corner = gram + D @ B.T + B @ D.T + B @ side.moments @ B.T
        G = np.block([[side.moments, self.S.T], [self.S, corner]])
        c = np.r_[self.T, cross + B @ E + D @ C + B @ side.moments @ C]
        mask, k = self.records.public.mask, len(side.moments)
        on_u = np.hstack([np.zeros((len(side.basis), len(side.constant))), side.basis])
        n_columns, d = len(mask), len(cross)
        penalty = np.zeros(G.shape)
        penalty[:k, :k] = (on_u.T * curvature[:n_columns][mask]) @ on_u
        penalty[k:, k:] = np.diag(curvature[:n_columns][~mask])
        # The noisy matrix may be singular; this keeps every weight finite.
        floor = 1e-3 * (2 * math.sqrt(n_columns) * self.pair_std) + 1e-9
        penalty[np.diag_indices(len(penalty))] += floor
        values, vectors = eigh(G)  # negative eigenvalues are noise and count as 0
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        inverse = np.linalg.solve(positive + penalty, np.eye(len(G)))
        weights, b = np.split(inverse @ c, [k])
        square, q = float(b @ b), C - weights - B.T @ b
        a = (self.target_std**2 + self.row_std**2 * square) * np.eye(k)
        # Covariance of dS q with dT - dS' b.
        mixed = -(self.row_std**2) * np.outer(b, q)
        to_p = B @ a + mixed
        corner = self._noise_of_rest(b) + B @ a @ B.T + mixed @ B.T + B @ mixed.T
        corner += self.row_std**2 * float(q @ q) * np.eye(d)
        noise = inverse @ np.block([[a, to_p.T], [to_p, corner]]) @ inverse
        return weights, b, noise

    def theta(self, weights: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return theta of the coordinates, shape (1, n_columns)."""
        mask, bias = self.records.public.mask, self.coordinates.bias
        on_u, constant = self.side.fold(weights)
        out = np.zeros(len(mask) + (bias is not None))
        out[: len(mask)][mask], out[: len(mask)][~mask] = on_u, b
        if bias is not None:
            out[-1] = constant / bias
        return out[None]
