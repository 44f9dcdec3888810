"""Parallel composition: what it saves, and what it refuses."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    gdp_epsilon,
    report,
)
from skfdp.privacy.accounting import cost, worst
from skfdp.privacy.public_sets import Part, together

DELTA = 1e-5


def full_batch(mu=0.3, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


def poisson(**changes):
    return full_batch(0.5, n_steps=20, sampling_rate=0.05, **changes)


def by_rows(start, stop):
    return Part.of(rows=range(start, stop))


ROWS = st.tuples(st.integers(0, 12), st.integers(1, 8)).map(
    lambda pair: by_rows(pair[0], pair[0] + pair[1])
)
VALUES = st.sampled_from("abc").map(lambda value: Part.of(column="where", value=value))


@given(
    parts=st.one_of(
        st.lists(st.none() | ROWS, max_size=7), st.lists(st.none() | VALUES, max_size=7)
    )
)
def test_together_finds_every_record(parts):
    """Against every record of a table of 20 rows for each value."""
    by_record = set()
    for row in range(20):
        for value in "abcd":
            by_record.add(
                frozenset(
                    position
                    for position, part in enumerate(parts)
                    if part is None
                    or (part.rows is None and part.value == value)
                    or (part.rows is not None and row in range(*part.rows))
                )
            )
    largest = {one for one in by_record if not any(one < other for other in by_record)}
    assert set(map(frozenset, together(parts))) == largest


@given(
    charges=st.lists(
        st.tuples(st.none() | ROWS, st.floats(0.05, 0.6)), min_size=1, max_size=7
    ),
    within=st.none() | ROWS,
)
@settings(deadline=None)
def test_the_cost_is_that_of_the_most_exposed_record(charges, within):
    events = [full_batch(mu) for _, mu in charges]
    parts = [part for part, _ in charges]
    squares = [
        math.fsum(
            mu * mu for part, mu in charges if part is None or row in range(*part.rows)
        )
        for row in range(22)
        if within is None or row in range(*within.rows)
    ]
    found = worst(events, parts, DELTA, within=within)
    assert found.mu == pytest.approx(math.sqrt(max(squares)), rel=1e-9)
    assert found.epsilon == cost_of_mu(math.sqrt(max(squares)))


def cost_of_mu(mu):
    return pytest.approx(gdp_epsilon(DELTA, mu) if mu else 0.0, rel=1e-9)


def test_mixed_costs_have_no_exact_mu():
    """Which record is exposed most may depend on delta."""
    events = [full_batch(0.01), poisson()]
    found = worst(events, [by_rows(0, 5), by_rows(5, 9)], DELTA)
    assert found.epsilon == max(cost((event,), DELTA).epsilon for event in events)
    assert found.mu is None


class TestLedger:
    def test_a_sliding_window_never_ends(self):
        """Every record is in twelve of a hundred fits."""
        ledger = PrivacyLedger(epsilon=2.1, delta=DELTA)
        mu = 0.15
        for month in range(100):
            ledger.part(rows=range(month, month + 12)).charge([full_batch(mu)])
        assert ledger.spent() == cost_of_mu(mu * math.sqrt(12))
        assert ledger.part(rows=range(0, 1)).spent() == cost_of_mu(mu)
        assert ledger.part(rows=range(500, 501)).spent() == 0.0

    def test_the_limit_holds_for_every_record(self):
        ledger = PrivacyLedger(epsilon=gdp_epsilon(DELTA, 0.5), delta=DELTA)
        january, february = (ledger.part(rows=range(i, i + 9)) for i in (0, 9))
        january.charge([full_batch(0.3)])
        ledger.charge([full_batch(0.4)])  # everybody
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            january.charge([full_batch(0.01)])
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            ledger.charge([full_batch(0.01)])
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            ledger.part(rows=range(8, 10)).charge([full_batch(0.01)])
        february.charge([full_batch(0.3)])
        assert ledger.spent() == january.spent() == february.spent() == cost_of_mu(0.5)
        assert january.remaining() == pytest.approx(0, abs=1e-9)

    def test_by_a_public_column(self):
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA)
        event = full_batch(public_features=("region", "age"))
        for value in ("north", "south", np.str_("west"), np.int64(3)):
            ledger.part(column="region", value=value).charge([event])
        assert ledger.spent() == cost_of_mu(0.3)
        ledger.part(column="region", value="3").charge([event])  # the number 3 as text
        assert ledger.spent() == cost_of_mu(0.3 * math.sqrt(2))
        assert ledger.public == ("age", "region")

    def test_a_cohort_by_a_private_column_is_refused(self):
        ledger = PrivacyLedger()
        for event in (full_batch(), full_batch(public_features=("age",))):
            with pytest.raises(
                PrivacyBudgetError, match="'region', which is not in the public set"
            ):
                ledger.part(column="region", value="north").charge([event])
        assert len(ledger) == 0

    def test_two_ways_of_splitting_are_refused(self):
        ledger = PrivacyLedger()
        event = full_batch(public_features=("region", "age"))
        ledger.part(column="region", value="north").charge([event])
        for other in ({"rows": range(5)}, {"column": "age", "value": 3}):
            with pytest.raises(PrivacyBudgetError, match="split in one way, not by"):
                ledger.part(**other).charge([event])
        ledger.charge([event])
        assert len(ledger) == 2

    def test_whole_records_have_no_public_position(self):
        ledger = PrivacyLedger()
        event = full_batch(neighboring_relation="add_or_remove_one")
        with pytest.raises(PrivacyBudgetError, match="cannot be used with 'add_or"):
            ledger.part(rows=range(5)).charge([event])

    def test_parts_do_not_excuse_mixed_public_sets(self):
        ledger = PrivacyLedger()
        ledger.part(rows=range(5)).charge([full_batch(public_target=True)])
        with pytest.raises(PrivacyBudgetError, match="outside the public set"):
            ledger.part(rows=range(5, 9)).charge([full_batch(public_features=("a",))])

    def test_a_fit_without_privacy_counts_for_everybody(self):
        ledger = PrivacyLedger()
        ledger.part(rows=range(5)).charge_nonprivate()
        assert ledger.part(rows=range(7, 9)).spent(DELTA) == math.inf

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"rows": range(3), "column": "a", "value": 1},
            {"column": "a"},
            {"value": 1},
        ],
    )
    def test_names_one_part(self, options):
        with pytest.raises(ValueError, match="define a part: give either rows"):
            PrivacyLedger().part(**options)

    @pytest.mark.parametrize(
        "rows", [range(0, 10, 2), range(0), range(-1, 4), [1, 2], (0, 5), np.arange(3)]
    )
    def test_only_ranges_are_fixed_by_position(self, rows):
        """The indices of a shuffled or stratified fold cannot be named."""
        with pytest.raises(ValueError, match="must be a range of positions"):
            PrivacyLedger().part(rows=rows)

    @pytest.mark.parametrize("value", [1.5, True, math.nan, ("a",)])
    def test_values_are_text_or_whole_numbers(self, value):
        with pytest.raises(ValueError, match="must be a str or an int"):
            PrivacyLedger().part(column="a", value=value)

    def test_handles_survive_files_copies_and_pickles(self, tmp_path):
        ledger = PrivacyLedger(tmp_path / "l.db", epsilon=1.0, delta=DELTA)
        handle = ledger.part(rows=range(10))
        for twin in (handle, copy.deepcopy(handle), pickle.loads(pickle.dumps(handle))):
            twin.charge([full_batch(0.1)])
        ledger.part(rows=range(10, 20)).charge([full_batch(0.1)])
        assert PrivacyLedger(tmp_path / "l.db").spent() == cost_of_mu(
            0.1 * math.sqrt(3)
        )
        assert "rows 0 to 9" in repr(handle)
        assert [entry.part for entry in ledger.entries] == [by_rows(0, 10)] * 3 + [
            by_rows(10, 20)
        ]


def test_the_report_of_a_ledger_with_parts():
    ledger = PrivacyLedger(epsilon=2.0, delta=DELTA)
    ledger.part(rows=range(10)).charge([full_batch(0.4), poisson()])
    ledger.part(rows=range(10, 20)).charge([full_batch(0.1)])
    found = report(ledger)
    assert found.epsilon == ledger.spent()
    for delta in (1e-2, 1e-3, 1e-7):
        assert found.at_delta(delta).epsilon == ledger.spent(delta)
    assert type(found).from_dict(found.to_dict()) == found
    text = " ".join(found.statement(full=True).split())
    assert "rows 0 to 9" in text
    assert "most exposed record" in text
    values = found.to_dict()
    values["parts"] = [
        {"rows": [i, i + 1], "column": None, "value": None} for i in (0, 1, 2)
    ]
    for parts in (values["parts"], values["parts"][:1]):
        with pytest.raises(ValueError, match="it was edited"):
            type(found).from_dict(values | {"parts": parts})


def test_one_number_is_one_part_however_it_is_spelt():
    spelt = (1, "1", "01", "1.0", "+1", " 1", "1e0", "True", "true ")
    parts = [Part.of(column="m", value=value) for value in spelt]
    assert set(parts) == {Part(column="m", value="1")}
    assert Part.of(column="m", value="north").value == "north"
    assert Part.of(column="m", value="0.50").value == "0.5"
