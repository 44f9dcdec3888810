"""
Can its probabilities be believed?
==================================

Somebody will multiply a predicted probability by a cost. So "20 %" has to happen in one
case out of five, whatever the budget. Noise and clipped gradients do not bring that by
themselves: a number that is released after the loop, the *temperature*, does.
"""

# %%
# A rare event
# ------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

from skfdp import FeatureDPLogisticRegression

rng, n = np.random.default_rng(0), 40_000
X = rng.random((n, 6))
chance = 1 / (1 + np.exp(-8 * (X[:, :3].mean(axis=1) - 0.75)))
y = rng.random(n) < chance
train, test = slice(0, 10_000), slice(10_000, None)
print(f"{y.mean():.1%} of all cases")

# %%
# Said and happened
# -----------------
#
# Rows that are not in the fit, sorted by what the model says, in groups of equal size.
# On the diagonal what is said is what happens.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, epsilon in zip(axes, (0.1, 0.3, 1.0), strict=True):
    for _ in range(3):  # three fits, each with noise of its own
        model = FeatureDPLogisticRegression(
            epsilon, bounds=(0, 1), classes=[False, True]
        )
        said = model.fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        happened, mean = calibration_curve(y[test], said, n_bins=8, strategy="quantile")
        ax.plot(mean, happened, "o-", color="tab:blue", alpha=0.6, markersize=4)
    ax.axline((0, 0), slope=1, color="gray", linestyle=":")
    ax.set(title=f"epsilon {epsilon}", xlabel="predicted", xlim=(0, 0.6), ylim=(0, 0.6))
    print(f"epsilon {epsilon}: log loss {log_loss(y[test], said):.3f}")
axes[0].set_ylabel("happened")
print(f"the true chances: log loss {log_loss(y[test], chance[test]):.3f}")

# %%
# At a small budget the model knows little, and says so: its predictions are all near
# the base rate, and right on average. ``CalibratedClassifierCV`` is not needed, and
# would see the labels without noise (:doc:`/howto/calibration`).
#
# The picture itself is exact numbers of the test rows. To publish one, use
# :func:`skfdp.private_score`, as :ref:`sphx_glr_auto_examples_plot_threshold.py` does.
