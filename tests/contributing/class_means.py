"""The method of class means: the nearest one, from one release."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.data.grid import GRID
from skfdp.data.records import PublicRecords, Records
from skfdp.mechanisms.release import Mechanism
from skfdp.queries.statistics import CrossSum
from skfdp.solvers.method import Budget, Needs, OnStep, Plan
from skfdp.solvers.postprocessing import LinearFit


@dataclasses.dataclass(frozen=True)
class ClassMeans:
    """Release the sum of the rows of each public class, and compare distances.

    `row_norm` is the L2 bound of a row, to which longer rows are cut.
    """

    row_norm: float

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: a plain table, of which the target is public."""
        table = (
            Needs.PUBLIC_TARGET,
            Needs.NO_PUBLIC_COLUMN,
            Needs.DENSE,
            Needs.IN_MEMORY,
            Needs.EQUAL_RECORDS,
        )
        return Needs("solver='class-means'", {"row_norm": ()}, table)

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the one release."""
        query = CrossSum.planned(nonnegative=False)
        return Plan(events=(budget.release_once("class sums", query),))

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> LinearFit:
        """Release the sums; the counts are public."""
        public = records.public
        scaler = dataclasses.replace(
            public.input_scaler, feature_bound=self.row_norm, shortens=True
        )
        # Cross moments of the rows and of public one-hot classes.
        classes = (np.eye(public.n_classes)[public.target] / GRID).astype(np.int16)
        query = CrossSum(records.integers, self.row_norm, classes, nonnegative=False)
        sums = mechanism.release("class sums", query)[:-1]
        counts = np.bincount(public.target, minlength=public.n_classes)
        means = sums.reshape(len(counts), -1) / np.maximum(counts, 1)[:, None]
        intercept = -(means**2).sum(axis=1) / 2
        if public.n_outputs == 1:
            means, intercept = means[1:] - means[:1], intercept[1:] - intercept[:1]
        coef, offset = scaler.coefficients(means)
        return LinearFit(coef, intercept + offset, n_iter=1, input_scaler=scaler)
