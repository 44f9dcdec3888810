"""
Audit the code of a fit
=======================

A proof says what a fit may disclose, but its code may differ. Audits test the code. One
audit on this page repeats a fit on neighbours with recorded noise. The other measures
what the noise of a plan hides.
"""

# %%
# Neighbours and frozen noise
# ---------------------------
#
# A fit is repeated on tables that differ in the private part of one row. Every release
# is answered with the numbers of the first fit. Then only the exact sums may differ, by
# at most the declared sensitivity.

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import DPSGDFClassifier
from skfdp.audit import audit_mechanism, audit_replay
from skfdp.solvers import NoisyGradientDescent

rng = np.random.default_rng(0)
X, y = rng.random((60, 4)), rng.integers(2, size=60)
model = DPSGDFClassifier(
    epsilon=1.0,
    bounds=(0, 1),
    classes=[0, 1],
    solver=NoisyGradientDescent(max_iter=3),
)
print("the model:", audit_replay(model, X, y, n_neighbors=6).passed)
leaky = make_pipeline(StandardScaler(), model)
print("behind a StandardScaler:", audit_replay(leaky, X, y, n_neighbors=6).passed)

# %%
# Noise against a canary
# ----------------------
#
# A canary is a record that moves a sum as far as a record can. The package's own
# mechanism releases the sum many times, with and without the canary, and an attacker
# looks at the outputs. No release may reveal more than was claimed for it.

found = audit_mechanism(model.plan(X, y), n_trials=1000)
print(found)

# %%
# For each release, the measured strength of the attack agrees with the claim, within
# the random error of so many trials. It would not if the noise were a tenth too small:

import matplotlib.pyplot as plt

audits = [*found.releases, found.whole]
figure, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
for place, one in enumerate(audits):
    ax.plot([one.low, one.high], [place, place], "C0", lw=3, label="seen, 95 %")
    ax.plot(one.claimed, place, "kx", label="claimed")
ax.set_yticks(range(len(audits)), [one.label for one in audits])
ax.set(xlabel="mu, the strength of the attack", ylim=(-0.6, len(audits) - 0.4))
legend = [part[:2] for part in ax.get_legend_handles_labels()]
_ = figure.legend(*legend, loc="outside upper right", ncols=2)

# %%
# Both audits work for classes of your own and for Pipelines. Run them on made-up rows,
# because their output is not private. An audit can refute a claim, and never prove one
# (:ref:`audits`).
