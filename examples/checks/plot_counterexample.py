r"""
See DP-SGD fail without centring
================================

Two classes lie close together and far from the origin: :math:`\mu e_1 \pm e_2`. Sun,
Suresh and Menon (2023), section 4, show that DP-SGD cannot separate these classes if
:math:`\mu > n \varepsilon`, whatever its clip norm, step size and number of steps.
After centring by a private mean it can. This page draws the losses with and without
centring, and a lower bound with explicit constants.
"""

# %%
# The data
# --------
#
# All rows of a class are the same point, so the best hinge loss is 0. With zero weights
# the loss is 1. The columns have no declared bounds: bounds of :math:`\pm 1` on the
# second column would make the problem easy.

import numpy as np

n, epsilon, delta = 10_000, 1.0, 1e-6


def points(offset, swapped):
    y = np.arange(n) % 2
    return np.column_stack([np.full(n, offset), 2 * y - 1.0]), y != swapped


def hinge_loss(model, X, y):
    sides = np.where(y, 1, -1)
    return np.maximum(1 - sides * model.decision_function(X), 0).mean()


# %%
# Three ways to spend one budget
# ------------------------------
#
# For plain DP-SGD the better of two step sizes is chosen by the result, at no charge.
# DPSGD-F centres by a private mean. ``centering="gaussian"`` is Algorithm 3 of the
# paper: the Gaussian mechanism on rows of equal norm. ``centering="adaptive"`` is
# Algorithm 2: its mean adapts to the spread of the rows, and it also releases a typical
# distance of rows from the mean.

from skfdp import DPSGDFClassifier
from skfdp.solvers import NoisyGradientDescent


def classifier(centering, rate="auto"):
    return DPSGDFClassifier(
        epsilon,
        delta,
        loss="hinge",
        bounds=False,
        centering=centering,
        solver=NoisyGradientDescent(learning_rate=rate, normalize=True),
        neighboring_relation="replace_special",
    )


families = {
    "DP-SGD, the better of 2": [
        lambda rate=rate: classifier(None, rate) for rate in ("auto", 20.0)
    ],
    "DPSGD-F, Algorithm 3": [lambda: classifier("gaussian")],
    "DPSGD-F, Algorithm 2": [lambda: classifier("adaptive")],
}

print(f"{'offset / (n epsilon)':22}" + "".join(f"{name:>27}" for name in families))
ratios = 10.0 ** np.arange(-2, 3.1, 0.5)
losses = {name: [] for name in families}
for ratio in ratios:
    for name, models in families.items():
        runs = np.empty((len(models), 3))
        for i, model in enumerate(models):
            for j in range(runs.shape[1]):
                X, y = points(ratio * n * epsilon, swapped=j % 2)
                fitted = model().fit(X, y)
                runs[i, j] = hinge_loss(fitted, X, y)
        losses[name].append(runs.mean(axis=1).min())
    print(
        f"{ratio:<22.3g}" + "".join(f"{found[-1]:27.2f}" for found in losses.values())
    )

# %%
# The lower bound
# ---------------
#
# A gradient is :math:`(\mp\mu, -1)`, or zero. Clipped to C, it moves the second weight
# by at most :math:`C / \sqrt{\mu^2 + 1}`, but the noise is that of sensitivity C. So
# for all step sizes and noise schedules, the second weight is at most a Gaussian with a
# mean of :math:`\kappa = n \mu_G / \sqrt{\mu^2 + 1}` standard deviations, where
# :math:`\mu_G` is the Gaussian-DP parameter of the budget. The best such Gaussian has
# an expected loss of :math:`\Phi(a)`, with :math:`\varphi(a) / \Phi(a) = \kappa`
# (proof: :ref:`counterexample`). The paper instead bounds the loss by the probability
# of the wrong sign, :math:`\Phi(-\kappa)`.

import matplotlib.pyplot as plt
from scipy.stats import norm

from skfdp.privacy import gdp_mu

a = np.linspace(-6, 6, 400)
kappa = norm.pdf(a) / norm.cdf(a)
bounded = np.sqrt(np.maximum((n * gdp_mu(epsilon, delta) / kappa) ** 2 - 1, 0))
bounded /= n * epsilon

figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for (name, found), style in zip(losses.items(), ("s-", "o--", "o-"), strict=True):
    ax.semilogx(ratios, np.minimum(found, 1.25), style, label=name)
ax.fill_between(bounded, norm.cdf(a), color="0.9")
ax.semilogx(bounded, norm.cdf(a), "k", label="no DP-SGD is in the shade")
ax.semilogx(bounded, norm.cdf(-kappa), "k:", label="probability of the wrong sign")
ax.set(
    xlim=(ratios[0], ratios[-1]),
    ylim=(-0.03, 1.28),
    xlabel=r"offset $\mu / (n\varepsilon)$",
    ylabel="mean hinge loss on the training rows",
)
ax.axvline(1, color="0.6", linewidth=0.8)
_ = figure.legend(fontsize="small", loc="outside upper right", ncols=2)

# %%
# Plain DP-SGD fails from an offset of a twentieth of :math:`n \varepsilon` on. By the
# bound, it is hardly better than zero weights well before
# :math:`\mu = n \varepsilon`. Algorithm 3 works for larger offsets and then fails, too:
# the noise of its mean is proportional to :math:`\mu / (n \varepsilon)`, and it
# estimates the length of centred rows from that mean. Algorithm 2 succeeds far beyond
# :math:`n \varepsilon`, as the paper claims.

# %%
# What was spent
# --------------

print(fitted.privacy_.statement())
