r"""A released model of the public columns, followed by a descent from it.

This method is for a private label, with some private and some public columns. With the
log loss, one released statistic of the labels gives a model of the public columns, as
in label-DP. The descent starts at the margins of that model, and its noisy steps learn
the effect of the private columns.

Other losses, class weights, sparse rows and regressions have no such statistic. A
second descent in place of the statistic did not improve accuracy in measurements.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.data.records import PublicRecords
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.solvers.label_statistic import LabelStatistic
from skfdp.solvers.method import Budget, Method, Needs, Plan, of_model
from skfdp.solvers.parameters import gap_of
from skfdp.solvers.postprocessing import LinearFit

#: Prefix of the labels of the releases for the model of the public columns, which is
#: the first of two models.
PREFIX = "first model"
#: Least and largest share of ``mu**2`` for the descent.
LEAST, MOST = 0.1, 0.9
#: At this signal (``mu n``) both get equal shares, if as many columns are private as
#: public.
SIGNAL = 600.0


def share_of_descent(n_private: int, n_public: int, signal: float) -> float:
    """Return the share of ``mu**2`` that the descent gets.

    The loss due to noise in a model is about proportional to the number of its weights,
    divided by its share. Let the descent have the share s. The total
    ``n_public / (1 - s) + n_private / s`` is least if the odds of s are
    ``sqrt(n_private / n_public)``. With a small signal the descent would keep little of
    its steps. With a large one, it also corrects the public weights. The odds are
    therefore in proportion to the signal, ``mu n`` for the whole budget.

    Below `LEAST` the share is 0: the model of the public columns is the result.
    """
    odds = math.sqrt(n_private / n_public) * signal / SIGNAL
    share = min(MOST, odds / (1 + odds))
    return share if share >= LEAST else 0.0


@dataclasses.dataclass(frozen=True)
class FirstModel:
    """A released model of the public columns, and a descent that starts at it.

    `first` is the method for a table with public columns alone and a private target. It
    makes no unpenalised estimates, which the sum of two models does not have.
    `after` is the descent that follows it. None: the first model is the result.

    Notes
    -----
    **Guarantees.** A record changes the first model's release only by its label; a null
    record counts as a missing label. For the descent the margins of this model are
    fixed offsets, the same for neighbours. It is calibrated together with the first
    model's event (:ref:`released-first-model`).
    """

    first: LabelStatistic
    after: Method | None

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the first model on its columns, and of the descent."""
        own = public.of_public
        found = self.first.needs(own, budget)
        given = Needs.NO_PRIVATE_COLUMN, "" if own.sparse else Needs.DENSE
        found = found._replace(table=tuple(n for n in found.table if n not in given))
        if self.after is None:
            return found
        honours = {**self.after.needs(public, budget).honours, **found.honours}
        of_one = "C class_weight loss public_model public_model=None"
        left = {*honours} - {*of_one.split(), "max_weight_norm"}
        if self._share(public, budget) == 0:  # there is no descent
            left = {"fit_intercept", "class_weight='balanced'"}
        return found._replace(honours={name: honours[name] for name in left})

    def _share(self, public: PublicRecords, budget: Budget) -> float:
        if self.after is None:
            return 0.0
        n_public = public.n_features - public.n_private
        # `share_of_descent` assumes `replace_one`, where a sum of unit vectors changes
        # by up to 2.
        signal = 2 * budget.mu * public.n_effective / budget.relation.sensitivity(1.0)
        return share_of_descent(public.n_private, n_public, signal)

    def prepare(self, public: PublicRecords, budget: Budget) -> tuple:
        """Prepare the first model and the descent from public data."""
        share = self._share(public, budget)
        first = self.first.prepare(public.of_public, budget.share(1 - share))
        if self.after is not None and share == 0:
            warn_caller(
                f"the budget is small for n={public.n_records} {public.unit}s: the "
                f"model uses only the public columns, and the {public.n_private} "
                "private column(s) have weights of 0. Raise epsilon, add records, or "
                "declare nothing as public if these columns matter most.",
                UtilityWarning,
            )
        if share == 0:
            return first, None
        return first, self.after.prepare(public, budget)

    def plan(self, public, prepared, budget: Budget) -> Plan:
        """Plan the first model with its share of the budget, then the descent."""
        share = budget.share(1 - self._share(public, budget))
        signal = 2 * budget.mu * public.n_effective / budget.relation.sensitivity(1.0)
        prepared_first, prepared_after = prepared
        first = self.first.plan(public.of_public, prepared_first, share)
        events = tuple(
            dataclasses.replace(event, label=f"{PREFIX}: {event.label}")
            for event in first.events
        )
        parts = (first,)
        if prepared_after is not None:
            parts += (self.after.plan(public, prepared_after, budget.after(*events)),)
            events += parts[1].events
        last = parts[-1]
        return Plan(
            events=events,
            assumptions=tuple(dict.fromkeys(first.assumptions + last.assumptions)),
            n_steps=last.n_steps,
            expected_gap=gap_of(
                signal, public.n_features, public.n_private, public.n_classes, False
            ),
            counts_labels=first.counts_labels or last.counts_labels,
            also_released=last.also_released,
            parts=parts,
        )

    def run(self, records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Release the first model, and start the descent at its margins."""
        first = self.first.run(
            records.of_public(),
            prepared[0],
            plan.parts[0],
            mechanism.within(PREFIX),
            None,
        )
        whole, own = first.embedded(records.public.kept), records.public.of_public
        if len(plan.parts) == 1:
            return whole
        margins = np.concatenate(
            [
                own.input_scaler.restored(rows) @ first.coef.T + first.intercept
                for rows in own.blocks()
            ]
        )
        start = prepared[1].at(margins)
        watched = of_model(on_step, lambda model: model.beside(whole))
        fit = self.after.run(records, start, plan.parts[1], mechanism, watched)
        return fit.beside(whole)
