"""A canary for each release that the package makes; read from top to bottom."""

import dataclasses
import functools
import math
import warnings

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from tight_runs import Canary

import skfdp
from skfdp.data.grid import GRID

N_ROWS, N_COLUMNS = 40, 6
REPLACED = {"neighboring_relation": "replace_one"}
NULLED = {"neighboring_relation": "replace_special"}
GONE = {"neighboring_relation": "add_or_remove_one", "n_records": N_ROWS}
RELATIONS = {"replaced": REPLACED, "nulled": NULLED, "gone": GONE}
TWO_RELATIONS = {"replaced": REPLACED, "nulled": NULLED}
#: Which columns are private.
EVERY, SOME, NONE = (np.arange(N_COLUMNS) >= first for first in (0, 2, N_COLUMNS))
COLUMNS = {"public_features": [0, 1]}
TARGET = {"public_target": True}
LABELS = {"public_features": "all"}
#: Private parts within bounds, and beyond where there are none.
LOW, HIGH, FAR = 0.0, 1.0, 1e6
AXES = np.eye(N_COLUMNS)[-2:]
#: Two of the last four columns, and the two others.
HALVES = np.kron([[0, 1, 0], [0, 0, 1]], [1, 1])

_rng = np.random.default_rng(0)
X = _rng.random((N_ROWS, N_COLUMNS)) * (_rng.random((N_ROWS, N_COLUMNS)) < 0.7)
HALF_BATCHES = {"batch_size": N_ROWS // 2}
#: Persons with 3, 2, 1, 3, 2, 1, ... rows.
GROUPS = np.repeat(np.arange(20), [3, 2, 1] * 6 + [3, 1])
PERSON = 3
#: Networks take longer.
FEW = 12
Y = {
    "two": np.arange(N_ROWS) % 2,
    "three": np.arange(N_ROWS) % 3,
    "real": _rng.uniform(0, 4, N_ROWS),
    "counts": _rng.poisson(2.0, N_ROWS).astype(float),
}


def fitted(kind, **params):
    """Return what fits an estimator of this kind."""

    def fit(X, y, **of_rows):
        model = kind(**{"random_state": 0} | params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X, y, **of_rows)

    return fit


def of_persons(fit):
    """Return the fit to persons, the first of whom has three rows, nobody more."""
    return functools.partial(fit, groups=GROUPS)


def logistic(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1), "max_iter": 2, "clip_norm": 0.05}
    return fitted(skfdp.FeatureDPLogisticRegression, **(short | more))


def as_csr(fit):
    """Return the fit of a CSR table."""
    return lambda X, y: fit(csr_array(X), y)


def sgd(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1), "max_iter": 2, "clip_norm": 0.05}
    return fitted(skfdp.DPSGDFClassifier, **(short | more))


def regressor(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1), "target_bounds": (-2, 6)}
    return fitted(skfdp.FeatureDPRegressor, **(short | more))


def loop(**more):
    return regressor(**({"max_iter": 2, "clip_norm": 0.05} | more))


def network(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1), "max_iter": 2, "clip_norm": 0.02}
    short |= {"hidden_layer_sizes": (5,)}
    return fitted(skfdp.FeatureDPMLPClassifier, **(short | more))


def completion(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1), "covariance": True, "n_draws": 1}

    def make(**params):
        return skfdp.PrivateCompletionClassifier(LogisticRegression(), **params)

    return fitted(make, **(COLUMNS | short | more))


def centring(**more):
    short = {"epsilon": 8.0, "bounds": (0, 1)}
    return fitted(skfdp.PrivateCenteringTransformer, **(short | more))


def search(relation="replace_one", **more):
    inner = skfdp.FeatureDPLogisticRegression(
        bounds=(0, 1), max_iter=2, neighboring_relation=relation
    )
    grid = {"clip_norm": [0.3, 1.0]}
    return fitted(
        lambda **params: skfdp.PrivateSearchCV(inner, grid, **params),
        epsilon=8.0,
        mean_runs=2.0,
        **more,
    )


CANARIES: list[Canary] = []


def canary(name, fit, one, other, label, *, y=None, private=EVERY, X=X, **more):
    """Add a canary."""
    target = None if y is None else Y[y][: len(X)]
    CANARIES.append(Canary(name, fit, X, target, private, one, other, label, **more))


def number_at(*values):
    """Return an edit: the number of record 0 is at an end of its interval."""

    def edit(query, side):
        X = query.X.copy()
        if values[side] is not None:
            X[0] = values[side]
        return dataclasses.replace(query, X=X)

    return edit


# -- class counts ----------------------------------------------------------------------
for relation, more in RELATIONS.items():
    other = (LOW, 1) if relation == "replaced" else None
    for y in ("two", "three"):
        canary(
            f"class counts, {y}, {relation}",
            logistic(**more),
            (LOW, 0),
            other,
            "class counts",
            y=y,
        )

# -- private bounds --------------------------------------------------------------------
# With this seed no empty binade passes for one with records.
BOUNDS = {"bounds": "private", "epsilon": 100.0, "random_state": 1}
for relation, more in RELATIONS.items():
    for label in ("binades", "bins"):
        canary(
            f"{label}, {relation}",
            logistic(**(BOUNDS | more)),
            (0.9, 0),
            (-3.0, 0) if relation == "replaced" else None,
            label,
            y="two",
        )

# -- the length and the mean of rows ---------------------------------------------------
SIGNED = {"bounds": False}
for relation, more in RELATIONS.items():
    replaced = relation == "replaced"
    canary(
        f"row length, {relation}",
        logistic(**more),
        (HIGH, 0),
        (LOW, 0) if replaced else None,
        "row length",
        stream="row length",
        y="two",
    )
    canary(
        f"mean, signed, {relation}",
        logistic(**SIGNED, **more),
        (FAR, 0),
        (-FAR, 0) if replaced else None,
        "mean",
        y="two",
    )
    canary(
        f"mean of whole rows, signed, {relation}",
        centring(**SIGNED, **more),
        (FAR, None),
        (-FAR, None) if replaced else None,
        "mean",
    )
# Rows without negative entries meet at 90 degrees at most.
canary(
    "mean, bounded, replaced",
    logistic(feature_bound=1.0),
    (HALVES[0], 0),
    (HALVES[1], 0),
    "mean",
    y="two",
)
canary(
    "mean of whole rows, bounded, replaced",
    centring(**REPLACED),
    (AXES[0], None),
    (AXES[1], None),
    "mean",
)
canary("mean, bounded, nulled", logistic(**NULLED), (HIGH, 0), None, "mean", y="two")

# -- Algorithm 2 of DPSGD-F ------------------------------------------------------------
ADAPTIVE = {"centering": "adaptive", "clip_features": True}
#: No sum of these with signs is zero, so that no rotated entry is.
ODD_ROW = np.array([0.9, 0.31, 0.17, 0.53, 0.71, 0.07])
for relation, more in RELATIONS.items():
    replaced = relation == "replaced"
    for stream in ("rough binades", "rough bins 1", "rough bins 2"):
        canary(
            f"{stream}, {relation}",
            sgd(**ADAPTIVE, **more),
            (ODD_ROW, 0),
            (LOW, 0) if replaced else None,
            "rough mean",
            stream=stream,
            y="two",
        )
    for stream in ("distances from the rough mean", "distances from the mean"):
        canary(
            f"{stream}, {relation}",
            sgd(**ADAPTIVE, **more),
            (HIGH, 0),
            (LOW, 0) if replaced else None,
            "distances",
            stream=stream,
            y="two",
            edit=number_at(2.0, 1e-9 if replaced else None),
        )
    canary(
        f"mean about a rough one, {relation}",
        sgd(**ADAPTIVE, **SIGNED, normalize=False, **more),
        (FAR, 0),
        (-FAR, 0) if replaced else None,
        "mean",
        y="two",
    )
    canary(
        f"distances of a transformer, {relation}",
        centring(clip_quantile=0.9, **more),
        (HIGH, None),
        (LOW, None) if replaced else None,
        "distances",
        stream="distances from the mean",
        edit=number_at(2.0, 1e-9 if replaced else None),
    )

# -- gradients of linear models --------------------------------------------------------
for relation, more in RELATIONS.items():
    replaced = relation == "replaced"
    canary(
        f"descent, {relation}",
        logistic(**more),
        (HIGH, 0),
        (HIGH, 1) if replaced else None,
        "descent",
        y="two",
    )
    canary(
        f"descent, Poisson batches, {relation}",
        sgd(**more, **HALF_BATCHES),
        (HIGH, 0),
        (HIGH, 1) if replaced else None,
        "descent",
        y="two",
        alone=True,
    )
for loss in ("log_loss", "hinge", "squared_hinge"):
    for relation, more in TWO_RELATIONS.items():
        canary(
            f"descent, {loss}, {relation}",
            sgd(loss=loss, **more),
            (HIGH, 0),
            (HIGH, 1) if relation == "replaced" else None,
            "descent",
            y="two",
        )


def two_classes(query):
    """Return theta at which only the first two classes are likely, in equal parts."""
    theta = np.zeros(query.shape)
    theta[2:, -1] = -1e4
    return theta


def margins_from(column):
    """Return a function to a theta that looks at one column alone, and sees much."""

    def theta(query):
        found = np.zeros(query.shape)
        found[0, column] = 1e4
        return found

    return theta


canary(
    "descent, three classes",
    logistic(),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="three",
    theta=two_classes,
)
for relation, more in TWO_RELATIONS.items():
    other = (HIGH, 1) if relation == "replaced" else None
    for batches, size in {"": {}, "Poisson batches, ": HALF_BATCHES}.items():
        canary(
            f"descent, CSR, {batches}{relation}",
            as_csr(sgd(**more, **size)),
            (HIGH, 0),
            other,
            "descent",
            y="two",
            alone=bool(size),
        )
    canary(
        f"descent, squared error, CSR, {relation}",
        as_csr(loop(**more)),
        (HIGH, -2),
        (HIGH, 6) if relation == "replaced" else None,
        "descent",
        y="real",
    )
canary(
    "descent, class weights",
    logistic(class_weight={0: 2.0, 1: 0.5}),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="two",
)
canary(
    "descent, columns public",
    logistic(**COLUMNS),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="two",
    private=SOME,
)
# The public part of record 0 is zero.
DARK = X.copy()
DARK[0] = 0
canary(
    "descent, target public, one orthant",
    logistic(**COLUMNS, **TARGET, fit_intercept=False, public_model=None),
    (AXES[0], None),
    (AXES[1], None),
    "descent",
    y="two",
    X=DARK,
    private=SOME,
)
canary(
    "descent, target public, one orthant, CSR",
    as_csr(logistic(**COLUMNS, **TARGET, fit_intercept=False, public_model=None)),
    (AXES[0], None),
    (AXES[1], None),
    "descent",
    y="two",
    X=DARK,
    private=SOME,
)
canary(
    "descent, target public, signed",
    logistic(**TARGET, **SIGNED),
    (FAR, None),
    (-FAR, None),
    "descent",
    y="two",
)
# All but record 0 are sparse, so that its row is the longest.
BRIGHT = 0.2 * X
BRIGHT[0] = 1
for y in ("two", "three"):
    canary(
        f"label loop, {y}",
        logistic(**LABELS, solver="dp-gd", clip_norm=30.0),
        (None, 0),
        (None, 1),
        "descent",
        y=y,
        X=BRIGHT,
        private=NONE,
        theta=two_classes if y == "three" else None,
    )
    canary(
        f"label loop, {y}, short gradients",
        logistic(**LABELS, solver="dp-gd"),
        (None, 0),
        (None, 1),
        "descent",
        y=y,
        X=BRIGHT,
        private=NONE,
        theta=two_classes if y == "three" else None,
    )
PADDED = logistic(**COLUMNS, public_loss="zero")
IMPUTED = logistic(**COLUMNS, public_loss="impute")
SAMPLED = {"solver": "dp-sgd", **HALF_BATCHES}
for name, fit in {
    "zero padding": PADDED,
    "zero padding, CSR": as_csr(PADDED),
    "imputed": IMPUTED,
    "imputed, Poisson batches": logistic(**COLUMNS, public_loss="impute", **SAMPLED),
}.items():
    canary(
        f"descent, {name}",
        fit,
        (HIGH, 0),
        (HIGH, 1),
        "descent",
        y="two",
        private=SOME,
        alone="Poisson" in name,
    )
for target, losses in {
    "real": ("squared_error", "huber"),
    "counts": ("poisson",),
}.items():
    for loss in losses:
        limits = (0, 6) if loss == "poisson" else (-2, 6)
        for relation, more in TWO_RELATIONS.items():
            replaced = relation == "replaced"
            canary(
                f"descent, {loss}, {relation}",
                loop(loss=loss, target_bounds=limits, **more),
                (HIGH, limits[0]),
                (HIGH, limits[1]) if replaced else None,
                "descent",
                y=target,
            )
for relation, more in TWO_RELATIONS.items():
    canary(
        f"descent, squared_error, Poisson batches, {relation}",
        loop(**more, **SAMPLED),
        (HIGH, -2),
        (HIGH, 6) if relation == "replaced" else None,
        "descent",
        y="real",
        alone=True,
    )

# -- labels and targets in one release -------------------------------------------------
ONE_SHOT = {**LABELS, "solver": "one-shot", "max_iter": "auto", "clip_norm": "auto"}
for relation, more in TWO_RELATIONS.items():
    for y in ("two", "three"):
        canary(
            f"label statistic, {y}, {relation}",
            logistic(**ONE_SHOT, **more),
            (None, 0),
            (None, 1) if relation == "replaced" else None,
            "label statistic",
            y=y,
            X=BRIGHT,
            private=NONE,
        )
canary(
    "target statistic",
    regressor(**LABELS, solver="one-shot"),
    (None, -2.0),
    (None, 6.0),
    "target statistic",
    y="real",
    X=BRIGHT,
    private=NONE,
)

# -- scales of a regression ------------------------------------------------------------
for relation, more in RELATIONS.items():
    replaced = relation == "replaced"
    other = (LOW, 6.0) if replaced else None
    scale = {"label": "target scale", "y": "real"}
    canary(
        f"target histogram, {relation}",
        loop(**more),
        (LOW, -2.0),
        other,
        stream="target histogram",
        # One bin a record: (1, 0) and (0, 1), and one event with two numbers.
        reach=math.sqrt(1 / 2) if replaced else 1.0,
        **scale,
    )
    canary(
        f"target mean, {relation}",
        loop(**more),
        (LOW, -2.0),
        other,
        stream="target mean",
        **scale,
    )
    canary(
        f"target spread, {relation}",
        loop(**more),
        (LOW, -2.0),
        other,
        stream="target spread",
        edit=number_at(1.0, -1.0 if replaced else None),
        **scale,
    )
for relation, more in TWO_RELATIONS.items():
    replaced = relation == "replaced"
    canary(
        f"mean rate, {relation}",
        loop(loss="poisson", target_bounds=(0, 6), **more),
        (LOW, 0.0),
        (HIGH, 6.0) if replaced else None,
        "mean rate",
        stream="mean rate",
        y="counts",
        edit=number_at(1.0, -1.0 if replaced else 1.0),
    )

# -- moments of a regression -----------------------------------------------------------
for relation, more in TWO_RELATIONS.items():
    canary(
        f"cross moments of a regression, {relation}",
        regressor(solver="one-shot", **SIGNED, **more),
        (FAR, -2.0),
        (-FAR, 6.0) if relation == "replaced" else None,
        "cross moments",
        y="real",
    )
# Rows of norm 1 at an angle of about 60 degrees, and opposite targets.
ANGLE = math.acos(12**2 / 17**2)
ASLANT = np.array(
    [[1, 0, 0, 0, 0, 0, 1], [math.cos(ANGLE), math.sin(ANGLE), 0, 0, 0, 0, -1]]
)


def aslant(query, side):
    """Return moments of which record 0 has one of two rows that are far apart.

    What is left of a record after a projection, which is released, may be anything.
    """
    return with_row(query, ASLANT[side])


def even(query, side):
    """Return moments of which record 0 has a row of equal entries."""
    return with_row(query, np.r_[np.full(N_COLUMNS, N_COLUMNS**-0.5), 1])


def with_row(query, row):
    """Return the query with another row of record 0, truncated to the grid."""
    values = query.rows.values.copy()
    values[0] = np.trunc(row / GRID)
    rows = dataclasses.replace(query.rows, values=values)
    return dataclasses.replace(query, rows=rows)


for relation, more in TWO_RELATIONS.items():
    canary(
        f"second moments of a regression, {relation}",
        regressor(solver="one-shot", **more),
        (LOW, -2.0),
        (HIGH, 6.0) if relation == "replaced" else None,
        "second moments",
        y="real",
        # A square weighs less than a product, by 12 over 17 / sqrt(2): a null goes
        # furthest as a row of two equal entries.
        edit=aslant if relation == "replaced" else even,
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
    return dataclasses.replace(
        query, offset=offset, start=0 * query.start, step=step, reach=1e-9
    )


for y in ("two", "three"):
    for relation, more in TWO_RELATIONS.items():
        canary(
            f"temperature, {y}, {relation}",
            logistic(**COLUMNS, **TARGET, **more),
            (HIGH, None),
            (LOW, None) if relation == "replaced" else None,
            "temperature",
            y=y,
            private=SOME,
            edit=sure_and_wrong,
        )
for relation, more in TWO_RELATIONS.items():
    canary(
        f"temperature, CSR, {relation}",
        as_csr(logistic(**COLUMNS, **TARGET, **more)),
        (HIGH, None),
        (LOW, None) if relation == "replaced" else None,
        "temperature",
        y="two",
        private=SOME,
        edit=sure_and_wrong,
    )

# -- sums for completion, centring and networks ----------------------------------------
for name, fit in {
    "completion": completion(),
    "a network": network(**COLUMNS, **TARGET, pretraining="class_sums"),
}.items():
    canary(
        f"class sums of {name}",
        fit,
        (HALVES[0], None),
        (HALVES[1], None),
        "class sums",
        y="two",
        private=SOME,
    )
canary(
    "class sums, signed",
    completion(**SIGNED),
    (FAR, None),
    (-FAR, None),
    "class sums",
    y="two",
    private=SOME,
)
canary(
    "second moments for completion",
    completion(),
    (AXES[0], None),
    (AXES[1], None),
    "second moments",
    y="two",
    private=SOME,
)
for name, fit, label in (
    ("class sums", completion(**NULLED), "class sums"),
    ("second moments for completion", completion(**NULLED), "second moments"),
    ("cross moments of centring", centring(**COLUMNS, **NULLED), "cross moments"),
):
    canary(
        f"{name}, nulled",
        fit,
        (HIGH, None),
        None,
        label,
        y=None if "centring" in name else "two",
        private=SOME,
    )
canary(
    "cross moments of centring, bounded",
    centring(**COLUMNS, **REPLACED),
    (HALVES[0], None),
    (HALVES[1], None),
    "cross moments",
    private=SOME,
)
canary(
    "cross moments of centring, signed",
    centring(**COLUMNS, **REPLACED, **SIGNED),
    (FAR, None),
    (-FAR, None),
    "cross moments",
    private=SOME,
    X=BRIGHT,
)
canary(
    "cross moments, imputed",
    IMPUTED,
    (HIGH, 0),
    (LOW, 0),
    "cross moments",
    y="two",
    X=BRIGHT[:, :4],
    private=SOME[:4],
)
canary(
    "cross moments, imputed, six columns",
    IMPUTED,
    (HIGH, 0),
    (LOW, 0),
    "cross moments",
    y="two",
    X=BRIGHT,
    private=SOME,
)

# -- networks --------------------------------------------------------------------------
for backend in ("numpy", "torch"):
    canary(
        f"descent of a network, {backend}",
        network(backend=backend),
        (HIGH, 0),
        (HIGH, 1),
        "descent",
        y="two",
        X=X[:FEW],
    )
canary(
    "descent of a network, nulled",
    network(**NULLED),
    (HIGH, 0),
    None,
    "descent",
    y="two",
    X=X[:FEW],
)
canary(
    "descent of a network, zero padding",
    network(**COLUMNS, public_loss="zero"),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="two",
    X=X[:FEW],
    private=SOME,
)
canary(
    "descent of a network, gone",
    network(**GONE | {"n_records": FEW}),
    (HIGH, 0),
    None,
    "descent",
    y="two",
    X=X[:FEW],
)
canary(
    "descent of a network, Poisson batches",
    network(batch_size=FEW // 2),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="two",
    X=X[:FEW],
    alone=True,
)
canary(
    "descent of a linear model in a network",
    network(**TARGET, pretraining="linear", hidden_layer_sizes=(6,)),
    (HIGH, None),
    (LOW, None),
    "descent",
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


canary(
    "descent of the last layer",
    network(**COLUMNS, **TARGET, pretraining="class_sums", hidden_layer_sizes=(24,)),
    (HALVES[0], None),
    (HALVES[1], None),
    "descent",
    y="two",
    X=X[:FEW],
    private=SOME,
    edit=half_of_the_units,
    theta=lambda query: np.zeros(query.shape),  # no margin is sure
)

# -- scores of a search ----------------------------------------------------------------


def score_at(*ends):
    """Return an edit: record 0 has the best score, or the worst."""

    def edit(query, side):
        values = query.values.astype(float)
        values[0] = ends[side]
        return dataclasses.replace(query, values=values)

    return edit


canary(
    "score, accuracy",
    search(),
    (None, None),
    (None, None),
    "score",
    y="two",
    edit=score_at(1.0, 0.0),
)
canary(
    "score, accuracy, nulled",
    search("replace_special"),
    (None, None),
    (None, None),
    "score",
    y="two",
    edit=score_at(1.0, 0.0),
)
canary(
    "score, log loss",
    search(scoring="neg_log_loss"),
    (None, None),
    (None, None),
    "score",
    y="two",
    edit=score_at(0.0, -math.inf),
)

# -- private scores --------------------------------------------------------------------


class Scored:
    """A public model of two classes: the first column is a probability."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(int)


def scored(metrics, **more):
    def fit(X, y, **of_rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return skfdp.private_score(
                Scored(),
                X,
                y,
                8.0,
                metrics=metrics,
                model_is_public=True,
                random_state=0,
                **more,
                **of_rows,
            )

    return fit


for relation, more in RELATIONS.items():
    canary(
        f"counts of scores, {relation}",
        scored("roc_auc", **more),
        (LOW, 1),
        (HIGH, 0) if relation == "replaced" else None,
        "scores",
        y="two",
    )
    canary(
        f"score table with losses, {relation}",
        scored(["accuracy", "roc_auc", "log_loss", "brier_score"], **more),
        (LOW, 1),
        (HIGH, 1) if relation == "replaced" else None,
        "scores",
        y="two",
    )

# -- persons ---------------------------------------------------------------------------
ROWS_COUNT = {"sample_weight": np.ones(N_ROWS)}
for relation, more in TWO_RELATIONS.items():
    replaced = relation == "replaced"
    other = (HIGH, 1) if replaced else None
    for label in ("class counts", "descent"):
        canary(
            f"{label}, persons, {relation}",
            of_persons(logistic(**more)),
            (HIGH, 0),
            other,
            label,
            y="two",
            n_rows=PERSON,
        )
    canary(
        f"descent, persons and weights, {relation}",
        functools.partial(of_persons(logistic(**more)), **ROWS_COUNT),
        (HIGH, 0),
        other,
        "descent",
        y="two",
        n_rows=PERSON,
    )
    canary(
        f"descent, the first rows of persons, {relation}",
        of_persons(logistic(max_rows_per_person=2, **more)),
        (HIGH, 0),
        other,
        "descent",
        y="two",
        n_rows=PERSON,
    )
    canary(
        f"descent, Poisson batches of persons, {relation}",
        of_persons(sgd(batch_size=10, **more)),
        (HIGH, 0),
        other,
        "descent",
        y="two",
        alone=True,
        n_rows=PERSON,
    )
    canary(
        f"label statistic, persons, {relation}",
        of_persons(logistic(**ONE_SHOT, **more)),
        (None, 0),
        (None, 1) if replaced else None,
        "label statistic",
        y="two",
        X=np.vstack([BRIGHT[:1]] * PERSON + [BRIGHT[PERSON:]]),
        private=NONE,
        n_rows=PERSON,
    )
    canary(
        f"score table with losses, persons, {relation}",
        functools.partial(
            of_persons(scored(["accuracy", "roc_auc", "log_loss"], **more)),
            **ROWS_COUNT,
        ),
        (LOW, 1),
        (HIGH, 1) if replaced else None,
        "scores",
        y="two",
        n_rows=PERSON,
    )
canary(
    "descent, weights",
    functools.partial(logistic(), sample_weight=[4.0] + [1.0] * (N_ROWS - 1)),
    (HIGH, 0),
    (HIGH, 1),
    "descent",
    y="two",
)
canary(
    "mean, persons, nulled",
    of_persons(logistic(**NULLED)),
    (HIGH, 0),
    None,
    "mean",
    y="two",
    n_rows=PERSON,
)
