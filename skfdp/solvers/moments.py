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

from skfdp.data.grid import GRID, GridRows, blocks, squared_norms
from skfdp.data.input_scaler import Coordinates
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import SPREAD, TargetMap
from skfdp.kernels.losses.loss import Loss
from skfdp.mechanisms.release import Desk
from skfdp.privacy import Event
from skfdp.privacy.events import Relation
from skfdp.queries import OfGridRows, chosen, no_rows, sum_unit
from skfdp.queries.statistics import clipped
from skfdp.solvers import parameters
from skfdp.solvers.method import Budget, Plan, existing
from skfdp.solvers.target_scales import OneRelease, PublicMoments
from skfdp.solvers.whitening import EXPLAINED, water_filling

# The noise in weights that are solved for from released moments, to first order.


@dataclasses.dataclass(frozen=True)
class Projection:
    """The noise in the released products with z, and what they were multiplied by.

    Attributes
    ----------
    row_std, target_std : float
        Standard deviation of the noise in the products of the private columns, and of
        the target, per record. That of a public target is 0.
    of_rows, of_target : ndarray of shape (k, k)
        ``B = S @ of_rows`` and ``C = T @ of_target``.
    """

    row_std: float
    target_std: float
    of_rows: np.ndarray
    of_target: np.ndarray

    @classmethod
    def none(cls, k: int) -> Projection:
        """Return that of products which are not released."""
        return cls(0.0, 0.0, np.zeros((k, k)), np.zeros((k, k)))


def of_solved(
    found: Projection,
    B: np.ndarray,
    b: np.ndarray,
    inverse: np.ndarray,
    pair_std: float,
    cross_std: float,
) -> np.ndarray:
    """Return the covariance of the weights ``[C - b B, b]``, ``b = inverse @ cross``.

    Parameters
    ----------
    found : Projection
    B : ndarray of shape (d, k)
    b : ndarray of shape (d,)
    inverse : ndarray of shape (d, d)
        That of the noisy matrix G and the penalty.
    pair_std, cross_std : float
        Of the second moments and of their products with the target.

    Notes
    -----
    To first order ``db = inverse (dc - dG b)``. The noise of G is `pair_std` beside the
    diagonal and sqrt(2) times that on it, so that ``dG b`` has the covariance
    ``pair_std**2 (|b|**2 I + b b')``. What is left of the private columns does not
    correlate with z, so that errors of B and C move b in second order only.
    """
    square = float(b @ b)
    F = (cross_std**2 + pair_std**2 * square) * np.eye(len(b))
    own = inverse @ (F + pair_std**2 * np.outer(b, b)) @ inverse
    T, S = found.of_target, found.of_rows
    moved = found.target_std**2 * T @ T + found.row_std**2 * square * S @ S
    return np.block([[moved + B.T @ own @ B, -B.T @ own], [-own @ B, own]])


def of_penalised(
    found: Projection,
    B: np.ndarray,
    C: np.ndarray,
    weights: np.ndarray,
    b: np.ndarray,
    inverse: np.ndarray,
    pair_std: float,
    cross_std: float,
) -> np.ndarray:
    """Return the covariance of ``[weights, b] = inverse @ [T, cross of p]``.

    Parameters are those of `of_solved`, for the moments of z and p together.

    Notes
    -----
    With G the matrix and c the vector, ``dc - dG w`` is ``dT - dS' b`` for z, and
    ``f + B (dT - dS' b) + dS q`` for p, f being the noise of the second release and
    ``q = C - weights - B' b``.
    """
    k, d = len(weights), len(b)
    square, q = float(b @ b), C - weights - B.T @ b
    f = (cross_std**2 + pair_std**2 * square) * np.eye(d) + pair_std**2 * np.outer(b, b)
    a = (found.target_std**2 + found.row_std**2 * square) * np.eye(k)
    # Covariance of dS q with dT - dS' b.
    mixed = -(found.row_std**2) * np.outer(b, q)
    to_p = B @ a + mixed
    corner = f + B @ a @ B.T + mixed @ B.T + B @ mixed.T
    corner += found.row_std**2 * float(q @ q) * np.eye(d)
    return inverse @ np.block([[a, to_p.T], [to_p, corner]]) @ inverse


# Public rules of the moments: reaches, and how two releases share the budget.


#: What an error of the projection of the private columns counts, over one of weights.
PROJECTION = 0.2


@dataclasses.dataclass(frozen=True)
class MomentRules:
    """Public numbers of a fit by moments, in units of mean lengths and spreads.

    All reaches grow with the signal, more slowly than the noise falls: nothing is cut
    at last, and the limit is unbiased.

    Attributes
    ----------
    signal : float
        ``mu n``: records over the noise of a sum of unit vectors; n is the number
        whose plain sum is as noisy, where rows have weights.
    n_private, n_public : int
        Columns; a constant counts as a public one.
    has_target : bool
        Whether the target is public.
    """

    signal: float
    n_private: int
    n_public: int
    has_target: bool = False

    @classmethod
    def of(cls, public: PublicRecords, mu: float, intercept: bool) -> MomentRules:
        """Return the rules of a table; mu is that of releases that move by 1."""
        n_public = int(public.mask.sum()) + bool(intercept)
        signal = mu * public.n_effective
        return cls(signal, public.n_private, n_public, public.has_target)

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
# Rows have a norm of at most 1 up to rounding; this covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class PublicSide:
    """``z = (constant, basis' (u - mean))`` of public columns u, and its weights.

    All of it is exact and free.

    Attributes
    ----------
    mean : ndarray of shape (n_public,)
    basis : ndarray of shape (n_public, n_directions)
    constant : ndarray of shape (1,) or (0,)
        Empty without an intercept.
    weight : ndarray of shape (n_rows,)
        ``min(1, 1 / |z|)``, of each record in the loss: it bounds what a record
        contributes, and does not bend a linear relation.
    grid : GridRows
        The weighted rows, of norm at most 1.
    moments : ndarray of shape (n_columns, n_columns)
        The mean of ``weight z z'``.
    """

    mean: np.ndarray
    basis: np.ndarray
    constant: np.ndarray
    weight: np.ndarray
    grid: GridRows
    moments: np.ndarray

    @classmethod
    def learn(
        cls,
        rows: Callable[[slice], np.ndarray],
        shape: tuple[int, int],
        *,
        intercept: bool,
        signal: float,
        shares: np.ndarray | None = None,
    ) -> PublicSide:
        """Learn from the public columns.

        Parameters
        ----------
        rows : callable
            ``rows(block)`` returns the public columns of a slice of records.
        shape : (int, int)
            Records and public columns. Without columns nothing is read but the number
            of records, which sizes the rows of the sum.
        intercept : bool
        signal : float
            ``mu n``: records over the noise of a sum of unit vectors.
        shares : float64 ndarray of shape (n_rows,), default=None
            How often each record counts in the means; None: once.
        """
        n_rows = shape[0]
        shares = np.ones(n_rows) if shares is None else shares
        mean, basis, width = _directions(rows, shape, intercept, signal, shares)
        share = _constant_share(width, signal) if intercept else 0.0
        constant = np.full(int(intercept), np.sqrt(share))
        if basis.shape[1]:
            lengths = np.empty(n_rows)
            for block in blocks(*shape):
                lengths[block] = np.sqrt(squared_norms((rows(block) - mean) @ basis))
            root = np.sqrt(1 - share)
            basis = basis * (root / _reach(lengths, shares, width / signal / root))
        side = cls(mean, basis, constant, np.ones(n_rows), None, None)
        return side._weighted(rows, shape, shares)

    def _weighted(self, rows, shape, shares) -> PublicSide:
        weight = np.empty(shape[0])

        def short(numbers: np.ndarray) -> np.ndarray:
            block = slice(numbers[0, 0], numbers[-1, 0] + 1)
            z = self.rows(rows(block))
            weight[block] = _SHRINK / np.maximum(np.sqrt(squared_norms(z)), 1.0)
            return z * weight[block, None]

        numbers = np.arange(shape[0])[:, None]
        width = len(self.constant) + self.basis.shape[1]
        grid = GridRows.build(numbers, short, n_features=width)
        if not shape[1]:  # the number of records may be private: no mean over them
            return dataclasses.replace(
                self, weight=weight, grid=grid, moments=np.diag(self.constant**2)
            )
        total = np.zeros((width, width))
        for block in blocks(shape[0], max(width, shape[1])):
            z = self.rows(rows(block)) * shares[block, None]
            total += (grid.values[block] * GRID).T @ z
        total = (total + total.T) / 2 / shares.sum()
        return dataclasses.replace(self, weight=weight, grid=grid, moments=total)

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


def _reach(lengths: np.ndarray, shares: np.ndarray, noise: float) -> float:
    """Return the length beyond which public rows weigh less.

    A long reach costs noise, a short one weight: the mean weight that is lost is what
    a model that is not linear may be biased by. No noise, no weights.
    """
    best, least = 1.0, np.inf
    for reach in np.quantile(lengths, _QUANTILES):
        reach = max(reach, 1e-6)
        weight = np.minimum(1.0, reach / np.maximum(lengths, 1e-300))
        weight = float(np.average(weight, weights=shares))
        variance = (NOISE * noise * reach / weight) ** 2
        risk = variance / (1 + variance) + CURVED * (1 - weight) ** 2
        if risk < least:
            best, least = reach, risk
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


def spectral_norm(n_columns: int, pair_std: float) -> float:
    """Return the norm of a symmetric matrix of noise, about ``2 sqrt(d) std``."""
    return 2 * math.sqrt(n_columns) * pair_std


def on_exact(
    gram: np.ndarray,
    cross: np.ndarray,
    noise_std: float,
    fixed: np.ndarray,
    *,
    variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for noisy cross moments with rows whose moments are exact.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        Exact.
    cross : ndarray of shape (n_outputs, k)
    noise_std : float
        Of each entry of `cross`.
    fixed : ndarray of shape (k,)
        Penalty of the columns that are not penalised otherwise; NaN elsewhere.
    variance : float
        A lower bound of that of an output.

    Returns
    -------
    weights : ndarray of shape (n_outputs, k)
    inverse : ndarray of shape (k, k)
        ``weights = cross @ inverse``, with the penalty that was chosen.
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

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Symmetric.
    cross : ndarray of shape (d,)
    pair_std, cross_std : float
        Standard deviations of the noise.
    variance : float, default=1.0
        A lower bound of that of the target.

    Returns
    -------
    weights : ndarray of shape (d,)
    inverse : ndarray of shape (d, d)
        ``weights = inverse @ cross``, with the penalty that was chosen.
    """
    d = len(cross)
    best, least, chosen = np.zeros(d), 0.0, np.zeros(gram.shape)
    if not d:
        return best, chosen
    values, vectors = eigh(gram)
    noise = spectral_norm(d, pair_std)
    for factor in _SPECTRAL_FACTORS:
        penalty = max(factor * noise, cross_std**2)
        # AdaSSP (Wang 2018) pays for the smallest eigenvalue, which was released here.
        if factor < _USUAL and values[0] + penalty < noise / 2:
            continue
        found = ridge_with_risk(values, vectors.T @ cross, penalty, pair_std, cross_std)
        weights, risk = found
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

    where ``h_ij`` are the differences of h over those of v.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Eigenvalues of the noisy matrix.
    cross : ndarray of shape (d,)
        The noisy vector, in its eigenvectors.
    penalty : float
    pair_std, cross_std : float

    Returns
    -------
    weights : ndarray of shape (d,)
        In the eigenvectors.
    risk : float
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


def ridge(gram: np.ndarray, cross: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return the minimiser of ``w'Gw / 2 - w'c + w'Pw / 2``.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Symmetric; negative eigenvalues are noise and count as 0.
    cross : ndarray of shape (d,) or (d, n_outputs)
    penalty : ndarray of shape (d, d)
        Positive.

    Returns
    -------
    weights : ndarray of cross's shape
    """
    values, vectors = eigh(gram)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.linalg.solve(positive + penalty, cross)


# Second moments of private rows: with each other, and with public rows.


#: Integer weights of the squares, of the products of two columns, and of the products
#: with the target. 17 / 12 is just above sqrt(2): see the guarantees.
SQUARE, PAIR, CROSS = 12, 17, 12
# Rows and targets have a norm of at most 1 up to rounding; this covers the rounding.
_MOMENTS_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class MomentSum(OfGridRows):
    """The sum of ``[12 x_i**2, 17 x_i x_j (i < j), 12 x_i y]`` over the records.

    Parameters
    ----------
    rows : GridRows
        Columns of x, then y; see `build`.
    capacity : int
        Public bound on the number of rows, for the grid.

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

        Parameters
        ----------
        n_rows, n_columns : int
            n_columns counts y.
        joined : callable
            ``joined(block)`` returns the columns of x, then y, of a slice of records,
            each record by itself.
        capacity : int
        """

        def shortened(index: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):  # a warning would tell of a private value
                rows = np.nan_to_num(joined(slice(index[0, 0], index[-1, 0] + 1)))
                norm = np.sqrt(squared_norms(rows[:, :-1]))
                rows = rows * (_MOMENTS_SHRINK / np.maximum(norm, 1.0))[:, None]
                rows[:, -1] = np.clip(rows[:, -1], -1.0, 1.0)
            return rows

        numbers = np.arange(n_rows)[:, None]
        return cls(GridRows.build(numbers, shortened, n_features=n_columns), capacity)

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

    Parameters
    ----------
    private : callable
        ``private(index)`` returns float64 rows q of a slice or an array of records,
        each record by itself. It is asked for a block at a time, so that no copy of
        the table is kept.
    n_private : int
        Columns of q.
    public : int16 ndarray of shape (n_rows, n_public)
        Rows z in units of GRID.
    capacity : int
        Public bound on the number of rows, for the grid.

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
        factor = _MOMENTS_SHRINK / np.maximum(np.sqrt(squared_norms(rows)), 1.0)
        return rows * factor[:, None]


_CROSS = "cross moments"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentPlan(Plan):
    """A plan with the public numbers of the method.

    Attributes
    ----------
    rules : MomentRules
    """

    rules: MomentRules


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table in the coordinates of the loop, in blocks of rows."""

    records: Records
    coordinates: Coordinates

    def _rows(self, block: slice, columns: np.ndarray) -> np.ndarray:
        found = self.coordinates
        rows = (self.records.mapped[block] - found.mean) * found.scale
        return rows[:, columns]

    def public(self, block: slice) -> np.ndarray:
        """Return the public columns of some records."""
        public, found = self.records.public, self.coordinates
        mask = public.mask
        if not mask.any():
            # The number of records may be private, and is that of the slice here.
            return np.empty((len(range(len(self.records.X))[block]), 0))
        scale = np.broadcast_to(found.scale, mask.shape)[mask]
        return (public.mapped[block] - found.mean[mask]) * scale

    def private(self, block: slice) -> np.ndarray:
        """Return the private columns of some records."""
        return self._rows(block, ~self.records.public.mask)


@dataclasses.dataclass(frozen=True)
class SecondMoments(OneRelease):
    """Cross moments with what is public, then second moments of the rest."""

    label = "second moments"

    def _bounds(self, relation: Relation) -> tuple[float, float]:
        query = MomentSum.planned()
        return query.clip_norm, query.sensitivity(relation)

    def _norms(self, public: PublicRecords) -> tuple[float, float]:
        return 1.0, 1.0  # each block is bounded by itself

    def plan(
        self, public: PublicRecords, prepared: PublicMoments, budget: Budget
    ) -> MomentPlan:
        """Calibrate the two releases, beside the mean and the scales."""
        mu = budget.mu / budget.relation.moves(1.0)
        rules = MomentRules.of(public, mu, self.scales.fit_intercept)
        target = self.scales.event(public, budget, mu, rules.scale_share)
        centring = self.centring
        if centring.mean_fraction == "auto":
            share = rules.hope * parameters.mean_fraction(
                mu, public.n_effective, rules.n_private
            )
            centring = dataclasses.replace(centring, mean_fraction=share)
        others = existing(target, *centring.events(public, budget, mu))
        if rules.n_public:
            query = OuterSum.planned()
            left = 1 - sum(_share(event, budget) for event in others)
            moved = query.sensitivity(budget.relation)
            event = budget.event(
                _CROSS,
                moved / (math.sqrt(left * rules.cross_share) * budget.mu),
                sensitivity=moved,
            )
            others = (*others, event)
        clip_norm, sensitivity = self._bounds(budget.relation)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=clip_norm,
            sensitivity=sensitivity,
            other_events=others,
        )
        event = budget.named(schedule, self.label)
        return MomentPlan(events=(*others, event), schedule=schedule, rules=rules)

    def _solve(
        self,
        records: Records,
        loss: Loss,
        coordinates: Coordinates,
        plan: MomentPlan,
        target_map: TargetMap,
        desk: Desk,
    ) -> tuple[np.ndarray, int, np.ndarray]:
        fit = _Fit.start(self, records, coordinates, plan, target_map)
        fit = fit.with_projection(desk)
        gram, cross = fit.release_rest(desk)
        strength = self.scales.penalty(target_map, records.public.total_weight)
        if strength is None:
            b, inverse = on_noisy(gram, cross, fit.pair_std, fit.cross_std, fit.least)
            weights = fit.C - b @ fit.B
            stds = fit.pair_std, fit.cross_std
            noise = of_solved(fit.found, fit.B, b, inverse, *stds)
        else:
            curvature = coordinates.penalty_curvature(strength)
            weights, b, noise = fit.penalised(gram, cross, curvature)
        ends = np.split(np.eye(len(noise)), [len(weights)], axis=1)
        J = np.vstack([fit.theta(*one) for one in zip(*ends, strict=True)])
        return fit.theta(weights, b), 1, J.T @ noise @ J


@dataclasses.dataclass(frozen=True)
class _Fit:
    """One fit on its way; what is in it is released or public, but for the table.

    Attributes
    ----------
    table : _Table
    plan : MomentPlan
    side : PublicSide
    furthest : float
        Bound of a private row, in the loop's coordinates.
    reach : (float, float)
        Bounds of the target, in the loop's units.
    prior : (float, float)
        Variances of the errors of the means of the target and of a private column.
    least : float
        Least variance of the target that its released spread leaves room for.
    S, B : ndarray of shape (n_private, n_columns)
        Released products of p and z, per record, and the projection of p onto z.
    T, C : ndarray of shape (n_columns,)
        The same for y.
    found : Projection
        The noise in S and T.
    """

    table: _Table
    plan: MomentPlan
    side: PublicSide
    furthest: float
    reach: tuple[float, float]
    prior: tuple[float, float]
    least: float
    S: np.ndarray | None = None
    B: np.ndarray | None = None
    T: np.ndarray | None = None
    C: np.ndarray | None = None
    found: Projection | None = None

    @classmethod
    def start(cls, method, records, coordinates, plan, target_map) -> _Fit:
        """Learn what is public and find the reaches; nothing private is read."""
        public, table = records.public, _Table(records, coordinates)
        mask, n = public.mask, public.n_records
        side = PublicSide.learn(
            table.public,
            (len(records.X), int(mask.sum())),
            intercept=method.scales.fit_intercept,
            signal=plan.rules.signal,
            shares=public.shares,
        )
        scale = float(np.broadcast_to(coordinates.scale, mask.shape)[~mask][0])
        longest = public.longest_private
        if public.row_map.normalize and math.isfinite(longest):
            longest = 1.0
        away = float(np.linalg.norm(coordinates.mean[~mask]))
        furthest = scale * (longest + away)
        target = plan.event("target scale")
        low, high = target_map(np.array([target_map.low, target_map.high]))
        least = 1.0
        # The released mean is one of rows that were cut: off by its noise, and by more.
        off = (coordinates.mean_error * scale) ** 2
        known = 0.0, max(off, 0.25 / max(1, public.n_private))
        if target is not None:
            error = target.noise_std[0] / n
            known = ((high - low) / 2 * error) ** 2, known[1]
            # The spread is 1, by a released number whose error is public.
            error *= SPREAD * max(-low, high) / 2
            least = max(0.0, 1 - 1.5 * error) ** 2
        return cls(table, plan, side, furthest, (low, high), known, least)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.table.records.public.n_records

    @property
    def _target(self) -> np.ndarray:
        return self.table.records.target

    @property
    def _rest_scale(self) -> float:
        # In units of `MomentSum`, per record.
        return float(self.plan.schedule.noise_std[0]) / self.n

    @property
    def _reaches(self) -> tuple[float, float]:
        rules = self.plan.rules
        target = 1 + max(map(abs, self.reach))
        return min(rules.square_reach, self.furthest), min(rules.target_reach, target)

    @property
    def pair_std(self) -> float:
        """Noise of the second moments beside the diagonal, per record."""
        return self._rest_scale * self._reaches[0] ** 2 / PAIR

    @property
    def cross_std(self) -> float:
        """Noise of their products with the target, per record."""
        return self._rest_scale * math.prod(self._reaches) / CROSS

    def with_projection(self, desk: Desk) -> _Fit:
        """Release the products with z; project p and y onto z."""
        public, side = self.table.records.public, self.side
        k, event = len(side.moments), self.plan.event(_CROSS)
        if event is None:
            none = np.zeros((public.n_private, k)), np.zeros(k)
            found = Projection.none(k)
            return dataclasses.replace(
                self, S=none[0], B=none[0], T=none[1], C=none[1], found=found
            )
        rules = self.plan.rules
        share = 0.0 if public.has_target else rules.target_share
        row_reach = min(rules.row_reach, self.furthest)
        low = max(self.reach[0], -rules.target_reach)
        high = min(self.reach[1], rules.target_reach)
        middle, half = (high + low) / 2, (high - low) / 2
        units = math.sqrt(1 - share) / row_reach, math.sqrt(share) / half
        query = self._outer(units, row_reach, (middle, half), not public.has_target)
        found = desk.release(_CROSS, query).T / self.n
        noise = event.noise_std[0] / self.n
        S, row_std = found[: public.n_private] / units[0], noise / units[0]
        fixed = self._fixed(row_std, 1)
        B, of_rows = on_exact(side.moments, S, row_std, fixed, variance=1.0)
        if public.has_target:
            T, C = self._exact_projection()
            std, of_target = 0.0, np.zeros((k, k))
        else:
            T, std = found[-1] / units[1] + middle * self._totals(), noise / units[1]
            fixed = self._fixed(std, 0)
            (C,), of_target = on_exact(
                side.moments, T[None], std, fixed, variance=self.least
            )
        own = Projection(row_std, std, of_rows, of_target)
        return dataclasses.replace(self, S=S, B=B, T=T, C=C, found=own)

    def _fixed(self, std: float, which: int) -> np.ndarray:
        """Return the penalty of the constant: its mean is known up to an error."""
        fixed = np.full(len(self.side.moments), np.nan)
        for i, constant in enumerate(self.side.constant):
            prior = self.prior[which] / constant**2
            fixed[i] = min(std**2 / max(prior * self.side.moments[i, i], 1e-12), 1e6)
        return fixed

    def _totals(self) -> np.ndarray:
        """Return the mean of the weighted z; exact."""
        side = self.side
        if not side.basis.shape[1]:
            return side.constant
        values, units = side.grid.values, self.table.records.public.units
        if units is None:
            return values.sum(axis=0, dtype=np.int64) * GRID / self.n
        return (units.weights @ values) * (GRID * units.step / self.n)

    def _outer(self, units, row_reach, interval, with_target) -> OuterSum:
        records, table = self.table.records, self.table

        def joined(index: slice | np.ndarray) -> np.ndarray:
            p = table.private(index)
            longer = np.sqrt(squared_norms(p)) / row_reach
            p = p * (units[0] / np.maximum(longer, 1.0))[:, None]
            if not with_target:
                return p
            y = np.clip(self._target[index] - interval[0], -interval[1], interval[1])
            return np.column_stack([p, y * units[1]])

        width = records.public.n_private + with_target
        capacity = records.public.capacity
        return OuterSum(joined, width, self.side.grid.values, capacity)

    def _exact_projection(self) -> tuple[np.ndarray, np.ndarray]:
        """Return T and C of a public target: the free model, no row shortened."""
        side, y = self.side, self._target
        share = self.table.records.public.row_shares
        k = len(side.moments)
        weighted, gram, cross = np.zeros(k), np.zeros((k, k)), np.zeros(k)
        for block in blocks(len(y), max(k, self.table.records.X.shape[1])):
            z, own = side.rows(self.table.public(block)), y[block] * share[block]
            weighted += own @ (side.grid.values[block] * GRID)
            cross = cross + own @ z
            z = z * np.sqrt(share[block, None])
            gram = gram + z.T @ z
        ridge = 1e-9 * np.trace(gram) * np.eye(k)
        return weighted / self.n, np.linalg.solve(gram + ridge, cross)

    def release_rest(self, desk: Desk) -> tuple[np.ndarray, np.ndarray]:
        """Release the second moments of p~, and its products with y~, per record."""
        records, side, table = self.table.records, self.side, self.table
        row_reach, target_reach = self._reaches
        d = records.public.n_private

        def joined(block: slice) -> np.ndarray:
            z = side.rows(table.public(block))
            p = (table.private(block) - z @ self.B.T) / row_reach
            y = (self._target[block] - z @ self.C) / target_reach
            return np.column_stack([p, y]) * np.sqrt(side.weight[block, None])

        capacity = records.public.capacity
        query = MomentSum.build(len(records.X), d + 1, joined, capacity)
        total = desk.release(SecondMoments.label, query) / self.n
        gram, cross = unpacked(total, d)
        return gram * row_reach**2, cross * row_reach * target_reach

    def penalised(
        self, gram: np.ndarray, cross: np.ndarray, curvature: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights on z and p of the user's penalty, and their noise."""
        side, B, C = self.side, self.B, self.C
        D, E = self.S - B @ side.moments, self.T - C @ side.moments
        corner = gram + D @ B.T + B @ D.T + B @ side.moments @ B.T
        G = np.block([[side.moments, self.S.T], [self.S, corner]])
        c = np.r_[self.T, cross + B @ E + D @ C + B @ side.moments @ C]
        mask, k = self.table.records.public.mask, len(side.moments)
        on_u = np.hstack([np.zeros((len(side.basis), len(side.constant))), side.basis])
        d = len(mask)
        penalty = np.zeros(G.shape)
        penalty[:k, :k] = (on_u.T * curvature[:d][mask]) @ on_u
        penalty[k:, k:] = np.diag(curvature[:d][~mask])
        # The noisy matrix may be singular; this keeps every weight finite.
        floor = 1e-3 * spectral_norm(d, self.pair_std) + 1e-9
        penalty[np.diag_indices(len(penalty))] += floor
        inverse = ridge(G, np.eye(len(G)), penalty)
        weights, b = np.split(inverse @ c, [k])
        noise = of_penalised(
            self.found, B, C, weights, b, inverse, self.pair_std, self.cross_std
        )
        return weights, b, noise

    def theta(self, weights: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return theta of the coordinates, shape (1, n_columns)."""
        mask, bias = self.table.records.public.mask, self.table.coordinates.bias
        on_u, constant = self.side.fold(weights)
        out = np.zeros(len(mask) + (bias is not None))
        out[: len(mask)][mask], out[: len(mask)][~mask] = on_u, b
        if bias is not None:
            out[-1] = constant / bias
        return out[None]


def _share(event: Event, budget: Budget) -> float:
    """Return the share of ``mu**2`` that an event takes."""
    moved = event.sensitivity / event.noise_std[0]
    return event.n_steps * (moved / budget.mu) ** 2
