"""Folders of files: their order, and what is no column of theirs."""

import os

import numpy as np
import pandas as pd
import pytest

from skfdp import TableSchema, UtilityWarning, open_table
from skfdp.schema import Category, Label, Number, SchemaError

ROWS = pd.DataFrame(np.random.default_rng(0).random((120, 2)), columns=["a", "b"])


def written(folder, names, **options):
    """Write ten rows to each file, in the order of the names."""
    for place, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        ROWS[10 * place : 10 * place + 10].to_parquet(path, **options)
    return folder


@pytest.mark.parametrize("names", ["part.{}.parquet", "{}/rows.parquet", "m{}-2026.pq"])
def test_g19_files_are_read_in_the_order_of_their_numbers(tmp_path, names):
    written(tmp_path, map(names.format, range(12)), index=False)
    with pytest.warns(UtilityWarning, match="in the order of the numbers") as caught:
        table = open_table(tmp_path)
    assert "0" in str(caught[0].message) and "11" in str(caught[0].message)
    np.testing.assert_array_equal(np.asarray(table), ROWS.to_numpy())
    np.testing.assert_array_equal(table["b"], ROWS["b"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", ["part.{:03}.parquet", "2026-{:02}.parquet"])
def test_g19_an_order_that_is_also_that_of_letters_is_not_mentioned(tmp_path, names):
    table = open_table(written(tmp_path, map(names.format, range(12)), index=False))
    np.testing.assert_array_equal(np.asarray(table), ROWS.to_numpy())


def test_columns_in_names_of_folders_are_refused(tmp_path):
    written(tmp_path, ["region=north/a.parquet", "region=south/b.parquet"])
    with pytest.raises(ValueError, match="folders with a column in their name"):
        open_table(tmp_path)


@pytest.mark.parametrize("index", [None, "patient"])
def test_g20_the_index_that_pandas_stored_is_no_column(tmp_path, index):
    path = tmp_path / "t.parquet"
    stored = ROWS.sample(frac=1, random_state=0).rename_axis(index)
    stored.to_parquet(path)
    for table in (open_table(path), open_table(written(tmp_path / "many", ["t.pq"]))):
        assert table.columns == ["a", "b"]
        assert table.shape[1] == 2
    np.testing.assert_array_equal(np.asarray(open_table(path)), stored.to_numpy())
    draft = TableSchema.draft(path)
    assert list(draft.columns) == ["a", "b"]


def test_a4_an_empty_line_of_a_file_with_one_column_is_a_record(tmp_path):
    path, cells = tmp_path / "t.csv", ["5", "", "7", ""]
    path.write_text("\n".join(["ill", *cells]) + "\n")
    schema = TableSchema({"ill": Label([5, 7])}, outcomes=["ill"])
    assert schema.read_csv(path)["ill"].isna().tolist() == [False, True, False, True]
    two = TableSchema({"a": Category(["x"]), "b": Number(0, 9)})
    path.write_text("a,b\nx,1\n\nx,2\n,\n")
    assert len(two.read_csv(path)) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_g11_a_pipe_is_refused_by_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SchemaError, match="is a pipe or a device, .* write the table"):
        TableSchema({"a": Number(0, 1)}).read(tmp_path / "pipe")
