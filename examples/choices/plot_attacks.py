"""
Attack a model: what epsilon means
==================================

Three attackers try one table. The first asks whether a person was in the training
table. The second guesses a private value. The third knows everything but one person's
values. Each attacks ``LogisticRegression`` and private models, and is compared with the
bound: the most that any attacker can achieve at this epsilon.
"""

# %%
# A model that memorises
# ----------------------
#
# There are a hundred people and sixty columns, and the label is partly random. With so
# few people and so many columns a model easily memorises them.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression, UtilityWarning, report
from skfdp.privacy import gdp_mu

# A hundred people are too few for a small epsilon, and the fits warn.
warnings.simplefilter("ignore", UtilityWarning)

rng = np.random.default_rng(0)
N, D, DELTA = 100, 60, 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def people(n):
    X = rng.integers(0, 2, (n, D)).astype(float)
    y = X[:, :5].sum(axis=1) + rng.normal(size=n) > 2.5
    return X, y.astype(int)


def private_model(epsilon):
    return FeatureDPLogisticRegression(
        epsilon,
        DELTA,
        bounds=(0, 1),
        classes=[0, 1],
    )


def without_privacy():
    return LogisticRegression(C=1e4, max_iter=2000)


# %%
# The bound
# ---------
#
# The attacker says "yes" or "no" for each person. A "yes" is a false alarm if "no" is
# right, and a hit otherwise. How large can the rate of hits be at a given rate of false
# alarms? For a mechanism with Gaussian-DP parameter mu there is an exact answer, and mu
# follows from epsilon and delta.


def most_hits(alarms, epsilon):
    return norm.cdf(norm.ppf(alarms) + gdp_mu(epsilon, DELTA))


# %%
# Two attackers who see the model
# -------------------------------
#
# *Was this person in the table?* Members tend to have small losses: say "yes" below a
# threshold. The attacker learns the best threshold on a table and a model of their own.
# What counts is the advantage: hits minus false alarms.
#
# *What is this person's first column?* Try both values, and take the one with which the
# model predicts the label better. This also works for people who were not in the table,
# since the column has an effect. So the advantage is the share of right guesses for
# members minus that for others.


def loss(model, X, y):
    return -np.log(np.clip(model.predict_proba(X)[np.arange(len(y)), y], 1e-15, 1))


def best_threshold(model, members, others):
    inside, outside = loss(model, *members), loss(model, *others)
    levels = np.sort(inside)
    found = [(inside <= level).mean() - (outside <= level).mean() for level in levels]
    return levels[np.argmax(found)]


def guessed(model, X, y):
    low, high = X.copy(), X.copy()
    low[:, 0], high[:, 0] = 0, 1
    return ((loss(model, high, y) < loss(model, low, y)) == X[:, 0]).mean()


def attacked(make, n_tables=20):
    found, threshold = [], None
    for _ in range(n_tables + 1):
        members, others = people(N), people(4000)
        model = make().fit(*members)
        if threshold is not None:
            hits = (loss(model, *members) <= threshold).mean()
            alarms = (loss(model, *others) <= threshold).mean()
            more = guessed(model, *members) - guessed(model, *others)
            found.append((hits - alarms, more, model.score(*others)))
        threshold = best_threshold(model, members, others)
    return 100 * np.mean(found, axis=0)


def most_advantage(epsilon):
    return 100 * (2 * norm.cdf(gdp_mu(epsilon, DELTA) / 2) - 1)


rows = {"no privacy": attacked(without_privacy)}
for epsilon in EPSILONS:
    name = f"epsilon {epsilon:g}"
    rows[name] = attacked(lambda epsilon=epsilon: private_model(epsilon))
print("advantage in per cent:   member?    value?    bound    accuracy")
for name, (member, value, accuracy) in rows.items():
    bound = 100 if name == "no privacy" else most_advantage(float(name.split()[1]))
    print(f"{name:20}{member:12.1f}{value:10.1f}{bound:9.1f}{accuracy:12.1f}")

# %%
# An attacker who knows everything else
# -------------------------------------
#
# The bound is for the worst case: the attacker knows the whole table except one
# person's values, and only has to tell which of two possibilities is right. Without
# privacy that is easy: fit both tables, and compare. With privacy, suppose that the
# attacker even sees every noisy sum of the fit, and that this person moves each sum as
# far as any record can.
#
# :func:`skfdp.audit.audit_mechanism` runs this attack a thousand times, against the
# code that adds the noise, and measures how well the two tables can be distinguished.

from skfdp.audit import audit_mechanism
from skfdp.solvers import NoisyGradientDescent

tried = {}
for epsilon in (1.0, 4.0):
    plan = (
        private_model(epsilon)
        .set_params(solver=NoisyGradientDescent(max_iter=10))
        .plan(people(1000)[0])
    )
    tried[epsilon] = audit_mechanism(plan, n_trials=1000).whole
    print(tried[epsilon])

# %%
# The pictures
# ------------
#
# Was this person in the table?

# sphinx_gallery_thumbnail_number = 2

figure, left = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
many = np.geomspace(0.3, 12, 60)
left.plot(many, [most_advantage(e) for e in many], "k-", label="bound")
left.axhline(rows["no privacy"][0], color="C3", ls="--", label="LogisticRegression")
left.plot(EPSILONS, [rows[f"epsilon {e:g}"][0] for e in EPSILONS], "C0o", label="skfdp")
left.axhline(0, color="gray", ls=":", label="by luck")
left.set(xscale="log", xlabel="epsilon", ylabel="hits minus false alarms, per cent")
left.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
left.minorticks_off()
left.set_title("Was this person in the table?")
_ = left.legend()

# %%
# The attacker who knows everything else. The bands are confidence intervals from a
# thousand attacks.

figure, right = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
every = np.linspace(0, 1, 201)
for (epsilon, seen), colour in zip(tried.items(), ("C0", "C1"), strict=True):
    bound = 100 * most_hits(every, epsilon)
    right.plot(100 * every, bound, colour, label=f"epsilon {epsilon:g}, bound")
    low, high = (100 * norm.cdf(norm.ppf(every) + mu) for mu in (seen.low, seen.high))
    right.fill_between(
        100 * every,
        low,
        high,
        color=colour,
        alpha=0.25,
        label=f"epsilon {epsilon:g}, tried",
    )
right.plot([0, 0, 100], [0, 100, 100], "C3--", label="LogisticRegression")
right.plot([0, 100], [0, 100], color="gray", ls=":", label="by luck")
right.set(xlabel="false alarms, per cent", ylabel="hits, per cent")
right.set_title("Which of two values?")
_ = right.legend(fontsize="small")

# %%
# What the figures show
# ---------------------
#
# * ``LogisticRegression`` reveals its members. Private models do so less and less as
#   epsilon shrinks. They stay below the bound, because the first two attackers know
#   little.
# * The attacker who knows everything else reaches the bound, so no smaller bound holds.
#   The bound also covers attacks that nobody has thought of.
# * The value of a column with an effect on the label can be guessed for everybody, in
#   the table or not. Privacy makes *members* as hard to guess as others; it hides no
#   facts about people.
# * A hundred people are too few for a good private model, as the accuracy shows. With
#   more people accuracy returns, and the bound stays the same.
#
# The statement of one of these models says the same in words:

print(report(private_model(1.0).fit(*people(N))).statement())
