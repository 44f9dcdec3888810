"""The worker of `pair.py`: fits with whatever skfdp is on the path, and takes times.

``_paired.py new CASE`` prints what a new process pays; ``_paired.py fit CASE`` fits for
each line of its input. An answer is one line of JSON: CPU and wall
seconds, and the peak memory in MB.
"""

import gc
import json
import resource
import sys
import time
import warnings

#: Steps alone: numbers of rows, columns and classes, and the expected batch.
STEPS = {
    "MNIST, batch 256": (60_000, 784, 10, 256),
    "MNIST, batch 4,096": (60_000, 784, 10, 4096),
    "200,000 x 784, batch 4,096": (200_000, 784, 10, 4096),
    "2,000,000 x 20, batch 4,096": (2_000_000, 20, 2, 4096),
    "20,000 x 30, full batch": (20_000, 30, 2, None),
}
CASES = (
    *STEPS,
    "private target",
    "public target",
    "nothing public",
    "label-DP",
    "DPSGD-F",
    "Poisson batches",
    "CSR",
    "regressor",
    "network",
    "transformer",
    "search",
)


def peak():
    """Return the peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def new(case):
    """Import skfdp, and fit once if the case says so."""
    if case == "first fit":
        import numpy as np
        import sklearn.base  # noqa: F401 -- paid before

        X, y = np.random.default_rng(0).random((500, 20)), np.arange(500) % 2
    cpu, wall = time.process_time(), time.perf_counter()
    import skfdp

    if case == "first fit":
        from skfdp.solvers import NoisyGradientDescent

        skfdp.DPSGDFClassifier(
            bounds=(0, 1),
            neighboring_relation="replace_special",
            solver=NoisyGradientDescent(max_iter=2),
        ).fit(X, y)
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, peak()]))


def table(case):
    """Return X and y of a case."""
    import numpy as np

    n, d = (5_000, 20) if case in ("network", "search") else (20_000, 50)
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    score = X[:, : d // 2].sum(axis=1) + 0.3 * rng.normal(size=n)
    y = (score > np.median(score)).astype(int)
    if case == "CSR":
        from scipy.sparse import csr_array

        X = csr_array(np.where(X < 0.9, 0.0, X))
    if case == "regressor":
        y = np.clip(score / d, 0, 1)
    return X, y


def maker(case):
    """Return what makes the estimator of a case."""

    import skfdp
    from skfdp.experimental import PrivateSearchCV
    from skfdp.solvers import NoisyGradientDescent, NoisySGD

    half = list(range((20 if case in ("network", "search") else 50) // 2))
    box = {"bounds": (0, 1)}
    part = {**box, "public_features": half}
    logistic, regressor = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
    return {
        "private target": lambda: logistic(1.0, **part),
        "public target": lambda: logistic(1.0, **part, public_target=True),
        "nothing public": lambda: logistic(1.0, **box),
        "label-DP": lambda: logistic(1.0, **box, public_features="all"),
        "DPSGD-F": lambda: skfdp.DPSGDFClassifier(
            1.0, **box, neighboring_relation="replace_special"
        ),
        "Poisson batches": lambda: skfdp.DPSGDFClassifier(
            1.0,
            neighboring_relation="replace_special",
            solver=NoisySGD(batch_size=1024),
            **box,
        ),
        "CSR": lambda: skfdp.DPSGDFClassifier(
            1.0, **box, neighboring_relation="replace_special"
        ),
        "regressor": lambda: regressor(1.0, **part, target_bounds=(0, 1)),
        "network": lambda: skfdp.FeatureDPMLPClassifier(
            4.0,
            public_target=True,
            hidden_layer_sizes=(16,),
            neighboring_relation="replace_one",
            solver=NoisySGD(max_iter=20),
            **part,
        ),
        "transformer": lambda: skfdp.PrivateCenteringTransformer(
            1.0, **part, neighboring_relation="replace_special"
        ),
        "search": lambda: PrivateSearchCV(
            logistic(solver=NoisyGradientDescent(max_iter=10), **box),
            {"solver__clip_norm": [0.3, 1.0]},
            epsilon=4.0,
        ),
    }[case]


def fit(case):
    """Return what fits a case once, or takes one step."""
    if case in STEPS:
        from _steps import linear_query, ours, problem  # those of the checkout

        *shape, batch = STEPS[case]
        return ours(linear_query(*problem(*shape), shape[-1]), batch)
    (X, y), make = table(case), maker(case)
    return lambda: make().fit(X, y)


def repeated(case):
    """Fit for each line of input, for .2 s or so; the median is answered."""
    import numpy as np

    once = fit(case)
    once()  # compiles, imports, remembers plans
    print("ready", flush=True)
    for _ in sys.stdin:
        gc.collect()
        taken = []
        while not taken or (len(taken) < 200 and sum(t[0] for t in taken) < 0.2):
            cpu, wall = time.process_time(), time.perf_counter()
            once()
            taken.append((time.process_time() - cpu, time.perf_counter() - wall))
        print(json.dumps([*np.median(taken, axis=0), peak()]), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"new": new, "fit": repeated}[sys.argv[1]](sys.argv[2])
