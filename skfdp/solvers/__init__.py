"""Algorithms for the parameters `solver`, `centering` and `loss` of estimators.

Such a parameter is the name of an algorithm or an object with its parameters. A name
selects the object with default parameters. The parameters of an object can be searched,
for instance as ``solver__clip_norm``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator

from skfdp.addresses import public
from skfdp.data.validation import check_choice, check_flag, check_number, check_size
from skfdp.privacy.checks import shown

__all__ = [
    "AdaptiveCentering",
    "FeatureDPSGD",
    "GaussianCentering",
    "Huber",
    "NoisyGradientDescent",
    "NoisySGD",
    "NumpyBackend",
    "OneShot",
    "TorchBackend",
    "Tweedie",
]


# The fields are keyword-only parameters of the constructor.
_parameters = dataclasses.dataclass(kw_only=True, eq=False, repr=False)


#: Values that replace private columns in the public loss of `FeatureDPSGD`.
PADDINGS = ("zero", "gaussian")
_AUTO = ("auto",)


class Choice(BaseEstimator):
    """Base class of objects that hold the parameters of one algorithm."""

    #: Functions that check parameters, given name and value, by the name.
    _checks = {}

    def _check(self) -> None:
        """Raise ValueError for a parameter out of range."""
        for kind in reversed(type(self).__mro__):
            for name, check in vars(kind).get("_checks", {}).items():
                check(name, getattr(self, name))


@public("skfdp.solvers")
@_parameters
class NoisyGradientDescent(Choice):
    """Gradient descent with noise on the clipped gradient of all records.

    Parameters
    ----------
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum. Rows are first
        rescaled to a typical norm of 1, and the targets of a regression to a standard
        deviation of 1. Only networks, and `clip_features` of a centering, also clip
        the rows.
    max_iter : int or "auto", default="auto"
        Number of noisy steps. "auto": 80 to 1000, more with a larger budget and more
        records.
    learning_rate : float or "auto", default="auto"
        First step size. It multiplies the noisy sum of the clipped gradients of n
        records, divided by ``n clip_norm``.
    learning_rate_decay : float, default=1.0
        Fraction by which the step size decreases, linearly, from the first step to the
        end. 0: constant.
    momentum : float or "auto", default="auto"
        Momentum, in [0, 1). "auto": 0.9; with fewer than 200 steps
        ``1 - 20 / max_iter``, but at least 0.5. For networks always 0.9.
    noise_decay : float, default=0.75
        Exponent of the noise schedule. The inverse variance of the noise in step t is
        proportional to ``(1 - t / max_iter)**noise_decay``. 0: constant noise, as
        smaller batches always have.
    max_weight_norm : float, default=None
        Radius of an L2 ball onto which each step projects the weights of the centred
        and rescaled columns. None: no projection.
    row_norm : float or "auto", default="auto"
        Typical L2 norm of the private columns of a row, after `bounds` scaled them to
        [0, 1]. Training divides rows by this norm; only networks clip longer rows.
        "auto": the released mean norm, or for a network a rule based on the number of
        columns. Linear models refuse a number with adaptive centring, and without
        private columns unless rows are normalised.
    normalize : bool, default=False
        Whether to scale every non-zero row to the same norm, in `predict`, too. No norm
        is then released. If some columns are public, only the private columns are
        scaled. This suits images, but loses what the norm tells, such as a total score.

    Examples
    --------
    >>> from skfdp import FeatureDPLogisticRegression
    >>> from skfdp.solvers import NoisyGradientDescent
    >>> model = FeatureDPLogisticRegression(solver=NoisyGradientDescent(clip_norm=0.5))
    >>> model.set_params(solver__clip_norm=0.25).get_params()["solver__clip_norm"]
    0.25
    """

    clip_norm: float | str = "auto"
    max_iter: int | str = "auto"
    learning_rate: float | str = "auto"
    learning_rate_decay: float = 1.0
    momentum: float | str = "auto"
    noise_decay: float = 0.75
    max_weight_norm: float | None = None
    row_norm: float | str = "auto"
    normalize: bool = False

    # Parameters of other loops, at the values that mean a loop without them.
    batch_size = public_batch_size = None
    padding_scale = gradient_scale = 1.0

    _checks = {
        "clip_norm": partial(check_size, also=_AUTO),
        "max_iter": partial(check_number, integral=True, also=_AUTO),
        "learning_rate": partial(check_size, also=_AUTO),
        "learning_rate_decay": partial(check_number, high=1 + 1e-9, include_low=True),
        "momentum": partial(check_number, high=1, include_low=True, also=_AUTO),
        "noise_decay": partial(check_number, high=10, include_low=True),
        "max_weight_norm": partial(check_size, also=(None,)),
        "row_norm": partial(check_size, also=_AUTO),
        "normalize": check_flag,
    }


@public("skfdp.solvers")
@_parameters
class NoisySGD(NoisyGradientDescent):
    """Noisy gradient descent on Poisson-sampled batches (DP-SGD).

    Parameters
    ----------
    batch_size : int or "auto", default="auto"
        Expected number of records in a batch. "auto": 4096. A network takes all rows if
        there are at most 4096. Otherwise it takes a 16th of the rows, but at least
        1024.
    clip_norm : float or "auto", default="auto"
        As for `NoisyGradientDescent`.
    max_iter : int or "auto", default="auto"
        Number of noisy steps. "auto": 20 passes over the records. For a network: 10
        passes, but at least 100 steps, and up to 300 if the budget is large.
    learning_rate, learning_rate_decay, momentum, noise_decay
        As for `NoisyGradientDescent`.
    max_weight_norm, row_norm, normalize
        As for `NoisyGradientDescent`.
    """

    batch_size: int | str = "auto"

    _checks = {"batch_size": partial(check_number, integral=True, also=_AUTO)}


@public("skfdp.solvers")
@_parameters
class FeatureDPSGD(NoisyGradientDescent):
    """Descent with the exact gradient of a public loss, plus a noisy correction.

    The public loss depends only on the public part of each record, so that its gradient
    needs no noise. The correction is the gradient of the loss minus the gradient of the
    public loss. It is clipped for each record, summed and released with noise.

    Parameters
    ----------
    public_loss : {"gaussian", "zero"}, default="gaussian"
        The values that replace private columns in the public loss. "gaussian": normals,
        drawn once per fit. "zero": zeros. If the target is private, the public loss is
        the average over all labels.
    padding_scale : float, default=1.0
        Standard deviation of the normals of "gaussian", for columns scaled to [0, 1].
        Other public losses, and tables without private columns, refuse other values.
    public_batch_size : int, default=None
        Size of the uniform public batch of each step; None: all rows.
    gradient_scale : float, default=1.0
        Factor of the noisy correction; alpha in the paper.
    batch_size : int, "auto" or None, default=None
        Expected number of records in a private batch, as for `NoisySGD`. None: every
        record.
    clip_norm, max_iter, learning_rate, learning_rate_decay, momentum
        As for `NoisyGradientDescent`.
    noise_decay, max_weight_norm, row_norm, normalize
        As for `NoisyGradientDescent`; `max_weight_norm` is the paper's W.

    References
    ----------
    Mahloujifar, Guo, Suh and Chaudhuri (2023), *Machine Learning with Feature
    Differential Privacy*, Algorithm 1.
    """

    public_loss: str = "gaussian"
    padding_scale: float = 1.0
    public_batch_size: int | None = None
    gradient_scale: float = 1.0
    batch_size: int | str | None = None

    _checks = {
        "public_loss": partial(check_choice, choices=PADDINGS),
        "padding_scale": partial(check_size, zero=True),
        "public_batch_size": partial(check_number, integral=True, also=(None,)),
        "gradient_scale": check_size,
        "batch_size": partial(check_number, integral=True, also=("auto", None)),
    }


@public("skfdp.solvers")
@_parameters
class OneShot(Choice):
    """Label-DP classifier from one released statistic of the labels.

    All columns must be public and the target private. The model is computed from the
    statistic and the public columns, which costs no further privacy.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations of the public optimiser.
    """

    max_iter: int = 1000

    _checks = {"max_iter": partial(check_number, integral=True)}


@public("skfdp.solvers")
@_parameters
class GaussianCentering(Choice):
    """Centre rows by a mean that the Gaussian mechanism releases.

    Algorithm 3 of Sun, Suresh and Menon (2023). Public columns are centred exactly.

    Parameters
    ----------
    budget_share : float or "auto", default="auto"
        Share of the squared Gaussian-DP parameter for the mean of private columns.
    """

    budget_share: float | str = "auto"

    _checks = {"budget_share": partial(check_number, high=1, also=_AUTO)}


@public("skfdp.solvers")
@_parameters
class AdaptiveCentering(GaussianCentering):
    """Centre rows by a released mean; its error is proportional to the rows' spread.

    Algorithm 2 of Sun, Suresh and Menon (2023). It is for tables without public columns
    whose mean is much longer than the spread of the rows (:ref:`adaptive-centring`).
    The mean takes five releases. A sixth is the 0.9 quantile tau of the distances of
    rows from the mean, by which training divides rows.

    Parameters
    ----------
    budget_share : float or "auto", default="auto"
        As for `GaussianCentering`.
    clip_features : bool, default=False
        Whether to clip rows as that algorithm does. The constant column of the
        intercept is then tau, and training clips rows ``[x - mean, tau]`` to the norm
        sqrt(2) tau. Predictions are linear in rows that are not clipped.
    """

    clip_features: bool = False

    _checks = {"clip_features": check_flag}


@public("skfdp.solvers")
@_parameters
class Huber(Choice):
    """Huber's loss: squared up to a threshold, and linear beyond it.

    Parameters
    ----------
    threshold : float or "auto", default="auto"
        Threshold in the target's units. "auto": 1.35 times the spread of the target,
        without an additional charge. The fit warns if the threshold is below a
        thousandth of the width of `target_bounds`, because the loss is then practically
        the absolute error.
    """

    threshold: float | str = "auto"

    _checks = {"threshold": partial(check_size, also=_AUTO)}


@public("skfdp.solvers")
@_parameters
class Tweedie(Choice):
    """Tweedie's loss: half a deviance of amounts of which many are 0, with a log link.

    The variance is proportional to a power of the mean.

    Parameters
    ----------
    power : float, default=1.5
        Above 1 and below 2. ``"poisson"`` is the loss of power 1, ``"gamma"`` of 2.

    References
    ----------
    Jorgensen (1987), Exponential Dispersion Models, J. R. Stat. Soc. B 49(2),
    https://doi.org/10.1111/j.2517-6161.1987.tb01685.x.
    """

    power: float = 1.5

    _checks = {"power": partial(check_number, low=1, high=2)}


@public("skfdp.solvers")
@_parameters
class NumpyBackend(Choice):
    """Train a network with NumPy.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float32"
        Data type of matrix products in the training loop. Activations have about 9 bits
        with "float32" and 15 with "float64". The guarantee is the same.
    """

    dtype: str = "float32"

    _checks = {"dtype": partial(check_choice, choices=("float32", "float64"))}


@public("skfdp.solvers")
@_parameters
class TorchBackend(NumpyBackend):
    """Train a network with PyTorch; results equal those of NumPy to the last bit.

    Parameters
    ----------
    device : str, default=None
        Device of PyTorch, such as "cuda".
    dtype : {"float32", "float64"}, default="float32"
        As for `NumpyBackend`.
    """

    device: str | None = None


#: The backends of networks, by name.
BACKENDS: dict[str, type[Choice]] = {"numpy": NumpyBackend, "torch": TorchBackend}
#: The solvers with a training loop, by name; `solver` also takes an object.
LOOPS: dict[str, type[Choice]] = {
    "noisy-gd": NoisyGradientDescent,
    "noisy-sgd": NoisySGD,
    "feature-dp-sgd": FeatureDPSGD,
}
#: All solvers of linear models.
SOLVERS = LOOPS | {"one-shot": OneShot}
#: The centrings, by name.
CENTERINGS: dict[str, type[Choice]] = {
    "gaussian": GaussianCentering,
    "adaptive": AdaptiveCentering,
}


def resolve(
    parameter: str, value: Any, kinds: Mapping[str, type[Choice]], *others: Any
) -> Any:
    """Return the object that a value selects, or the value if it is in `others`.

    `parameter` is the name for messages, and `kinds` are the accepted classes by name.
    Raise ValueError if the value is not accepted, or has a parameter out of range.
    """
    if type(value) in kinds.values():
        value._check()
        return value
    if isinstance(value, str) and value in kinds:
        return kinds[value]()
    if (value is None or isinstance(value, str)) and value in others:
        return value
    names = [repr(name) for name in dict.fromkeys((*others, *kinds))]
    classes = dict.fromkeys(kind.__name__ for kind in kinds.values())
    raise ValueError(
        f"{parameter}={shown(value)} must be {', '.join(names)}, or an object of "
        f"skfdp.solvers: {', '.join(classes)}."
    )
