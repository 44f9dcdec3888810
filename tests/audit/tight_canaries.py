"""A canary for each release that the package makes; read from top to bottom."""

import dataclasses
import functools
import math
import warnings

import numpy as np
from scipy.sparse import csr_array
from tight_runs import Canary

import skfdp
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import (
    SOLVERS,
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
HALF = {"solver": NoisySGD(batch_size=N_ROWS // 2)}
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
        solver = SOLVERS[solver]() if isinstance(solver, str) else solver
        given = {}
        for one in (usual["solver"], solver):
            unset = type(one)().get_params()
            values = one.get_params().items()
            given |= {name: v for name, v in values if v != unset[name]}
        known = solver.get_params()
        given = {name: value for name, value in given.items() if name in known}
        found["solver"] = type(solver)(**given)
    return found


def fitted(kind, **usual):
    """Return a function from parameters to what fits an estimator of this kind."""

    def make(**params):
        def fit(X, y, **of_rows):
            usual_ones = {"random_state": 0, "epsilon": 8.0} | usual
            model = kind(**joined(usual_ones, params))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(X, y, **of_rows)

        return fit

    return make


SHORT = {"bounds": (0, 1), "solver": NoisyGradientDescent(max_iter=2, clip_norm=0.05)}
REAL = {"bounds": (0, 1), "target_bounds": (-2, 6)}
logistic = fitted(skfdp.FeatureDPLogisticRegression, **SHORT)
OF_PAPER = {"neighboring_relation": "replace_special", "centering": "gaussian"}
NORMED = NoisyGradientDescent(max_iter=2, clip_norm=0.05, normalize=True)
sgd = fitted(skfdp.DPSGDFClassifier, bounds=(0, 1), solver=NORMED, **OF_PAPER)
whole_rows = fitted(skfdp.DPSGDFClassifier, **SHORT, **OF_PAPER)
loop = fitted(skfdp.FeatureDPRegressor, **SHORT | REAL)
network = fitted(
    skfdp.FeatureDPMLPClassifier,
    bounds=(0, 1),
    hidden_layer_sizes=(5,),
    solver=NoisySGD(max_iter=2, clip_norm=0.02),
)
centring = fitted(
    skfdp.PrivateCenteringTransformer,
    bounds=(0, 1),
    neighboring_relation="replace_special",
)

CANARIES: list[Canary] = []


def add(
    name,
    make,
    params,
    label,
    one,
    other=None,
    *,
    relations=(None,),
    y="two",
    X=X,
    private=EVERY,
    csr=False,
    rows=None,
    **more,
):
    """Add a canary, or one for each relation: the other part is of those replaced.

    `csr` and `rows` say how the estimator is fitted: to CSR, with facts of rows.
    """
    target = None if y is None else Y[y][: len(X)]
    if rows and "groups" in rows:
        more["n_rows"] = PERSON
    for relation in relations:
        fit = make(**params | RELATIONS.get(relation, {}))
        whole, theirs = name, other
        if relation is not None:
            whole = f"{name}, {relation}"
            theirs = other if relation == "replaced" else None
        if rows:
            fit = functools.partial(fit, **rows)
        if csr:
            fit = functools.partial(lambda fit, X, y: fit(csr_array(X), y), fit)
        CANARIES.append(
            Canary(whole, fit, X, target, private, one, theirs, label, **more)
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
    add(
        *(f"class counts, {y}", logistic, {}, "class counts", (LOW, 0), (LOW, 1)),
        relations=ALL,
        y=y,
    )
# With this seed no empty binade passes for one with records.
BOUNDS = {"bounds": "private", "epsilon": 100.0, "random_state": 1}
for label in ("binades", "bins"):
    add(label, logistic, BOUNDS, label, (0.9, 0), (-3.0, 0), relations=ALL)

# -- the length and the mean of rows ---------------------------------------------------
add(
    *("row length", logistic, {}, "row length", (HIGH, 0), (LOW, 0)),
    relations=ALL,
    stream="row length",
)
add(
    *("row square", logistic, COLUMNS | {"public_model": None}, "row length"),
    *((HIGH, 0), (LOW, 0)),
    relations=TWO,
    private=SOME,
    stream="row square",
)
add(
    *("row lengths", logistic, {"epsilon": 100.0}, "row lengths", (HIGH, 0)),
    (LOW, 0),
    relations=ALL,
    X=WIDE,
    private=np.ones(WIDE.shape[1], dtype=bool),
)
add("mean, signed", logistic, SIGNED, "mean", (FAR, 0), (-FAR, 0), relations=ALL)
add(
    *("mean of whole rows, signed", centring, SIGNED, "mean", (FAR, None)),
    (-FAR, None),
    relations=ALL,
    y=None,
)
# Rows without negative entries meet at 90 degrees at most.
for csr in (False, True):
    add(
        *(
            "mean, bounded, replaced" + ", CSR" * csr,
            logistic,
            {"solver": NoisyGradientDescent(row_norm=1.0)},
            "mean",
        ),
        *((HALVES[0], 0), (HALVES[1], 0)),
        csr=csr,
    )
add(
    *("mean of whole rows, bounded", centring, {}, "mean", (AXES[0], None)),
    (AXES[1], None),
    relations=("replaced",),
    y=None,
)
add("mean, bounded", logistic, {}, "mean", (HIGH, 0), relations=NULLED)

# -- Algorithm 2 of DPSGD-F ------------------------------------------------------------
ADAPTIVE = {"centering": AdaptiveCentering(clip_features=True)}
#: No sum of these with signs is zero, so that no rotated entry is.
ODD_ROW = np.array([0.9, 0.31, 0.17, 0.53, 0.71, 0.07])
for stream in ("rough binades", "rough bins 1", "rough bins 2"):
    add(
        *(stream, sgd, ADAPTIVE, "rough mean", (ODD_ROW, 0), (LOW, 0)),
        relations=ALL,
        stream=stream,
    )
DISTANCES = {"relations": ALL, "edit": number_at(2.0, 1e-9)}
for stream in ("distances from the rough mean", "distances from the mean"):
    add(
        *(stream, sgd, ADAPTIVE, "distances", (HIGH, 0), (LOW, 0)),
        stream=stream,
        **DISTANCES,
    )
add(
    *(
        "mean about a rough one",
        whole_rows,
        ADAPTIVE | SIGNED,
        "mean",
    ),
    *((FAR, 0), (-FAR, 0)),
    relations=ALL,
)


# -- gradients of linear models --------------------------------------------------------
def two_classes(query):
    """Return theta at which only the first two classes are likely, in equal parts."""
    theta = np.zeros(query.shape)
    theta[2:, -1] = -1e4
    return theta


SLOPE = ("descent", (HIGH, 0), (HIGH, 1))
add("descent", logistic, {}, *SLOPE, relations=ALL)
add("descent, Poisson batches", sgd, HALF, *SLOPE, relations=ALL, alone=True)
for loss in ("log_loss", "hinge", "squared_hinge"):
    add(f"descent, {loss}", sgd, {"loss": loss}, *SLOPE, relations=TWO)
add("descent, three classes", logistic, {}, *SLOPE, y="three", theta=two_classes)
ENDS = ("descent", (HIGH, -2), (HIGH, 6))
add("descent, CSR", sgd, {}, *SLOPE, relations=TWO, csr=True)
add(
    *("descent, CSR, Poisson batches", sgd, HALF, *SLOPE),
    relations=TWO,
    csr=True,
    alone=True,
)
add(
    *("descent, squared error, CSR", loop, {}, *ENDS),
    relations=TWO,
    y="real",
    csr=True,
)
add("descent, class weights", logistic, {"class_weight": {0: 2.0, 1: 0.5}}, *SLOPE)
add(
    *("descent, columns public", logistic, COLUMNS | {"public_model": None}),
    *SLOPE,
    private=SOME,
)
ORTHANT = {**COLUMNS, **TARGET, "fit_intercept": False, "public_model": None}
for name, csr in {"": False, ", CSR": True}.items():
    add(
        *(f"descent, target public, one orthant{name}", logistic, ORTHANT, "descent"),
        *((AXES[0], None), (AXES[1], None)),
        X=DARK,
        private=SOME,
        csr=csr,
    )
add(
    *("descent, target public, signed", logistic, TARGET | SIGNED, "descent"),
    *((FAR, None), (-FAR, None)),
)
BY_LABEL = {"X": BRIGHT, "private": NONE}
for y in ("two", "three"):
    for name, clip_norm in {"": 30.0, ", short gradients": 0.05}.items():
        add(
            *(f"label loop, {y}{name}", logistic),
            {"solver": NoisyGradientDescent(clip_norm=clip_norm), **LABELS},
            *("descent", (None, 0), (None, 1)),
            y=y,
            theta=two_classes if y == "three" else None,
            **BY_LABEL,
        )
SAMPLED = HALF
PADDED = COLUMNS | {"solver": FeatureDPSGD(public_loss="zero")}
add("descent, zero padding", logistic, PADDED, *SLOPE, private=SOME)
add("descent, zero padding, CSR", logistic, PADDED, *SLOPE, private=SOME, csr=True)
add(
    *("descent, zero padding, Poisson batches", logistic, PADDED | SAMPLED, *SLOPE),
    private=SOME,
    alone=True,
)
for loss in ("squared_error", "huber"):
    add(f"descent, {loss}", loop, {"loss": loss}, *ENDS, relations=TWO, y="real")
RATES = {"loss": "poisson", "target_bounds": (0, 6)}
add(
    *("descent, poisson", loop, RATES, "descent", (HIGH, 0), (HIGH, 6)),
    relations=TWO,
    y="counts",
)
add(
    *("descent, squared_error, Poisson batches", loop, SAMPLED, *ENDS),
    relations=TWO,
    y="real",
    alone=True,
)

# -- labels in one release -------------------------------------------------------------
ONE_SHOT = {"solver": OneShot(), **LABELS}
STATISTIC = ("label statistic", (None, 0), (None, 1))
for y in ("two", "three"):
    add(
        *(f"label statistic, {y}", logistic, ONE_SHOT, *STATISTIC),
        relations=TWO,
        y=y,
        **BY_LABEL,
    )

# -- scales of a regression ------------------------------------------------------------
SCALE = ("target scale", (LOW, -2.0), (LOW, 6.0))
# One bin a record: (1, 0) and (0, 1), and one event with two numbers.
for relation, reach in {"replaced": math.sqrt(1 / 2), "nulled": 1, "gone": 1}.items():
    add(
        *("target histogram", loop, {}, *SCALE),
        relations=(relation,),
        y="real",
        stream="target histogram",
        reach=reach,
    )
add("target mean", loop, {}, *SCALE, relations=ALL, y="real", stream="target mean")
add(
    *("target spread", loop, {}, *SCALE),
    relations=ALL,
    y="real",
    stream="target spread",
    edit=number_at(1.0, -1.0),
)
add(
    *("mean rate", loop, RATES, "mean rate", (LOW, 0.0), (HIGH, 6.0)),
    relations=TWO,
    y="counts",
    stream="mean rate",
    edit=number_at(1.0, -1.0),
)

# -- the temperature -------------------------------------------------------------------


def sure_and_wrong(query, side):
    """Return slopes where the public model is sure of another class than that of 0.

    The step looks at the private columns alone, and is so small that it changes no
    residual; its reach is smaller. It is released, and may be any.
    """
    n_outputs = query.step.shape[0]
    turned = np.array([1.0]) if n_outputs == 1 else np.array([-1.0, 1.0, 0.0])
    offset = np.zeros((query.n_rows, n_outputs))
    offset[0] = 40 * turned
    step = np.zeros(query.step.shape)
    step[:, 2:N_COLUMNS] = 1e-3 * turned[:, None]
    loop = dataclasses.replace(query.query, offset=offset)
    return dataclasses.replace(
        query, query=loop, start=0 * query.start, step=step, reach=1e-9
    )


for name, y in {"two": "two", "three": "three", "CSR": "two"}.items():
    add(
        *(f"temperature, {name}", logistic, COLUMNS | TARGET, "temperature"),
        *((HIGH, None), (LOW, None)),
        relations=TWO,
        y=y,
        private=SOME,
        csr=name == "CSR",
        edit=sure_and_wrong,
    )

add(
    *("temperature of a wide regression", loop, SIGNED, "temperature", (FAR, None)),
    (-FAR, None),
    relations=TWO,
    y="real",
    X=WIDE,
    private=np.ones(WIDE.shape[1], dtype=bool),
    edit=sure_and_wrong,
)

# -- sums for centring and networks ----------------------------------------------------
PARTED, OPPOSITE = ([(part, None) for part in parts] for parts in (HALVES, (FAR, -FAR)))
SUMS = {**COLUMNS, **TARGET, "pretraining": "class_sums"}
add("class sums of a network", network, SUMS, "class sums", *PARTED, private=SOME)
NULL = {"relations": NULLED, "private": SOME}
add("class sums", network, SUMS, "class sums", (HIGH, None), **NULL)
CROSS = ("cross moments of centring", centring, COLUMNS, "cross moments")
add(*CROSS, (HIGH, None), y=None, **NULL)
for name, more, parts, table in (
    ("bounded", {}, PARTED, X),
    ("signed", SIGNED, OPPOSITE, BRIGHT),
):
    add(
        *(f"cross moments of centring, {name}", centring),
        COLUMNS | RELATIONS["replaced"] | more,
        *("cross moments", *parts),
        y=None,
        X=table,
        private=SOME,
    )

# -- networks --------------------------------------------------------------------------
for backend in ("numpy", "torch"):
    add(
        *(f"descent of a network, {backend}", network, {"backend": backend}, *SLOPE),
        X=FEW,
    )
add("descent of a network", network, {}, *SLOPE, relations=NULLED, X=FEW)
add("descent of a network, zero padding", network, PADDED, *SLOPE, X=FEW, private=SOME)
add(
    *("descent of a network, gone", network),
    {"neighboring_relation": AddOrRemoveOne(len(FEW))},
    *SLOPE[:2],
    X=FEW,
)
add(
    *(
        "descent of a network, Poisson batches",
        network,
        {"solver": NoisySGD(batch_size=6)},
        *SLOPE,
    ),
    X=FEW,
    alone=True,
)
add(
    *("descent of a linear model in a network", network),
    {**TARGET, "pretraining": "linear", "hidden_layer_sizes": (6,)},
    *("descent", (HIGH, None), (LOW, None)),
    y="three",
    # In the middle of the two rows; what is released may be anything.
    forced={"mean": lambda total: np.full(total.shape, N_ROWS / 3)},
)


def half_of_the_units(query, side):
    """Return a query in which record 0 sets off one half of the layer below.

    The weights of that layer come from releases, and may be any.
    """
    values, norms = query.rows.values.copy(), query.rows.squared_norms.copy()
    middle = (values.shape[1] - 1) // 2
    values[0, :-1] = 0
    values[0, :middle] += (2**15 - 1) * (1 - side)
    values[0, middle:-1] += (2**15 - 1) * side
    norms[0] = np.square(values[0], dtype=float).sum()
    rows = dataclasses.replace(query.rows, values=values, squared_norms=norms)
    return dataclasses.replace(query, rows=rows)


add(
    *("descent of the last layer", network, SUMS | {"hidden_layer_sizes": (24,)}),
    *("descent", *PARTED),
    X=FEW,
    private=SOME,
    edit=half_of_the_units,
    theta=lambda query: np.zeros(query.shape),  # no margin is sure
)

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return skfdp.private_score(
                *(Scored(), X, y, 8.0),
                model_is_public=True,
                random_state=0,
                **params,
                **of_rows,
            )

    return fit


COUNTS = {"metrics": "roc_auc"}
LOSSES = {"metrics": ["accuracy", "roc_auc", "log_loss", "brier_score"]}
TABLE = ("scores", (LOW, 1), (HIGH, 1))
add("counts of scores", scored, COUNTS, "scores", (LOW, 1), (HIGH, 0), relations=ALL)
add("score table with losses", scored, LOSSES, *TABLE, relations=ALL)

# -- persons ---------------------------------------------------------------------------
PERSONS = {"relations": TWO, "rows": GROUPS}
add("class counts, persons", logistic, {}, "class counts", *SLOPE[1:], **PERSONS)
add("descent, persons", logistic, {}, *SLOPE, **PERSONS)
add(
    *("descent, persons and weights", logistic, {}, *SLOPE),
    relations=TWO,
    rows=GROUPS | WEIGHTS,
)
add(
    *(
        "descent, Poisson batches of persons",
        sgd,
        {"solver": NoisySGD(batch_size=10)},
        *SLOPE,
    ),
    alone=True,
    **PERSONS,
)
add(
    *("label statistic, persons", logistic, ONE_SHOT, *STATISTIC),
    X=np.vstack([BRIGHT[:1]] * PERSON + [BRIGHT[PERSON:]]),
    private=NONE,
    **PERSONS,
)
add(
    *("score table with losses, persons", scored, {"metrics": LOSSES["metrics"][:3]}),
    *TABLE,
    relations=TWO,
    rows=GROUPS | WEIGHTS,
)
add(
    *("descent, weights", logistic, {}, *SLOPE),
    rows={"sample_weight": [4.0] + [1.0] * (N_ROWS - 1)},
)
add(
    *("mean, persons", logistic, {}, "mean", (HIGH, 0)),
    relations=NULLED,
    rows=GROUPS,
)
