"""What every query says of its sensitivity; brute force is beside each query."""

import math

import numpy as np
import pytest

from skfdp.privacy import RELATIONS, Relation
from skfdp.queries.class_sums import ClassSum, SecondMoment
from skfdp.queries.linear import gradient_sensitivity
from skfdp.queries.moments import MomentSum
from skfdp.queries.scores import accuracy_sum
from skfdp.queries.statistics import CrossSum, LabelSum, RowSum, TargetSum

ROOT2 = math.sqrt(2)
#: A query over no records, and how far a replaced one moves it.
QUERIES = {
    "rows": (RowSum.planned(), 2.0),
    "cross moments": (CrossSum.planned(nonnegative=False), 2.0),
    "cross moments, bounded": (CrossSum.planned(nonnegative=True), ROOT2),
    "two labels": (LabelSum.planned(1, 1.5), 1.5),
    "many labels": (LabelSum.planned(5, 1.5), ROOT2 * 1.5),
    "target": (TargetSum.planned(), 2.0),
    "class sums": (ClassSum.planned(nonnegative=False), 2.0),
    "class sums, bounded": (ClassSum.planned(nonnegative=True), ROOT2),
    "second moments": (SecondMoment.planned(), ROOT2),
    "moments": (MomentSum.planned(), math.sqrt(577 + 144**2 / 289)),
    "accuracy": (accuracy_sum(np.array([]), np.array([])), 1.0),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("query", "replaced"), QUERIES.values(), ids=QUERIES)
def test_what_every_query_says(query, replaced, relation):
    wanted = replaced if relation == "replace_one" else query.clip_norm
    assert query.sensitivity(Relation.of(relation)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_gradients_say(relation):
    of = Relation.of(relation)
    replaces = relation == "replace_one"
    assert gradient_sensitivity(of, 0.3) == (0.6 if replaces else 0.3)
    signs = gradient_sensitivity(of, 0.3, orthant=True)
    assert signs == pytest.approx(ROOT2 * 0.3 if replaces else 0.3)
    labels = gradient_sensitivity(of, 0.3, label_bound=0.4)
    assert labels == (0.4 if replaces else 0.3)
