r"""
Regression, beside AdaSSP
=========================

Least squares needs two sums: :math:`X^T X` and :math:`X^T y`. AdaSSP (Wang 2018) adds
noise to both once, and the square of the number of columns goes into the noise. A noisy
descent asks for gradients instead. This page fits both at equal epsilon.
"""

# %%
# AdaSSP in fifteen lines
# -----------------------
#
# With the Gaussian mechanism, and for pairs of tables that differ in one row. Rows are
# scaled to norm 1, targets to [-1, 1].

import matplotlib.pyplot as plt
import numpy as np

from skfdp import DPSGDFRegressor, FeatureDPRegressor
from skfdp.privacy import gdp_mu

rng = np.random.default_rng(0)


def adassp(X, y, epsilon, delta=1e-5):
    d = X.shape[1]
    noise = np.sqrt(3) / gdp_mu(epsilon, delta)  # three releases, equal shares
    moments, cross = X.T @ X, X.T @ y
    least = np.linalg.eigvalsh(moments)[0] + noise * (rng.normal() - 1.96)
    spread = np.triu(rng.normal(0, noise * np.sqrt(2), (d, d)))
    moments = moments + spread + np.triu(spread, 1).T
    cross = cross + rng.normal(0, 2 * noise, d)
    ridge = noise * np.sqrt(2 * d * np.log(2 * d * d / 0.05))
    ridge = max(0, ridge - max(0, least))
    return np.linalg.solve(moments + ridge * np.eye(d), cross)


# %%
# More and more columns
# ---------------------
#
# Three columns matter, the others are noise, and there are 4,000 rows.


def table(d, n=6000):
    X = rng.uniform(-1, 1, (n, d))
    y = X[:, :3].sum(axis=1) + 0.7 * rng.normal(size=n)
    return X[:4000], y[:4000], X[4000:], y[4000:]


def r2(y, predicted):
    return 1 - np.mean((y - predicted) ** 2) / np.var(y)


def scores(d, epsilon=1.0):
    X, y, X_test, y_test = table(d)
    given = {"bounds": (-1, 1), "target_bounds": (-6, 6)}
    found = [
        model.fit(X, y).score(X_test, y_test)
        for model in (
            DPSGDFRegressor(epsilon, neighboring_relation="replace_one", **given),
            FeatureDPRegressor(
                epsilon, solver="one-shot", **given, neighboring_relation="replace_one"
            ),
        )
    ]
    scale = np.sqrt(d)
    coef = adassp(X / scale, np.clip(y / 6, -1, 1), epsilon)
    free = np.linalg.lstsq(X, y, rcond=None)[0]
    return [*found, r2(y_test, X_test @ coef * 6 / scale), r2(y_test, X_test @ free)]


widths = (4, 8, 16, 32)
results = np.array([[scores(d) for _ in range(2)] for d in widths]).mean(axis=1)
names = ("noisy descent", "second moments", "AdaSSP", "no privacy")

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, line, style in zip(names, results.T, ("o-", "s-", "^-", "k:"), strict=True):
    ax.semilogx(widths, line, style, base=2, label=name)
ax.set(xlabel="columns", ylabel="R2 on other rows, epsilon 1", ylim=(-0.3, 0.8))
_ = ax.legend()

# %%
# The bounds of the target are four times as wide as they need to be, as real ones are.
# AdaSSP pays for that; the estimators here look for the part of the bounds that holds
# the targets, within the same budget (:ref:`regression`).
