"""Rules for roundings, and for what is private of a record."""

from _mutants import Each, Line
from _rules_nodes import called, inverted

# What the temperature truncates is cut to its bound afterwards.
_TRUNCATED = (
    "queries/class_sums.py queries/moments.py queries/scores.py queries/statistics.py "
    "records/grid.py"
)

ROUNDING = [
    Each(
        "rounding away from zero",
        "truncation never lengthens, and this does",
        _TRUNCATED,
        called(r"np\.trunc", "(np.sign({0}) * np.ceil(np.abs({0})))"),
        least=10,
    ),
    Each(
        "rounding to the nearest",
        "truncation never lengthens, and this may",
        _TRUNCATED,
        called(r"np\.trunc", "np.rint({0})"),
        least=10,
    ),
    Line(
        "squares rounded down",
        "rows are a little longer than 1",
        "records/row_map.py",
        r"np\.ceil\(squares, out=squares\)",
        "np.floor(0.999 * squares, out=squares)",
    ),
    Line(
        "integer wrap",
        "the unit leaves no room for the number of records",
        "queries/__init__.py",
        r"n_rows \* clip_norm / 2\.0\*\*62, ",
        "",
    ),
    Line(
        "noise beyond the kernel",
        "the unit is too fine for the noise",
        "queries/__init__.py",
        r"max\(noise_std / SAFE_STD, ",
        "max(",
    ),
    Line(
        "capacity ignored",
        "the unit leaves no room for the number of records",
        "queries/*.py",
        r"self\.capacity",
        "1",
        scope="unit$",
        least=6,
    ),
    Line(
        "unit from the data",
        "the grid of a released sum tells the private number of records",
        "records/records.py",
        r"return MOST_ROWS \* self\.n_records",
        "return MOST_ROWS * self.n_rows",
    ),
    Line(
        "centre that is no number",
        "NaN as an integer, and the sum wraps around",
        "records/grid.py",
        r"np\.nan_to_num\(np\.rint\(centre / GRID\)\)",
        "np.rint(centre / GRID)",
    ),
    Line(
        "entries beyond int16",
        "a row wraps around and has another norm",
        "records/grid.py",
        r"np\.clip\(entries, low.*, out=entries\)",
        "pass",
        least=2,
    ),
    Line(
        "bias outside the norm",
        "the clip does not see the constant column",
        "records/grid.py",
        r"integers = values\[block\]\.astype\(np\.float64\)",
        "integers = values[block, :n_features].astype(np.float64)",
    ),
    Line(
        "bias outside the norm",
        "the clip does not see the constant column of sparse rows",
        "records/grid.py",
        r"far = float\(shift @ shift\)",
        "far = float(shift[:-1] @ shift[:-1])",
    ),
    Line(
        "centre outside the norm",
        "the clip sees sparse rows as they were before centring",
        "records/grid.py",
        r"entries \* \(entries - 2 \* shift\[rows\.indices\]\)",
        "entries * entries",
    ),
    Line(
        "truncated bound of an entry",
        "an entry larger than the largest residual of a step",
        "queries/temperature.py",
        r"math\.floor\(self\._bound / unit\)",
        "math.ceil(4 * self._bound / unit)",
    ),
    Line(
        "short products where they do not fit",
        "sums of 32 bits wrap around",
        "queries/products.py",
        r">= vectors\.WIDTH and _inner_products_are_short\(rows\)",
        ">= vectors.WIDTH",
    ),
    Line(
        "sums beyond 2**53",
        "sums in float64 that are not exact any more",
        "queries/products.py",
        r"if len\(part\) > self\._room:",
        "if False:",
    ),
    Line(
        "narrow sums of sparse rows",
        "margins of 32 bits wrap around",
        "queries/products.py",
        r"np\.int32 if _inner_products_are_short\(rows\) else np\.int64",
        "np.int32",
    ),
]

RECORDS = [
    Each(
        "mask inverted",
        "private columns where public ones are meant",
        "records/*.py queries/*.py",
        inverted(r"public|mask"),
        least=10,
    ),
    Line(
        "public columns from whole rows",
        "private columns leave with the public ones",
        "records/records.py",
        r"self\._table if self\.mask\.all\(\) else self\._table\[:, self\.mask\]",
        "self._table",
    ),
    Line(
        "public part of the norm",
        "the norm of whole rows tells private values in public columns",
        "records/row_map.py",
        r"self\.part\(public\), feature_bound=np\.inf, normalize=False",
        "self.part(public)",
    ),
    Line(
        "rows not cut",
        "rows of any length enter sums of mapped rows",
        "records/row_map.py",
        r"norm if self\.normalize else np\.maximum\(norm, bound\)",
        "bound",
    ),
    Line(
        "bounds not applied",
        "values beyond their bounds",
        "records/row_map.py",
        r"np\.clip\((.*), 0\.0, 1\.0\)",
        r"(\1)",
        least=3,
    ),
    Line(
        "malformed values not void",
        "a record that should add nothing adds what stands in",
        "records/row_map.py",
        r"void\[row\[~bounded\[column\]\]\] = True",
        "pass",
    ),
    Line(
        "malformed values kept",
        "NaN enters the sums",
        "records/row_map.py",
        r"values\[wrong\] = np\.clip\(middle, -largest, largest\)\[column\]",
        "pass",
    ),
    Line(
        "unbounded columns called bounded",
        "the orthant bound is claimed for entries of any sign",
        "records/records.py",
        r"has_bounds and bool\(self\.bounded\[~self\.mask\]\.all\(\)\)",
        "has_bounds",
    ),
    Line(
        "target not clipped",
        "a private target beyond its declared bounds",
        "records/target.py",
        r"np\.clip\(y, self\.low, self\.high\)",
        "np.asarray(y)",
    ),
    Line(
        "bound of the private columns forgotten",
        "a length beyond what the columns can have",
        "records/records.py",
        r"math\.sqrt\(self\.n_private\) if self\.private_bounded",
        "1.0 if self.private_bounded",
    ),
    Line(
        "a mask of positions",
        "0 and 1 are columns, and are taken for a mask",
        "records/public_columns.py",
        r"if listed and len\(items\) == len\(integers\) == n_features.*",
        "if False:",
    ),
    Line(
        "integers as labels",
        "positions where labels were meant: other columns are disclosed",
        "records/public_columns.py",
        r"if ends and not _counted\(labels\):",
        "if False:",
    ),
    Line(
        "callables see the data",
        "which columns are public may depend on private values",
        "records/public_columns.py",
        r"yield np\.empty\(\(0, n_features\), dtype=dtype\)",
        "yield np.empty((1, n_features), dtype=dtype)",
    ),
    Line(
        "traps let through",
        "an overflow of one private value stops a fit",
        "records/guards.py",
        r'with np\.errstate\(all="ignore"\), special\.errstate\(all="ignore"\):',
        'with np.errstate(), special.errstate(all="ignore"):',
    ),
    Line(
        "sample weights let through",
        "a weight multiplies what a record contributes",
        "records/guards.py",
        r'if not takes_weights and \("sample_weight" in kwargs or len\(args\) > 2\):',
        "if False:",
    ),
    Line(
        "labels outside the declared ones kept",
        "a record without a label counts as the first class",
        "records/labels.py",
        r"missing if missing\.any\(\) else None\)",
        "None)",
    ),
    Line(
        "void records kept without privacy",
        "a fit without privacy on records that have no value",
        "records/records.py",
        r"kept, public = ~self\.void, self\.public",
        "kept, public = self.void | True, self.public",
    ),
]

RULES = [*ROUNDING, *RECORDS]
