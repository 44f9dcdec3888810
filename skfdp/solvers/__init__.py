"""Ways to train a model: what `solver`, `centering` and `loss` of estimators take.

Each is a name or an object that holds the parameters of one algorithm. A name stands
for its object with defaults. The parameters of an object can be searched, as
``solver__clip_norm``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import BaseEstimator

from skfdp.addresses import public
from skfdp.data.validation import check_choice, check_flag, check_number, check_size
from skfdp.mechanisms.descent import AVERAGES
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
    "Pretraining",
    "TorchBackend",
]


# The constructor takes the fields, by name alone.
_parameters = dataclasses.dataclass(kw_only=True, eq=False, repr=False)


class Choice(BaseEstimator):
    """The parameters of one algorithm; `fit` reads them and changes none."""

    def _check(self) -> None:
        """Raise ValueError for a parameter out of range."""
        raise NotImplementedError


@public("skfdp.solvers")
@_parameters
class NoisyGradientDescent(Choice):
    """Gradient descent with noise on the clipped gradient of all records.

    Parameters
    ----------
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, for rows of typical
        norm 1 (regression: and targets of spread 1). It alone bounds what a long row
        adds.
    max_iter : int or "auto", default="auto"
        Number of noisy steps. "auto": 80 to 1000, by the signal.
    learning_rate : float or "auto", default="auto"
        First step size on the clipped sum over ``n clip_norm``.
    learning_rate_decay : float, default=1.0
        Share of the step size that is gone at the end, linearly; 0: constant steps.
    momentum : float or "auto", default="auto"
        Factor of the velocity, in [0, 1). "auto": 0.9, and less on fewer than 200
        steps, ``1 - 20 / max_iter``, but at least 0.5; of networks 0.9.
    iterate : {"last", "tail", "uniform"}, default="last"
        The published weights: the last, or a mean of the second half or of all.
    noise_decay : float, default=0.75
        Exponent of the schedule of the noise over time; 0: constant noise.
    max_weight_norm : float, default=None
        Project the weights (in the loop's coordinates) onto this L2 ball.
    row_norm : float or "auto", default="auto"
        Typical L2 norm of the private columns of a row, within `bounds`: the loop
        divides by it. Longer rows are not cut, but for a network, which meets rows of
        up to this norm. "auto": their mean norm, released (a network: a rule of the
        number of columns).
    normalize : bool, default=False
        Scale every non-zero row, its private columns alone where others are public, to
        one norm, so that no norm is released. The model is then one of normalised rows,
        in `predict` too.

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
    iterate: str = "last"
    noise_decay: float = 0.75
    max_weight_norm: float | None = None
    row_norm: float | str = "auto"
    normalize: bool = False

    def _check(self) -> None:
        auto = ("auto",)
        check_size("clip_norm", self.clip_norm, also=auto)
        check_number("max_iter", self.max_iter, integral=True, also=auto)
        check_size("learning_rate", self.learning_rate, also=auto)
        decay = self.learning_rate_decay
        check_number("learning_rate_decay", decay, high=1 + 1e-9, include_low=True)
        check_number("momentum", self.momentum, high=1, include_low=True, also=auto)
        check_choice("iterate", self.iterate, AVERAGES)
        check_number("noise_decay", self.noise_decay, high=10, include_low=True)
        check_size("max_weight_norm", self.max_weight_norm, also=(None,))
        check_size("row_norm", self.row_norm, also=auto)
        check_flag("normalize", self.normalize)


@public("skfdp.solvers")
@_parameters
class NoisySGD(NoisyGradientDescent):
    """Noisy gradient descent on Poisson batches: every record joins by chance (DP-SGD).

    Parameters
    ----------
    batch_size : int or "auto", default="auto"
        Expected number of records in a batch. "auto": 4096; for a network every row of
        up to 4096, or where the last layer alone is trained, else a 16th, at least
        1024.
    clip_norm : float or "auto", default="auto"
        As for `NoisyGradientDescent`.
    max_iter : int or "auto", default="auto"
        Number of noisy steps. "auto": 20 passes over the records; for a network 10, and
        at least 100 steps, or up to 300 where the budget has use for them.
    learning_rate, learning_rate_decay, momentum, iterate, noise_decay
        As for `NoisyGradientDescent`.
    max_weight_norm, row_norm, normalize
        As for `NoisyGradientDescent`. The schedule of the noise is for full batches
        alone.
    """

    batch_size: int | str = "auto"

    def _check(self) -> None:
        super()._check()
        check_number("batch_size", self.batch_size, integral=True, also=("auto",))


@public("skfdp.solvers")
@_parameters
class FeatureDPSGD(NoisyGradientDescent):
    """Algorithm 1 of the first paper: a public loss, and noise on the rest.

    The public loss is a loss of the public part of each record. Its gradient is exact;
    what the whole gradient adds to it is clipped, summed and released with noise.

    Parameters
    ----------
    public_loss : {"gaussian", "zero", "impute"} or callable, default="gaussian"
        The loss of the public part, padded to a whole record with normals that are
        drawn once a fit, or with zeros. "impute" is for networks alone: with private
        columns drawn given the class. Without a public target it is the loss averaged
        over all labels. A callable, for a linear classifier alone, adds the exact
        gradient of any public term:
        ``(coef, intercept, X_public, y) -> (coef_gradient, intercept_gradient)``,
        y being None unless the target is public.
    padding_scale : float, default=1.0
        Standard deviation of the normals, for columns within [0, 1].
    public_batch_size : int, default=None
        Uniform public batch of each step; None: all rows.
    gradient_scale : float, default=1.0
        Factor of the private gradient, alpha of the paper.
    batch_size : int, "auto" or None, default=None
        Expected number of records in a private batch, as for `NoisySGD`. None: every
        record.
    clip_norm, max_iter, learning_rate, learning_rate_decay, momentum, iterate
        As for `NoisyGradientDescent`.
    noise_decay, max_weight_norm, row_norm, normalize
        As for `NoisyGradientDescent`; `max_weight_norm` is the paper's W.

    References
    ----------
    Mahloujifar, Guo, Suh and Chaudhuri (2023), *Machine Learning with Feature
    Differential Privacy*, Algorithm 1.
    """

    public_loss: str | Callable = "gaussian"
    padding_scale: float = 1.0
    public_batch_size: int | None = None
    gradient_scale: float = 1.0
    batch_size: int | str | None = None

    def _check(self) -> None:
        super()._check()
        if not callable(self.public_loss):
            check_choice("public_loss", self.public_loss, PADDINGS)
        check_size("padding_scale", self.padding_scale, zero=True)
        size = self.public_batch_size
        check_number("public_batch_size", size, integral=True, also=(None,))
        check_size("gradient_scale", self.gradient_scale)
        check_number("batch_size", self.batch_size, integral=True, also=("auto", None))


@public("skfdp.solvers")
@_parameters
class OneShot(Choice):
    """One release of a statistic of the labels, and a solution from it that is free.

    For classifiers: every column has to be public, and the target private.

    Parameters
    ----------
    max_iter : int, default=1000
        Most iterations of the public optimiser.
    """

    max_iter: int = 1000

    def _check(self) -> None:
        check_number("max_iter", self.max_iter, integral=True)


@public("skfdp.solvers")
@_parameters
class GaussianCentering(Choice):
    """Centre rows by a mean that the Gaussian mechanism releases.

    Algorithm 3 of the second paper. Public columns are centred exactly.

    Parameters
    ----------
    budget_share : float or "auto", default="auto"
        Share of the squared Gaussian-DP parameter that buys the mean.
    clip_quantile : float, "auto" or None, default="auto"
        Quantile of the distances of rows from the mean, released, by which the loop
        divides, where no column is public. "auto": 0.9 with `clip_features`, else none.
        None: none.
    clip_features : bool, default=False
        The feature clipping of Algorithm 2: with tau that quantile, the constant column
        of the intercept is tau, and rows ``[x - mean, tau]`` longer than sqrt(2) tau
        are cut to it in the loop, and there alone: the model is linear as ever. A
        factor above 0 of a whole row changes no class.
    """

    budget_share: float | str = "auto"
    clip_quantile: float | str | None = "auto"
    clip_features: bool = False

    def _check(self) -> None:
        level = self.clip_quantile
        check_number("budget_share", self.budget_share, high=1, also=("auto",))
        check_number("clip_quantile", level, high=1, also=("auto", None))
        check_flag("clip_features", self.clip_features)
        if self.clip_features and level is None:
            raise ValueError(
                "clip_quantile=None leaves clip_features=True no length to cut rows "
                "to: leave clip_quantile out, or clip_features."
            )


@public("skfdp.solvers")
class AdaptiveCentering(GaussianCentering):
    """Centre rows by a mean whose error follows their spread, and not their norm.

    Algorithm 2 of the second paper, for means far longer than the spread, where no
    column is public (:ref:`adaptive-centring`). It is released in five parts.

    Parameters
    ----------
    budget_share, clip_features
        As for `GaussianCentering`.
    clip_quantile : float, "auto" or None, default="auto"
        As for `GaussianCentering`; "auto" is 0.9.
    """


@public("skfdp.solvers")
@_parameters
class Huber(Choice):
    """Huber's loss: squared up to a threshold, and linear beyond it.

    Parameters
    ----------
    threshold : float or "auto", default="auto"
        In the target's units. "auto": 1.35 times the spread of the target, which costs
        nothing more. A number below a thousandth of the width of `target_bounds` makes
        it an absolute error, and the fit warns.
    """

    threshold: float | str = "auto"

    def _check(self) -> None:
        check_size("threshold", self.threshold, also=("auto",))


@public("skfdp.solvers")
@_parameters
class Pretraining(Choice):
    """The start of the loop of a network.

    Parameters
    ----------
    start : {"auto", "linear", "class_sums", "public"}, default="auto"
        "public": at a network of the public columns and the public target, private
        columns being 0. "class_sums": the same with private columns drawn given the
        class, from sums that are released once; needs `bounds` for the private columns.
        "linear": at a `FeatureDPLogisticRegression`, which two neurons of each hidden
        layer for each class pass on; it maps the rows, and refuses `row_norm` and
        `normalize`. "auto": "linear" if the target is public; where that is refused,
        layers are too narrow for it, or for a public loss, "class_sums" from 20 classes
        on and "public" for fewer. None of them where the target is private.
    budget_share : float or "auto", default="auto"
        Share of the squared Gaussian-DP budget for the class sums or the linear model;
        1: no loop. "auto": half for class sums, and all of it for the linear model,
        which no loop that follows has improved; but half if `solver` or
        `trained_layers` asks for a loop.
    """

    start: str = "auto"
    budget_share: float | str = "auto"

    def _check(self) -> None:
        check_choice("start", self.start, ("auto", *STARTS))
        share = self.budget_share
        check_number("budget_share", share, high=1 + 1e-9, also=("auto",))


@public("skfdp.solvers")
@_parameters
class NumpyBackend(Choice):
    """NumPy multiplies in the loop of a network.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float32"
        Of the products: with "float32" the gradients are those of a network with about
        9 bits in each activation, with "float64" 15. The guarantee is the same.
    """

    dtype: str = "float32"

    def _check(self) -> None:
        check_choice("dtype", self.dtype, ("float32", "float64"))


@public("skfdp.solvers")
@_parameters
class TorchBackend(NumpyBackend):
    """PyTorch multiplies in the loop of a network; the result is NumPy's, to a bit.

    Parameters
    ----------
    device : str, default=None
        Such as "cuda".
    dtype : {"float32", "float64"}, default="float32"
        As for `NumpyBackend`.
    """

    device: str | None = None


#: Where a network starts, by name; `pretraining` also takes an object.
STARTS = ("linear", "class_sums", "public")
#: The backends of networks, by name.
BACKENDS: dict[str, type[Choice]] = {"numpy": NumpyBackend, "torch": TorchBackend}
#: Public losses of `FeatureDPSGD`, by what pads the public part.
PADDINGS = ("zero", "gaussian", "impute")
#: The solvers of loops, by name; `solver` also takes an object of the class.
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
    """Return the object that a parameter asks for, or one of the other values.

    Parameters
    ----------
    parameter : str
        Its name.
    value : object
        As the user gave it.
    kinds : mapping
        The classes of objects that it may be, by the name that stands for one.
    *others : object
        What else it may be.

    Raises
    ------
    ValueError
        If it is something else, or has a parameter out of range.
    """
    if type(value) in kinds.values():
        value._check()
        return value
    if isinstance(value, str) and value in kinds:
        return kinds[value]()
    if (value is None or isinstance(value, str)) and value in others:
        return value
    names = [repr(name) for name in dict.fromkeys((*others, *kinds))]
    classes = [kind.__name__ for kind in kinds.values()]
    raise ValueError(
        f"{parameter}={shown(value)} must be {', '.join(names)}, or an object of "
        f"skfdp.solvers: {', '.join(classes)}."
    )
