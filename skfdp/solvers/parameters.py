r"""The rules behind every "auto", from public and released numbers only.

The rules were found on ten data sets and checked on eleven others; the page on
defaults in the theory tells how.

Notation: ``n`` rows (public), ``d`` features, ``m`` columns of weights (1 for two
classes, else one per class), ``mu`` the Gaussian-DP parameter of the budget for
sensitivity ``clip_norm`` (half of the budget's own mu where a replaced record moves a
sum by ``2 * clip_norm``). Rows of the loop have a typical norm of 1.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.data.input_scaler import InputScaler, resolve_bounds
from skfdp.data.validation import UtilityWarning, check_number, warn_caller
from skfdp.privacy.accounting import gdp_mu
from skfdp.privacy.assumptions import VALUES_CLIPPED, Assumption, enforced
from skfdp.privacy.events import (
    AddOrRemoveOne,
    PrivacyWarning,
    Relation,
)
from skfdp.solvers import Choice

#: Value of the constant feature that carries the intercept.
BIAS_FEATURE = 0.1
#: Fewest, usual and most steps of the full-batch loop.
LEAST_STEPS, USUAL_STEPS, MOST_STEPS = 80, 200, 1000
#: Momentum of many steps, and of the fewest.
MOMENTUM, LEAST_MOMENTUM = 0.9, 0.5
#: Expected batch and passes over the data of the Poisson loop.
BATCH_SIZE, N_EPOCHS = 4096, 20
#: From here on classes are many: class sums pay in networks.
MANY_CLASSES = 20
#: Largest share of ``mu**2`` for a mean.
MOST_FOR_MEAN = 0.15
#: Least share of ``mu**2`` for the private mean.
LEAST_FOR_MEAN = 0.02
#: Least norm of the public columns beside a public model that has seen them already.
LEAST_PUBLIC_NORM = 0.25
# What no gradient exceeds, the residuals of a classifier being bounded.
_LARGEST_CLIP = 100.0
# Below this clip norm most residuals are cut: the loss is no steeper to step on.
_CAP_CLIP = 0.6
# Steps on a penalised weight end within exp(-8) of the way from where they began.
_TIME_CONSTANTS = 8.0
# Standard deviation of the noise that the loop leaves in one weight: the largest that
# a logit tolerates; a prediction in units of the target's spread tolerates less.
_WEIGHT_NOISE, _WEIGHT_NOISE_OF_TARGETS = 1.5, 0.75


def signal_to_noise(mu: float, n: float, d: int, m: int) -> float:
    """Signal-to-noise index of one whole-budget gradient, ``mu n / sqrt(d m)``."""
    return mu * n / math.sqrt(d * m)


#: Signals, and the share of what columns tell that fits with these lost to the noise:
#: medians over the tables of ``benchmarks/reproduce/gaps.py``, cut at 1.
SIGNALS = (3.0, 10.0, 32.0, 100.0, 316.0, 1000.0, 3162.0, 10_000.0, 100_000.0)
GAPS = {
    "private": (1.0, 1.0, 0.88, 0.47, 0.19, 0.08, 0.04, 0.01, 0.0),
    "label-DP": (1.0, 0.96, 0.53, 0.19, 0.04, 0.02, 0.01, 0.0, 0.0),
}
#: From here on a fit warns of little more than the start.
LARGE_GAP = 0.75


def gap_of(signal: float, kind: str) -> float:
    """Return which share of what columns tell is lost to the noise, about.

    Parameters
    ----------
    signal : float
        Records over the noise of a sum of unit vectors: ``mu n`` for a record that
        moves it by 1.
    kind : {"private", "label-DP"}
    """
    return float(np.interp(math.log(signal), np.log(SIGNALS), GAPS[kind]))


@public("skfdp.metrics")
def expected_gap(
    epsilon: float,
    n_records: int,
    *,
    delta: float = 1e-5,
    neighboring_relation: str = "replace_one",
    label_dp: bool = False,
) -> float:
    """Return how much accuracy privacy is expected to cost, before any data is seen.

    The share of what the columns of a table tell of the target that a default fit loses
    to the noise: 0 is a model without privacy, 1 a constant. It is a median over 19
    tables of 8 to 44 columns and 2 to 5 classes, numbers as curves. Where it is .47 and
    .19, a quarter of the tables lost more than .77 and .45. Regressions of four further
    tables were near it, and below epsilon times n of 300 worse than the mean.

    Parameters
    ----------
    epsilon : float
    n_records : int
        Of the training table; persons, where all rows of a person are protected.
    delta : float, default=1e-5
    neighboring_relation : str, default="replace_one"
    label_dp : bool, default=False
        Whether every column is public, and only the target is private. Otherwise
        nothing is public.

    Returns
    -------
    gap : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If a number or a name is out of its range.

    Notes
    -----
    **Guarantees.** A function of its arguments: it reads no data and costs nothing.
    What it interpolates is printed by ``benchmarks/reproduce/gaps.py``.

    Examples
    --------
    >>> from skfdp.metrics import expected_gap
    >>> [round(expected_gap(1.0, n), 2) for n in (300, 1000, 3000, 10_000, 30_000)]
    [0.8, 0.4, 0.17, 0.07, 0.03]
    """
    check_number("n_records", n_records, low=0, integral=True)
    mu = gdp_mu(epsilon, delta) / Relation.of(neighboring_relation).moves(1.0)
    return gap_of(mu * n_records, "label-DP" if label_dp else "private")


def mean_fraction(mu: float, n: float, d: int, least: float = LEAST_FOR_MEAN) -> float:
    """Share of ``mu**2`` for the private mean: an error of about 1/4, where it pays."""
    return float(np.clip(16 * d / (mu * n) ** 2, least, MOST_FOR_MEAN))


#: A mean of rows of norm 1 that is shorter than the root of this is not subtracted
#: where their signs are worth a sqrt(2): that lengthens the rest by 1.15 at most.
LEAST_SQUARED_MEAN = 0.25


def shrunk_mean(mean: np.ndarray, noise_std: float) -> np.ndarray:
    """James-Stein shrinkage toward zero: free, and zero where the mean is noise.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        The released mean.
    noise_std : float
        Standard deviation of its noise per coordinate.
    """
    square = float(mean @ mean)
    if square == 0:
        return mean
    error = mean.size * noise_std**2
    # The mean of rows cut to norm 1 is no longer: what exceeds it is noise, too.
    return mean * min(max(0.0, 1 - error / square), 1 / (1 + error))


def centred_scale(mean: np.ndarray, noise_std: float = 0.0) -> float:
    """Factor that gives centred unit rows a norm of about 1 again.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        The released mean.
    noise_std : float, default=0.0
        Standard deviation of its noise per coordinate. The error of the mean, about
        ``sqrt(d) noise_std`` long, is scaled like the rows, and must not become longer
        than a row.
    """
    error = max(mean.size * noise_std**2, 1e-6)
    return 1 / math.sqrt(max(1 - float(mean @ mean), min(0.05, error)))


def n_steps(signal: float, s2n: float) -> int:
    """Return the steps of the full-batch loop: a large signal has more to reach.

    The noise of the whole loop does not depend on their number, and their sum does not
    as long as none of them is as long as `learning_rate` allows.

    Parameters
    ----------
    signal : float
        ``mu n``.
    s2n : float
        See `signal_to_noise`.
    """
    steps = min(math.sqrt(5 * signal), USUAL_STEPS * (s2n / 1000) ** (1 / 3))
    return int(np.clip(steps, LEAST_STEPS, MOST_STEPS))


def clip_norm(s2n: float, *, regression: bool = False) -> float:
    """Clip norm: a small one pulls harder, a large one is unbiased.

    It grows with the signal until it cuts nothing but rows a hundred times as long as
    usual: beyond that, residuals would fall between the integers.

    Parameters
    ----------
    s2n : float
        See `signal_to_noise`.
    regression : bool, default=False
        Residuals of targets of spread 1 have no bound, and cutting many of them biases
        the mean: the clip norm grows with the signal without a plateau. Beyond 4 it
        cuts next to nothing and the noise grows with it: it grows more slowly there.
    """
    if regression:
        clip = 0.8 * math.sqrt(s2n / 128)
        return max(0.1, clip if clip < 4 else math.sqrt(4 * clip))
    if s2n > 1000:
        return min(0.8 * math.sqrt(s2n / 1000), _LARGEST_CLIP)
    return float(np.clip(0.8 * math.sqrt(s2n / 128), 0.1, 0.8))


def learning_rate(
    mu: float,
    n: float,
    n_steps: int,
    *,
    clip_norm: float,
    momentum: float,
    curvature: float,
    regression: bool = False,
) -> float:
    """First step size, on the clipped sum over ``n * clip_norm``.

    Below the cap the noise that accumulates in a weight has a standard deviation of
    1.5 whatever the problem (0.75 in a regression); the cap keeps heavy-ball steps on
    the unclipped loss stable, and is lower for losses of higher curvature than the
    softmax. A small clip norm does not lower the cap in proportion: nearly all
    residuals are cut there, and the loss is nearly linear.
    """
    pace = 2 * (1 - momentum) / n_steps
    cap = float(np.clip(2.5 * n * pace, 10, 40)) * min(1.0, 0.5 / curvature)
    cap *= (1 + momentum) / (1 + MOMENTUM)
    noise = _WEIGHT_NOISE_OF_TARGETS if regression else _WEIGHT_NOISE
    return min(noise * mu * n * pace, cap * max(clip_norm, _CAP_CLIP))


def learning_rate_of_penalised(
    rate: float, n_steps: int, *, momentum: float, curvature: np.ndarray
) -> np.ndarray:
    """First step size of each weight beside a penalty: no more than it needs.

    The steps take a weight of curvature D through ``sum of rate_t D / (1 - momentum)``
    time constants. `_TIME_CONSTANTS` of them leave nothing of the start, exp(-8). With
    more of them the last iterate follows the last releases alone, which are the
    noisiest, and forgets those before.

    Parameters
    ----------
    rate : float
        First step size of a weight without a penalty, decaying linearly to 0.
    curvature : ndarray
        D of the penalty ``sum of D theta**2 / 2``, in the units of the gradient.
    """
    pace = 2 * (1 - momentum) / n_steps
    return np.minimum(rate, _TIME_CONSTANTS * pace / np.maximum(curvature, 1e-300))


def block_norms(
    has_public_model: bool, s2n: float = 0.0, columns: tuple[int, int] = (1, 1)
) -> tuple[float, float]:
    """Typical norms of the public and of the private part of a row that has both.

    What a block carries is between what one column does and what all of its columns
    would if each told something of its own: it counts as the root of their number.
    Beside a public model the public columns only carry what depends on both parts, of
    which a large signal can tell more.

    Parameters
    ----------
    has_public_model : bool
    s2n : float, default=0.0
        See `signal_to_noise`.
    columns : (int, int), default=(1, 1)
        Number of public and of private columns; by default both blocks are alike.
    """
    if not has_public_model:
        ours, theirs = np.sqrt(columns).tolist()
        share = ours / (ours + theirs)
        return math.sqrt(share), math.sqrt(1 - share)
    ours = float(
        np.clip(LEAST_PUBLIC_NORM * math.sqrt(s2n / 32), LEAST_PUBLIC_NORM, 0.5)
    )
    return ours, math.sqrt(1 - ours**2)


def starts_at_public_model(mu: float, n: float, n_classes: int, n_private: int) -> bool:
    """Whether a descent with a public target starts at a model of the public part.

    With many classes and a large budget the start is far from the joint model and is
    left too slowly (measured on generated baskets of 100 classes).

    Parameters
    ----------
    mu : float
        The budget's own Gaussian-DP parameter.
    """
    many = n_classes >= MANY_CLASSES
    return not many or mu * n * math.sqrt(2 / n_classes / max(1, n_private)) < 50


# -- networks ------------------------------------------------------------------------
#: Passes over the rows of a network's Poisson loop, and fewest steps of any loop.
NETWORK_EPOCHS, NETWORK_STEPS, MOST_NETWORK_STEPS = 10, 100, 300
#: Class sums that keep less than this of their differences are noise: not used.
LEAST_KEPT = 0.03
#: Clip norm of all layers together, and of the last layer alone.
NETWORK_CLIP, LAST_LAYER_CLIP = 1.0, 0.3


def network_row_bound(n_features: int) -> float:
    """L2 bound of a network's rows: columns in [0, 1] are 1/2 in the square mean."""
    return max(1.0, math.sqrt(n_features) / 2)


def pretraining_epochs(n: int) -> int:
    """Return the passes over synthetic rows: 160,000 rows, but 3 to 800 passes.

    160,000 rows are 800 steps of 200 rows. Fewer rows than 200 make one step a pass,
    and as many steps.
    """
    return min(max(3, math.ceil(160_000 / n)), 800)


def sums_bound(n_private: int, mean_square: float | None) -> float:
    """L2 bound of the private columns of a row in the class sums.

    Parameters
    ----------
    n_private : int
        Private columns, in [0, 1].
    mean_square : float or None
        Mean square of the public columns in [0, 1], a guess for the private ones; None
        without public columns.
    """
    guess = 0.25 if not mean_square else 1.5 * mean_square
    return math.sqrt(n_private * min(guess, 1.0))


def network_batch(n: int) -> int:
    """Return a network's expected batch: all of few rows, else 1/16, at least 1024."""
    return n if n <= BATCH_SIZE else max(math.ceil(n / 16), 1024)


#: Shares of ``mu**2`` that are released before a network's loop.
PRETRAINING_SHARES = {"class_sums": 0.5, "linear": 1.0}


def network_noise(widths: tuple[int, ...], learnt: bool) -> float:
    """Return the noise that a loop may leave in a weight; it outgrows random ones."""
    fresh = math.sqrt(2 / max(map(sum, itertools.pairwise(widths))))
    return 0.03 if learnt else 2 * fresh


def network_steps(signal: float, left: float) -> int:
    """Return how many steps of at most 1 leave the noise `left`: 100 to 300."""
    enough = math.ceil(left * math.sqrt(3) * signal)
    return min(max(enough, NETWORK_STEPS), MOST_NETWORK_STEPS)


def network_learning_rate(
    noise_multiplier: float, expected: float, n_steps: int, momentum: float, left: float
) -> float:
    """First step of a network's loop, on the clipped sum over ``q n clip_norm``.

    The noise that accumulates in a weight has the standard deviation `left`, and no
    step is above 1.
    """
    noise = noise_multiplier / expected * math.sqrt(n_steps / 3) / (1 - momentum)
    return min(1.0, left / noise)


def network_index(reach: float, widths: tuple[int, ...]) -> float:
    """Signal-to-noise index of a network that starts at random.

    The spread of the margins between rows that the loop can teach, over the spread that
    the random start has already. The signal is that of `signal_to_noise`: `reach` is
    ``mu n`` times the noise that the loop leaves in a weight, up to ``sqrt(3)/2``. For
    rows in [0, 1], and gradients ``sqrt(2)`` times as long as their rows:

    * a quarter of a row's squared length differs between rows, in d directions; where
      the classes lie one standard deviation apart, in one of them, and half of the
      neurons are open, a margin moves by ``|gradient| * reach / (16 d)``;
    * half of the row's length differs between rows, and reaches the margin of a random
      network times the root of its gain: rectified layers pass ``out / (in + out)`` of
      the squared length on, the last one ``2 / (in + out)``.

    Parameters
    ----------
    reach : float
        How far the loop moves along a gradient of norm `clip_norm` that all rows share.
    widths : tuple of int
        Of every layer, the input's first.
    """
    pairs = list(zip(widths, widths[1:], strict=False))
    gain = math.prod(out / (inputs + out) for inputs, out in pairs[:-1])
    gain *= 2 / sum(pairs[-1])
    taught = math.sqrt(2) * reach / (16 * widths[0])
    return taught / (0.5 * math.sqrt(gain))


def last_layer_learning_rate(
    mu: float, n: float, d: int, n_classes: int, n_steps: int, momentum: float
) -> float:
    """First step of a loop on the last layer, ``mu`` that of the loop alone.

    ``kappa`` is the standard deviation that the noise leaves in a weight, up to a
    constant: small where a class has few records for its budget.
    """
    index = math.sqrt(2) * mu * n * (2 / n_classes) / math.sqrt(d)
    kappa = index / 10 if index < 10 else min(max(index / 50, 1.0), 2.0)
    return kappa * mu * n * 2 * (1 - momentum) / n_steps


# The parameters of estimators: their checks, and what they resolve to.


#: What the guarantee takes for granted beyond what the events tell.
ASSUMPTIONS = (
    Assumption(
        "Bounds, clip norm and every other constructor parameter were chosen without "
        "looking at private data.",
        enforced=False,
    ),
    enforced(VALUES_CLIPPED),
)


#: Epsilon beyond which a fit warns.
MOST_EPSILON = 10.0

#: Divisor of columns without bounds, which are taken to be scaled: the loop's integers
#: reach twice as far.
UNBOUNDED_REACH = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """The parameters of a loop of noisy steps, from an object of `skfdp.solvers`.

    `batch_size` is the expected private batch; None: every row. "auto" is for the
    estimator to resolve, and the momentum for `momentum_of`. `padding_scale`,
    `gradient_scale`, `public_batch_size` and `learning_rate_decay` are those of
    `FeatureDPSGD`.
    """

    clip_norm: float | str = "auto"
    max_iter: int | str = "auto"
    batch_size: int | str | None = None
    learning_rate: float | str = "auto"
    learning_rate_decay: float = 1.0
    momentum: float | str = "auto"
    iterate: str = "last"
    noise_decay: float = 0.75
    max_weight_norm: float | None = None
    padding_scale: float = 1.0
    gradient_scale: float = 1.0
    public_batch_size: int | None = None

    @classmethod
    def of(cls, solver: Choice) -> Loop:
        """Return the loop that an object of `skfdp.solvers` asks for."""
        given = solver.get_params(deep=False)
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: given[name] for name in names if name in given})

    def momentum_of(self, n_steps: int) -> float:
        """Return the momentum of so many steps.

        "auto": gradients last a twentieth of the steps, at most 10 steps. With a longer
        memory few steps would swing about the optimum.
        """
        if self.momentum != "auto":
            return self.momentum
        return float(np.clip(1 - 20 / n_steps, LEAST_MOMENTUM, MOMENTUM))

    def schedule(
        self,
        n_records: int,
        n_steps: int,
        n_epochs: int = N_EPOCHS,
        automatic: int | None = BATCH_SIZE,
    ) -> tuple[float, int]:
        """Return the sampling rate and the number of steps.

        Parameters
        ----------
        n_records : int
        n_steps : int
            Steps on full batches, where `max_iter` is "auto".
        n_epochs : int
            Passes over the records on smaller ones.
        automatic : int or None
            Expected batch, where `batch_size` is "auto"; None: every row.
        """
        batch = automatic if self.batch_size == "auto" else self.batch_size
        rate = 1.0 if batch is None else min(1.0, batch / n_records)
        if self.max_iter != "auto":
            return rate, int(self.max_iter)
        return rate, n_steps if rate == 1 else math.ceil(n_epochs / rate)


@functools.cache
def shown_parameters(estimator_class: type) -> frozenset[str]:
    """Return the names that `get_params` shows: those of the own constructor."""
    return frozenset(_named(estimator_class.__init__)) - {"self"}


@functools.cache
def parameters_of(estimator_class: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of an estimator by name, those of its bases included.

    A user's subclass may leave some to its base, or pass them on as ``**parameters``.
    """
    found: dict[str, inspect.Parameter] = {}
    for one in reversed(estimator_class.__mro__):
        if "__init__" in vars(one) and one is not object:
            found |= _named(one)
    return found


def _named(function: Callable) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that have a name of their own."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    given = inspect.signature(function).parameters
    return {name: p for name, p in given.items() if p.kind in kinds}


def declared_by(model: Any, name: str) -> Any:
    """Return the parameter of any model that `get_params` shows; None: it has none."""
    shown_ones = getattr(model, "get_params", None)
    return shown_ones(deep=False).get(name) if callable(shown_ones) else None


def nominal_count(relation: Any) -> int | None:
    """Return the declared number of records where it is private, None elsewhere."""
    if isinstance(relation, AddOrRemoveOne):
        return int(relation.n_records)
    if not Relation.of(relation).counts_are_public:
        raise ValueError(
            f"neighboring_relation={relation!r} makes the number of rows private: pass "
            "AddOrRemoveOne(n_records=...) of skfdp.privacy, with a public nominal "
            "number."
        )
    return None


def warn_of_weakness(epsilon: float, random_state: int | None) -> None:
    """Warn, before anything is charged, of a seed or an epsilon that protects little.

    The seed is not quoted: the warning may end up in a log.
    """
    if random_state is not None:
        warn_caller(
            "random_state is an int: whoever knows or guesses it can remove the noise, "
            "so this fit gives NO privacy guarantee, whatever epsilon says. Leave it "
            "out for anything that is released. For experiments: "
            "warnings.simplefilter('ignore', skfdp.PrivacyWarning).",
            PrivacyWarning,
        )
    if MOST_EPSILON < epsilon < math.inf:
        odds = math.exp(min(epsilon, 700.0))
        warn_caller(
            f"epsilon={epsilon!r} is above {MOST_EPSILON:g} and protects little: a "
            f"result may be {odds:.2g} times as likely with one person's values as "
            "with others. Values from 0.1 to 3 are usual.",
            PrivacyWarning,
        )


def public_count(
    n_rows: int, n_records: int | None, epsilon: float, delta: float
) -> int:
    """Return n where it is public, else the declared number; warn of delta."""
    n_public = n_rows if n_records is None else int(n_records)
    if math.isfinite(epsilon) and delta >= 1 / n_public:
        warn_caller(
            f"delta={delta!r} is not below 1/n = {1 / n_public:.3g}: such a "
            "delta would allow to publish a record at random.",
            UserWarning,
        )
    return n_public


def resolve_input_scaler(
    bounds: Any,
    row_norm: float | str,
    normalize: bool,
    n_features: int,
    names: Sequence[str] | None,
    sparse: bool = False,
    *,
    public: np.ndarray,
    shortens: bool = True,
    longest: float | None = None,
) -> InputScaler:
    """Return the input scaler of the declared bounds.

    Parameters
    ----------
    public : bool ndarray of shape (n_features,)
        Columns of which nobody is told that they have no bounds.
    shortens : bool, default=True
        False: rows keep their length, for linear models. Rows that are to be
        normalised do not.
    longest : float, default=None
        Norm that no row exceeds, where that does not follow from the bounds.
    """
    low, span = resolve_bounds(bounds, n_features, names)
    if span is None or np.isinf(span).any():
        warn_of_bounds(bounds, span, public, names)
    if longest is None and span is not None and np.isfinite(span).all():
        longest = math.sqrt(n_features)
    shortens = shortens or bool(normalize)
    if not shortens:
        row_norm = UNBOUNDED_REACH
        if longest is not None:
            # A power of two by which no row is longer than 2, if it is not above 16:
            # shorter rows are those that the integers of the fast loop can hold. Of
            # very many columns few are large, as a rule, and each keeps the resolution
            # of 1/16.
            row_norm = 2.0 ** min(max(math.ceil(math.log2(longest / 2)), 0), 4)
    elif row_norm == "auto":
        # Columns without bounds are taken as scaled.
        row_norm = 1.0 if longest is None else longest
    input_scaler = InputScaler(
        low, span, float(row_norm), bool(normalize), shortens=shortens
    )
    if sparse and np.any(input_scaler.offset):
        raise ValueError(
            "bounds must have low == 0 in every column of a sparse X, so that zeros "
            "stay zeros: declare (0, high), or bounds=False with columns scaled "
            "before, or pass a dense X."
        )
    return input_scaler


def warn_of_bounds(
    bounds: Any, span: np.ndarray | None, public: np.ndarray, names: Any
) -> None:
    """Warn if private columns have no bounds, unless users say so; of public facts."""
    n_private = int((~public).sum())
    declare = "bounds=(low, high) or a mapping by column"
    if bounds is None and not n_private:
        warn_caller(
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            f"train badly; pass {declare}, or False if the columns are scaled already.",
            UtilityWarning,
        )
    elif bounds is None:
        warn_caller(
            "bounds=None: expect no better than chance, because no column bounds are "
            f"declared for {n_private} private column(s): columns of unequal scale "
            "train badly, and a row with a missing value counts for nothing. Declare "
            f"{declare}, or a TableSchema where the estimator takes one, or use the "
            "bounds that private_bounds releases; bounds=False is for "
            "columns that are scaled already.",
            UtilityWarning,
        )
    if span is None or not (left := ~public & np.isinf(span)).any():
        return
    places = np.flatnonzero(left).tolist()
    columns = places if names is None else [str(names[i]) for i in places]
    listed = ", ".join(map(repr, columns[:5])) + ", ..." * (len(columns) > 5)
    warn_caller(
        f"bounds leave {len(columns)} private column(s) as they are: {listed}; columns "
        "of unequal scale train badly, and a row with a missing value there counts for "
        "nothing, so declare theirs too, (0, 1) for columns of zeros and ones.",
        UtilityWarning,
    )
