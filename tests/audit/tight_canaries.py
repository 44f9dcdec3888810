"""A canary for each release that the package makes; read from top to bottom."""

import dataclasses
import functools
import warnings

import numpy as np
from scipy.sparse import csr_array
from tight_runs import Canary

import skfdp
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import (
    AdaptiveCentering,
    FeatureDPSGD,
    NoisyGradientDescent,
    NoisySGD,
    OneShot,
)

N_ROWS, N_COLUMNS = 40, 6
RELATIONS = {
    "replaced": {"neighboring_relation": "replace_one"},
    "nulled": {"neighboring_relation": "replace_special"},
    "gone": {"neighboring_relation": AddOrRemoveOne(N_ROWS)},
}
ALL, TWO, NULLED = tuple(RELATIONS), ("replaced", "nulled"), ("nulled",)
#: Which columns are private.
EVERY, SOME, NONE = (np.arange(N_COLUMNS) >= first for first in (0, 2, N_COLUMNS))
COLUMNS = {"public_features": [0, 1]}
TARGET = {"public_target": True}
LABELS = {"public_features": "all"}
#: Private parts within bounds, and beyond where there are none.
LOW, HIGH, FAR = 0.0, 1.0, 1e6
SIGNED = {"bounds": False}
AXES = np.eye(N_COLUMNS)[-2:]
#: Two of the last four columns, and the two others.
HALVES = np.kron([[0, 1, 0], [0, 0, 1]], [1, 1])

_rng = np.random.default_rng(0)
X = _rng.random((N_ROWS, N_COLUMNS)) * (_rng.random((N_ROWS, N_COLUMNS)) < 0.7)
#: The public part of record 0 is zero; all but record 0 are sparse, so that its row is
#: the longest.
DARK, BRIGHT = X.copy(), 0.2 * X
DARK[0], BRIGHT[0] = 0, 1
#: So wide that a histogram of lengths is released.
WIDE = np.tile(X, 200)
#: Plans of little noise are found sooner; a canary has noise of its own.
SOON = {"epsilon": 100.0}
HALF = {"solver": NoisySGD(batch_size=N_ROWS // 2), **SOON}
#: Persons with 3, 2, 1, 3, 2, 1, ... rows; the first has three.
GROUPS = {"groups": np.repeat(np.arange(20), [3, 2, 1] * 6 + [3, 1])}
PERSON = 3
WEIGHTS = {"sample_weight": np.ones(N_ROWS)}
#: Networks take longer.
FEW = X[:12]
Y = {
    "two": np.arange(N_ROWS) % 2,
    "three": np.arange(N_ROWS) % 3,
    "real": _rng.uniform(0, 4, N_ROWS),
    "counts": _rng.poisson(2.0, N_ROWS).astype(float),
}


def joined(usual, params):
    """Return parameters, those of a solver over the usual ones of a solver."""
    found, solver = usual | params, params.get("solver")
    if "solver" in usual and solver is not None:
        known, given = solver.get_params(), {}
        for one in (usual["solver"], solver):
            unset = type(one)().get_params()
            given |= {k: v for k, v in one.get_params().items() if v != unset[k]}
        found["solver"] = type(solver)(**{k: v for k, v in given.items() if k in known})
    return found


def fitted(kind, **usual):
    """Return a function from parameters to what fits an estimator of this kind."""

    def make(**params):
        def fit(X, y, **of_rows):
            usual_ones = {"random_state": 0, "epsilon": 8.0} | usual
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return kind(**joined(usual_ones, params)).fit(X, y, **of_rows)

        return fit

    return make


UNIT = {"bounds": (0, 1)}
SHORT = UNIT | {"solver": NoisyGradientDescent(max_iter=2, clip_norm=0.05)}
OF_PAPER = {"neighboring_relation": "replace_special", "centering": "gaussian"}
NORMED = NoisyGradientDescent(max_iter=2, clip_norm=0.05, normalize=True)
logistic = fitted(skfdp.FeatureDPLogisticRegression, **SHORT)
sgd = fitted(skfdp.DPSGDFClassifier, **UNIT, solver=NORMED, **OF_PAPER)
whole_rows = fitted(skfdp.DPSGDFClassifier, **SHORT, **OF_PAPER)
loop = fitted(skfdp.FeatureDPRegressor, **SHORT, target_bounds=(-2, 6))
TINY = {"hidden_layer_sizes": (5,), "solver": NoisySGD(max_iter=2, clip_norm=0.02)}
network = fitted(skfdp.FeatureDPMLPClassifier, **UNIT, **TINY)
SPECIAL = {"neighboring_relation": "replace_special"}
centring = fitted(skfdp.PrivateCenteringTransformer, **UNIT, **SPECIAL)

CANARIES: list[Canary] = []


def add(name, make, params, label, one, other=None, relations=(None,), **more):
    """Add a canary, or one for each relation: the other part is of those replaced.

    A part that is no pair is of the private columns, beside a label of 0. `y`, `X` and
    `private` make the table; `csr` and `rows` say how the estimator is fitted: to CSR,
    with facts of rows. The rest are fields of a `Canary`.
    """
    given = {"y": "two", "X": X, "private": EVERY, "csr": False, "rows": None} | more
    table, private, rows = given.pop("X"), given.pop("private"), given.pop("rows")
    csr, y = given.pop("csr"), given.pop("y")
    target = None if y is None else Y[y][: len(table)]
    one, other = (
        part
        if part is None or isinstance(part, tuple)
        else (part, None if y is None else 0)
        for part in (one, other)
    )
    if rows and "groups" in rows:
        given["n_rows"] = PERSON
    for relation in relations:
        fit = functools.partial(
            make(**params | RELATIONS.get(relation, {})), **rows or {}
        )
        if csr:
            fit = functools.partial(lambda fit, X, y: fit(csr_array(X), y), fit)
        whole = name if relation is None else f"{name}, {relation}"
        theirs = other if relation in (None, "replaced") else None
        CANARIES.append(
            Canary(whole, fit, table, target, private, one, theirs, label, **given)
        )


def number_at(*values):
    """Return an edit: the number of record 0 is at an end of its interval."""

    def edit(query, side):
        X = query.X.copy()
        X[0] = values[side]
        return dataclasses.replace(query, X=X)

    return edit


# -- class counts and private bounds ---------------------------------------------------
for y in ("two", "three"):
    add(f"class counts, {y}", logistic, {}, "class counts", LOW, (LOW, 1), ALL, y=y)
# With this seed no empty binade passes for one with records.
BOUNDS = {"bounds": "private", "epsilon": 100.0, "random_state": 1}
for label in ("binades", "bins"):
    add(label, logistic, BOUNDS, label, 0.9, -3.0, ALL)

# -- the length and the mean of rows ---------------------------------------------------
LENGTH = {"stream": "row length"}
add("row length", logistic, {}, "row length", HIGH, LOW, ALL, **LENGTH)
NO_MODEL = COLUMNS | {"public_model": None}
SQUARE = {"private": SOME, "stream": "row square"}
add("row square", logistic, NO_MODEL, "row length", HIGH, LOW, TWO, **SQUARE)
WHOLE = {"X": WIDE, "private": np.ones(WIDE.shape[1], dtype=bool)}
add("row lengths", logistic, {"epsilon": 100.0}, "row lengths", HIGH, LOW, ALL, **WHOLE)
add("mean, signed", logistic, SIGNED, "mean", FAR, -FAR, ALL)
add("mean of whole rows, signed", centring, SIGNED, "mean", FAR, -FAR, ALL, y=None)
# Rows without negative entries meet at 90 degrees at most.
SHORTENED = {"solver": NoisyGradientDescent(row_norm=1.0)}
for csr in (False, True):
    held, one, other = ", CSR" * csr, HALVES[0], HALVES[1]
    add(f"mean, bounded{held}", logistic, {}, "mean", HIGH, None, NULLED, csr=csr)
    name = f"mean, bounded, replaced{held}"
    add(name, logistic, SHORTENED, "mean", one, other, csr=csr)
name, REPLACED = "mean of whole rows, bounded", ("replaced",)
add(name, centring, {}, "mean", AXES[0], AXES[1], REPLACED, y=None)

# -- Algorithm 2 of DPSGD-F ------------------------------------------------------------
ADAPTIVE = {"centering": AdaptiveCentering(clip_features=True)}
#: No sum of these with signs is zero, so that no rotated entry is.
ODD_ROW = np.array([0.9, 0.31, 0.17, 0.53, 0.71, 0.07])
for stream in ("rough binades", "rough bins 1", "rough bins 2"):
    add(stream, sgd, ADAPTIVE, "rough mean", ODD_ROW, LOW, ALL, stream=stream)
DISTANCES = ("distances", HIGH, LOW, ALL)
for stream in ("distances from the rough mean", "distances from the mean"):
    more = {"stream": stream, "edit": number_at(2.0, 1e-9)}
    add(stream, sgd, ADAPTIVE, *DISTANCES, **more)
ROUGH = ADAPTIVE | SIGNED
add("mean about a rough one", whole_rows, ROUGH, "mean", FAR, -FAR, ALL)


# -- gradients of linear models --------------------------------------------------------
def two_classes(query):
    """Return theta at which only the first two classes are likely, in equal parts."""
    theta = np.zeros(query.shape)
    theta[2:, -1] = -1e4
    return theta


SLOPE = ("descent", HIGH, (HIGH, 1))
SAMPLED, CSR = {"alone": True}, {"csr": True}
add("descent", logistic, {}, *SLOPE, ALL)
add("descent, Poisson batches", sgd, HALF, *SLOPE, ALL, **SAMPLED)
for loss in ("log_loss", "hinge", "squared_hinge"):
    add(f"descent, {loss}", sgd, {"loss": loss}, *SLOPE, TWO)
THREE = {"y": "three", "theta": two_classes}
add("descent, three classes", logistic, {}, *SLOPE, **THREE)
ENDS = ("descent", (HIGH, -2), (HIGH, 6), TWO)
add("descent, CSR", sgd, {}, *SLOPE, TWO, **CSR)
add("descent, CSR, Poisson batches", sgd, HALF, *SLOPE, TWO, **CSR, **SAMPLED)
add("descent, squared error, CSR", loop, {}, *ENDS, y="real", **CSR)
add("descent, class weights", logistic, {"class_weight": {0: 2.0, 1: 0.5}}, *SLOPE)
add("descent, columns public", logistic, NO_MODEL, *SLOPE, private=SOME)
ORTHANT = {**NO_MODEL, **TARGET, "fit_intercept": False}
PUBLIC = ((AXES[0], None), (AXES[1], None))
for name, csr in {"": False, ", CSR": True}.items():
    name = f"descent, target public, one orthant{name}"
    add(name, logistic, ORTHANT, "descent", *PUBLIC, X=DARK, private=SOME, csr=csr)
name, OPPOSITE = "descent, target public, signed", ((FAR, None), (-FAR, None))
add(name, logistic, TARGET | SIGNED, "descent", *OPPOSITE)
BY_LABEL, OTHER_LABEL = {"X": BRIGHT, "private": NONE}, ((None, 0), (None, 1))
for y, theta in (("two", None), ("three", two_classes)):
    for name, clip_norm in {"": 30.0, ", short gradients": 0.05}.items():
        clipped = {"solver": NoisyGradientDescent(clip_norm=clip_norm), **LABELS}
        more, name = {"y": y, "theta": theta, **BY_LABEL}, f"label loop, {y}{name}"
        add(name, logistic, clipped, "descent", *OTHER_LABEL, **more)
PADDED = COLUMNS | {"solver": FeatureDPSGD(public_loss="zero")}
add("descent, zero padding", logistic, PADDED, *SLOPE, private=SOME)
add("descent, zero padding, CSR", logistic, PADDED, *SLOPE, private=SOME, **CSR)
name, more = "descent, zero padding, Poisson batches", {"private": SOME, **SAMPLED}
add(name, logistic, PADDED | HALF, *SLOPE, **more)
for loss in ("squared_error", "huber"):
    add(f"descent, {loss}", loop, {"loss": loss}, *ENDS, y="real")
RATES, COUNTS = {"loss": "poisson", "target_bounds": (0, 6)}, {"y": "counts"}
for loss in ("poisson", "tweedie"):
    given = RATES | {"loss": loss}
    add(f"descent, {loss}", loop, given, "descent", HIGH, (HIGH, 6), TWO, **COUNTS)
add("descent, squared_error, Poisson batches", loop, HALF, *ENDS, y="real", **SAMPLED)

# -- labels in one release -------------------------------------------------------------
ONE_SHOT = {"solver": OneShot(), **LABELS}
STATISTIC = ("label statistic", *OTHER_LABEL, TWO)
for y in ("two", "three"):
    add(f"label statistic, {y}", logistic, ONE_SHOT, *STATISTIC, y=y, **BY_LABEL)

# -- scales of a regression ------------------------------------------------------------
SCALE = ("target scale", (LOW, -2.0), (LOW, 6.0))
# One bin a record: (1, 0) and (0, 1), the root of two apart, and an event of its own.
for relation in ALL:
    label = "target histogram" if relation == "replaced" else "target scale"
    more = {"y": "real", "stream": "target histogram"}
    add("target histogram", loop, {}, label, *SCALE[1:], (relation,), **more)
add("target mean", loop, {}, *SCALE, ALL, y="real", stream="target mean")
more = {"stream": "target spread", "edit": number_at(1.0, -1.0)}
add("target spread", loop, {}, *SCALE, ALL, y="real", **more)
more = {"stream": "mean rate", "edit": number_at(1.0, -1.0)}
ends = (LOW, 0.0), (HIGH, 6.0)
add("mean rate", loop, RATES, "mean rate", *ends, TWO, **COUNTS, **more)

# -- the temperature -------------------------------------------------------------------


def sure_and_wrong(query, side):
    """Return slopes where the public model is sure of another class than that of 0.

    The step looks at the private columns alone, and is so small that it changes no
    residual; its reach is smaller. It is released, and may be any.
    """
    n_outputs = query.step.shape[0]
    turned = np.array([1.0]) if n_outputs == 1 else np.array([-1.0, 1.0, 0.0])
    offset, step = np.zeros((query.n_rows, n_outputs)), np.zeros(query.step.shape)
    offset[0], step[:, 2:N_COLUMNS] = 40 * turned, 1e-3 * turned[:, None]
    own = dataclasses.replace(query.query, offset=offset)
    more = {"query": own, "start": 0 * query.start, "step": step, "reach": 1e-9}
    return dataclasses.replace(query, **more)


SURE, KNOWN = {"private": SOME, "edit": sure_and_wrong}, ((HIGH, None), (LOW, None))
for name, y in {"two": "two", "three": "three", "CSR": "two"}.items():
    temperature, more = ("temperature", *KNOWN, TWO), {"y": y, "csr": name == "CSR"}
    both = COLUMNS | TARGET
    add(f"temperature, {name}", logistic, both, *temperature, **SURE, **more)
name, temperature = "temperature of a wide regression", ("temperature", *OPPOSITE, TWO)
add(name, loop, SIGNED, *temperature, y="real", **WHOLE, edit=sure_and_wrong)

# -- sums for centring ----------------------------------------------------
PARTED = [(part, None) for part in HALVES]
NULL = ((HIGH, None), None, NULLED)
name, MOMENTS = "cross moments of centring", {"y": None, "private": SOME}
add(name, centring, COLUMNS, "cross moments", *NULL, **MOMENTS)
MOVED = COLUMNS | RELATIONS["replaced"]
add(f"{name}, bounded", centring, MOVED, "cross moments", *PARTED, **MOMENTS)
MOMENTS["X"] = BRIGHT
add(f"{name}, signed", centring, MOVED | SIGNED, "cross moments", *OPPOSITE, **MOMENTS)

# -- networks --------------------------------------------------------------------------
for backend in ("numpy", "torch"):
    name = f"descent of a network, {backend}"
    add(name, network, {"backend": backend}, *SLOPE, X=FEW)
name = "descent of a network"
add(name, network, {}, *SLOPE, NULLED, X=FEW)
add(f"{name}, zero padding", network, PADDED, *SLOPE, X=FEW, private=SOME)
GONE = {"neighboring_relation": AddOrRemoveOne(len(FEW))}
add(f"{name}, gone", network, GONE, "descent", HIGH, X=FEW)
SIX = {"solver": NoisySGD(batch_size=6), **SOON}
add(f"{name}, Poisson batches", network, SIX, *SLOPE, X=FEW, **SAMPLED)

# -- scores ----------------------------------------------------------------------------


class Scored:
    """A public model of two classes: the first column is a probability."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(int)


def scored(**params):
    def fit(X, y, **of_rows):
        given = {"model_is_public": True, "random_state": 0, **params, **of_rows}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return skfdp.private_score(Scored(), X, y, 8.0, **given)

    return fit


AREA, TABLE = {"metrics": "roc_auc"}, ("scores", (LOW, 1), (HIGH, 1))
LOSSES = {"metrics": ["accuracy", "roc_auc", "log_loss", "brier_score"]}
add("counts of scores", scored, AREA, "scores", (LOW, 1), HIGH, ALL)
add("score table with losses", scored, LOSSES, *TABLE, ALL)

# -- persons ---------------------------------------------------------------------------
PERSONS, BOTH = {"rows": GROUPS}, {"rows": GROUPS | WEIGHTS}
add("class counts, persons", logistic, {}, "class counts", *SLOPE[1:], TWO, **PERSONS)
add("descent, persons", logistic, {}, *SLOPE, TWO, **PERSONS)
add("descent, persons and weights", logistic, {}, *SLOPE, TWO, **BOTH)
name = "descent, Poisson batches of persons"
TEN = {"solver": NoisySGD(batch_size=10), **SOON}
add(name, sgd, TEN, *SLOPE, TWO, **SAMPLED, **PERSONS)
REPEATED = np.vstack([BRIGHT[:1]] * PERSON + [BRIGHT[PERSON:]])
more = {"X": REPEATED, "private": NONE, **PERSONS}
add("label statistic, persons", logistic, ONE_SHOT, *STATISTIC, **more)
name, FEWER = "score table with losses, persons", {"metrics": LOSSES["metrics"][:3]}
add(name, scored, FEWER, *TABLE, TWO, **BOTH)
HEAVY = {"sample_weight": [4.0] + [1.0] * (N_ROWS - 1)}
add("descent, weights", logistic, {}, *SLOPE, rows=HEAVY)
add("mean, persons", logistic, {}, "mean", HIGH, None, NULLED, **PERSONS)
