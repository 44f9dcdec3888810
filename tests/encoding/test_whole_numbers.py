"""Columns of whole numbers have knots at whole numbers only."""

import numpy as np
import pandas as pd
import pytest

from skfdp import TableSchema
from skfdp.schema import Label, Number, SchemaError


def knots_of(column, smooth=True):
    (block,) = column.blocks("x", 0, smooth)
    return block.knots


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("bounds", [(0, 10), (-3, 4), (0, 1), (17, 90), (0, 10**6)])
def test_knots_are_whole_numbers_within_the_bounds(bounds, smooth):
    found = knots_of(Number(*bounds, integer=True), smooth)
    assert (found == np.rint(found)).all() and (np.diff(found) >= 1).all()
    assert (found[0], found[-1]) == bounds
    if bounds[1] - bounds[0] <= 7:
        assert len(found) == bounds[1] - bounds[0] + 1
    assert len(found) <= len(knots_of(Number(*bounds), smooth))


def test_hours_have_a_knot_each():
    (block,) = Number(0, 24, cyclic=True, integer=True).blocks("hour", 0, True)
    np.testing.assert_array_equal(block.knots, np.arange(24))
    assert block.end == 24


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (Number(0.5, 9, integer=True), "must be whole numbers, as integer=True says"),
        (Number(0, 9, knots=[0, 1.5, 9], integer=True), "2 to .* whole numbers in asc"),
    ],
)
def test_fractions_are_refused(declared, said):
    with pytest.raises(SchemaError, match=said):
        knots_of(declared)
    with pytest.raises(ValueError, match="integer=2 must be"):
        Number(0, 9, integer=2)


def test_files_say_integer_and_a_draft_proposes_it_from_stored_types(tmp_path):
    path = tmp_path / "schema.toml"
    columns = {"n": Number(0, 9, integer=True), "x": Number(0, 1), "y": Label([0, 1])}
    schema = TableSchema(columns, outcomes=["y"])
    schema.save(path)
    assert 'n = {type = "integer"' in path.read_text()
    assert TableSchema.load(path).columns == columns
    frame = pd.DataFrame({"n": [1, 2, 3], "m": [4, 5, 7], "x": [0.5, 1, 2]})
    frame.to_parquet(tmp_path / "table.parquet")
    for table, private in ((tmp_path / "table.parquet", True), (frame, False)):
        # One missing cell would change the type of a frame's private column.
        draft = TableSchema.draft(table, public=["m"])
        found = [draft.columns[name].integer for name in frame]
        assert found == [private, True, False]
