"""Generated classification problems of very different shape, public columns first.

A problem is made of blocks of columns in standard units, and of what the target depends
on. Whole columns are then moved and stretched to units of very different size, as those
of real tables are. The problem depends on the seed of `Generated` alone, the rows on
that of `Generated.load`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from _common import Split
from scipy.optimize import brentq
from scipy.special import expit, softmax

N_TEST = 20_000


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns that are drawn together, with their bounds in standard units."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    width: int
    low: float = 0.0
    high: float = 1.0
    stretched: bool = True


@dataclasses.dataclass(frozen=True)
class Problem:
    """Blocks, what the target depends on, and how many of the first columns are public.

    `score` maps the blocks' values to the log odds, or to one score for each class,
    up to a constant and a factor.
    """

    blocks: list[Block]
    score: Callable[[list[np.ndarray]], np.ndarray]
    n_public: int


def numbers(width: int, correlation: float = 0.2) -> Block:
    """Return normals of one common correlation, declared to three deviations."""

    def draw(rng, n):
        common = rng.normal(size=(n, 1))
        own = rng.normal(size=(n, width))
        return correlation**0.5 * common + (1 - correlation) ** 0.5 * own

    return Block(draw, width, -3.0, 3.0)


def amounts(width: int, spread: float = 1.0) -> Block:
    """Return log-normals, declared to a bound that few exceed."""
    high = float(np.exp(3.3 * spread))
    draw = lambda rng, n: np.exp(spread * rng.normal(size=(n, width)))  # noqa: E731
    return Block(draw, width, 0.0, high)


def questions(rng: np.random.Generator, count: int, n_answers: int) -> Block:
    """Return one-hot answers to `count` questions of unequal frequencies."""
    steps = rng.dirichlet(np.full(n_answers, 2.0), size=count).cumsum(axis=1)

    def draw(rng, n):
        answers = (rng.random((n, count, 1)) > steps[:, :-1]).sum(axis=2)
        return np.eye(n_answers)[answers].reshape(n, -1)

    return Block(draw, count * n_answers, stretched=False)


def linear(weights: list[np.ndarray]) -> Callable[[list[np.ndarray]], np.ndarray]:
    """Return the sum of the blocks times their weights."""
    return lambda parts: sum(p @ w for p, w in zip(parts, weights, strict=True))


def strong(rng, size) -> np.ndarray:
    """Return weights of either sign, none of them small."""
    return rng.choice([-1.0, 1.0], size) * rng.uniform(0.7, 1.3, size)


def strong_numbers(rng, n_numbers, count, n_answers) -> Problem:
    """Few strong private numbers beside 40 public one-hot columns."""
    blocks = [questions(rng, count, n_answers), numbers(n_numbers)]
    n_public = blocks[0].width
    weak = 0.4 * rng.normal(size=n_public)
    return Problem(blocks, linear([weak, strong(rng, n_numbers)]), n_public)


def clinic(rng, n_public, n_private, n_amounts) -> Problem:
    """Numbers as of a clinic: some symmetric and public, some private and skewed."""
    blocks = [numbers(n_public), numbers(n_private), amounts(n_amounts, 0.6)]
    by_log = strong(rng, n_amounts)
    first = linear([0.7 * strong(rng, n_public), strong(rng, n_private)])
    return Problem(blocks, lambda p: first(p[:2]) + np.log(p[2]) @ by_log, n_public)


def logs(rng, n_public, n_private) -> Problem:
    """Heavy-tailed amounts whose logarithms matter."""
    blocks = [amounts(n_public), amounts(n_private)]
    effect = linear([strong(rng, n_public), strong(rng, n_private)])
    return Problem(blocks, lambda parts: effect([np.log(p) for p in parts]), n_public)


def student(rng, n_public, n_private) -> Problem:
    """Symmetric heavy tails; the effect of a value flattens."""
    blocks = [
        Block(lambda rng, n, w=w: rng.standard_t(3, (n, w)), w, -12.0, 12.0)
        for w in (n_public, n_private)
    ]
    effect = linear([strong(rng, n_public), strong(rng, n_private)])
    flat = lambda parts: effect([p / (1 + np.abs(p) / 4) for p in parts])  # noqa: E731
    return Problem(blocks, flat, n_public)


def curved(rng, n_public, n_private) -> Problem:
    """Waves, parabolas and steps beside a linear trend."""
    blocks = [
        Block(lambda rng, n, w=w: rng.random((n, w)), w) for w in (n_public, n_private)
    ]
    trends = [2.5 * strong(rng, b.width) for b in blocks]
    phases = [rng.uniform(0, 2 * np.pi, b.width) for b in blocks]
    centres = [rng.uniform(0.3, 0.7, b.width) for b in blocks]

    def score(parts):
        total = linear(trends)(parts)
        for part, phase, centre in zip(parts, phases, centres, strict=True):
            shapes = (
                0.8 * np.sin(5 * part + phase),
                6 * (part - centre) ** 2,
                1.2 * (part > centre),
            )
            total += sum(shape[:, i::3].sum(axis=1) for i, shape in enumerate(shapes))
        return total

    return Problem(blocks, score, n_public)


def factors(rng, n_public, n_private, share, n_factors=4) -> Problem:
    """Public and private columns load on the same factors."""
    loads = rng.normal(size=(n_factors, n_public + n_private))
    loads *= share**0.5 / np.linalg.norm(loads, axis=0)

    def draw(rng, n):
        noise = rng.normal(size=(n, loads.shape[1]))
        return rng.normal(size=(n, n_factors)) @ loads + (1 - share) ** 0.5 * noise

    blocks = [Block(draw, loads.shape[1], -3.0, 3.0)]
    weights = np.r_[0.5 * rng.normal(size=n_public), strong(rng, n_private)]
    return Problem(blocks, linear([weights]), n_public)


def survey(rng, n_public, n_private, n_answers) -> Problem:
    """Many weak questions, most of them public."""
    blocks = [questions(rng, count, n_answers) for count in (n_public, n_private)]
    weights = [rng.normal(size=blocks[0].width), 1.5 * rng.normal(size=blocks[1].width)]
    return Problem(blocks, linear(weights), blocks[0].width)


def mixed(rng, n_public, n_private, count, factor=(1.0, 1.0)) -> Problem:
    """Numbers and questions in both parts; `factor`s of the two effects."""
    blocks, weights, n_answers = [], [], 4
    for width, size in zip((n_public, n_private), factor, strict=True):
        blocks += [numbers(width), questions(rng, count, n_answers)]
        weights += [size * rng.normal(size=b.width) for b in blocks[-2:]]
    return Problem(blocks, linear(weights), n_public + blocks[1].width)


def interactions(rng, n_groups, n_private) -> Problem:
    """The slope of private numbers depends on a public group."""
    blocks = [questions(rng, 1, n_groups), numbers(3), numbers(n_private)]
    slopes = 0.5 * strong(rng, n_private) + 0.7 * rng.normal(size=(n_groups, n_private))
    main = linear([0.6 * rng.normal(size=n_groups), 0.6 * strong(rng, 3)])

    def score(parts):
        return main(parts[:2]) + (parts[0] @ slopes * parts[2]).sum(axis=1)

    return Problem(blocks, score, n_groups + 3)


def classes(rng, n_public, n_private, count, n_classes) -> Problem:
    """Several classes; every block matters."""
    blocks = [numbers(n_public), questions(rng, count, 4), numbers(n_private)]
    weights = [rng.normal(size=(b.width, n_classes)) for b in blocks]
    return Problem(blocks, linear(weights), n_public + blocks[1].width)


@dataclasses.dataclass(frozen=True)
class Generated:
    """A generated table: rows of a fixed problem, fresh for each seed."""

    seed: int  # of the problem
    n_rows: int
    make: Callable[[np.random.Generator], Problem]
    strength: float = 2.0  # standard deviation of the log odds
    rate: float = 0.4  # share of class 1, of two
    n_classes: int = 2
    widen: float = 1.0  # factor of the declared bounds

    def load(self, seed: int) -> Split:
        """Return training rows, and `N_TEST` more, of the problem."""
        rng = np.random.default_rng([self.seed, 2, seed])
        Z, chances = self._rows(rng, self.n_rows + N_TEST)
        draws = rng.random((len(Z), 1))
        y = (draws > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        shift, scale, low, high = self._units
        X, n = shift + scale * Z, self.n_rows
        low, high = shift + scale * low, shift + scale * high
        return Split(X[:n], y[:n], X[n:], y[n:], (low, high))

    def public(self) -> np.ndarray:
        """Return the indices of the public columns."""
        return np.arange(self._problem.n_public)

    @functools.cached_property
    def _problem(self) -> Problem:
        return self.make(np.random.default_rng([self.seed, 0]))

    def _rows(self, rng, n: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [block.draw(rng, n) for block in self._problem.blocks]
        return np.hstack(parts), self._chances(parts)

    def _chances(self, parts) -> np.ndarray:
        centre, scale, offset = self._calibration
        raw = (self._problem.score(parts) - centre) * scale + offset
        if self.n_classes > 2:
            return softmax(raw, axis=1)
        return np.column_stack([expit(-raw), expit(raw)])

    @functools.cached_property
    def _calibration(self) -> tuple:
        rng = np.random.default_rng([self.seed, 1])
        problem = self._problem
        raw = problem.score([block.draw(rng, N_TEST) for block in problem.blocks])
        centre, scale = raw.mean(axis=0), self.strength / raw.std(axis=0)
        if self.n_classes > 2:
            return centre, scale, np.log(rng.dirichlet(np.full(self.n_classes, 8.0)))
        odds = (raw - centre) * scale
        excess = lambda b: expit(odds + b).mean() - self.rate  # noqa: E731
        return centre, scale, brentq(excess, -30, 30)

    @functools.cached_property
    def _units(self) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng([self.seed, 3])
        columns = [block for block in self._problem.blocks for _ in range(block.width)]
        stretched = np.array([block.stretched for block in columns])
        low, high = (
            np.array([getattr(block, side) for block in columns])
            for side in ("low", "high")
        )
        # One-hot columns are 0 or 1 and amounts at least 0, as everybody knows: only
        # the other bounds can be too wide.
        high = np.where(stretched, self.widen * high, high)
        low = np.where(low < 0, self.widen * low, low)
        scale = np.where(stretched, 10.0 ** rng.uniform(-1, 3, len(columns)), 1.0)
        shift = np.where(low < 0, scale * rng.uniform(-2, 6, len(columns)), 0.0)
        return shift, scale, low, high
