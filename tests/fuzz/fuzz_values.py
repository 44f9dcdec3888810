"""Values of parameters and odd values, as expressions that reproduce them."""

import datetime
import decimal
import fractions
import functools
import importlib
import math

import numpy as np


def split(text):
    """Return expressions that are parted by bars."""
    return tuple(one.strip() for one in text.replace("\n", " ").split(" | "))


#: For any parameter.
ODD = split(
    r"""
    None | True | False | 'auto' | 'x' | '' | b'a' | -1 | 0 | 1 | 2 | 3 | 0.5 |
    1.0 | -0.5 | 2.5 | 10**30 | 10**400 | 1e-300 | 1e300 | 5e-324 | math.nan |
    math.inf | -math.inf | 1j | '1' | np.float32(0.5) | np.float64(1.0) |
    np.float16(0.5) | np.longdouble(1) | np.int64(3) | np.uint8(3) |
    np.bool_(True) | np.str_('auto') | np.array(1.0) | np.array([1.0]) |
    np.array([1.0, 2.0]) | np.array([]) | np.array('auto') |
    np.array([[1.0, 2.0], [3.0, 4.0]]) | np.datetime64('2020-01-01') |
    np.timedelta64(3, 's') | np.ma.masked | fractions.Fraction(1, 2) |
    decimal.Decimal('0.5') | datetime.date(2020, 1, 1) | pd.NA | pd.NaT |
    pd.Series([1.0, 2.0]) | pd.DataFrame({'c0': [1.0], 'c1': [2.0]}) | [] | [0] |
    [1.0] | [0.1, 0.2] | [None] | ['c0'] | [[]] | () | (0,) | (0, 1) | (1, 0) |
    (0, 1, 2) | {} | {0} | {'c0': (0, 1)} | {0: (0, 1)} | {None: 1} | range(2) |
    slice(0, 1) | iter([0, 1]) | lambda *a, **k: 1 | lambda *a, **k: None | object |
    object() | Ellipsis | NotImplemented | '\x00' | 'é' * 300
    """
)
_PAIRS = split(
    r"""
    (0, 1) | (0, 1) | [0.0, 1.0] | (-1, 2) | np.array([0, 1]) |
    (np.zeros(3), np.ones(3)) | ([0, 0, 0], [1, 1, 1]) | ([0, 0], [1, 1]) |
    (np.zeros(1), 1) | (np.zeros((3, 1)), 1) | {0: (0, 1)} | {'c0': (0, 1)} |
    {'c0': (0, 1), 'c1': (-5, 5), 'c2': (0, 10)} | {'c*': (0, 1)} |
    {0: (0, 1), 'c0': (0, 1)} | {-1: (0, 1)} | {9: (0, 1)} | {0: 1} | {0: None} |
    {0: (1, 0)} | {0: (np.zeros(3), 1)} | {0: ([0], [1])} | {True: (0, 1)} |
    {(0, 1): (0, 1)} | {0: (0, math.inf)} | {0: (math.nan, 1)} | (0, math.inf) |
    (math.nan, 1) | (0, 5e-324) | (-1e308, 1e308) | (0, 1e-200) | (0, 10**400) |
    (1e17, 1e17 + 2) | ('0', '1') | ('a', 'b') | (None, None) | (0, 1j) | {0, 1} |
    pd.Series([0, 1]) | pd.Series([(0, 1)], index=['c0']) |
    pd.DataFrame({'c0': [0, 1]}) |
    (pd.Timestamp('2020-01-01'), pd.Timestamp('2021-01-01')) | iter([0, 1]) |
    (0, object()) | (False, True)
    """
)
_COLUMNS = split(
    r"""
    None | 'all' | ['c0'] | 'c0' | 'c*' | ['c[01]'] | ['c0', 'c0'] | ['nobody'] |
    [] | [0] | 0 | [0, 1] | {0, 1} | [0, 0] | [-1] | [9] | [0.0] | [None] | [[0]] |
    np.array([0]) | np.array(0) | np.array([True, False, False]) | [True, False] |
    [True, 1, 'c0'] | np.ones((3, 1), dtype=bool) |
    pd.Series([True, False, False]) |
    pd.Series([True, False, False], index=['c0', 'c1', 'c2']) | pd.Index(['c0']) |
    slice(None) | slice(0, 2) | slice(0, 2, 0) | slice('c0', 'c1') |
    slice(None, 10**30) | range(1) | frozenset({'c0'}) | lambda X: [0] |
    lambda X: ['c0'] | lambda X: X | lambda: 1 | lambda X: slice(0, len(X)) |
    {'c0': True} | iter(['c0']) | '' | '[' | True | b'c0' | 10**30
    """
)
_LEDGERS = split(
    r"""
    None | PrivacyLedger() | PrivacyLedger(epsilon=100.0, delta=1e-4) |
    PrivacyLedger(epsilon=1e-3, delta=1e-5) |
    PrivacyLedger(neighboring_relation='replace_one') |
    PrivacyLedger(public=['c0']) | PrivacyLedger().part(rows=range(3)) |
    PrivacyLedger().part(column='c0', value=1) | 3 | []
    """
)
_ENCODERS = split(
    r"""
    None | DeclaredEncoder(bounds=(0, 1)) |
    DeclaredEncoder(bounds=(0, 1), n_knots=3, sparse_output=True) |
    DeclaredEncoder(bounds={'c0': (0, 1)}, categories={'c1': ['red', 'green']},
    ignore=['c2']) |
    DeclaredEncoder(bounds={0: (0, 1), 1: (0, 1), 2: (0, 1)}, interactions=[(0, 1)]) |
    DeclaredEncoder(categories={'c0': [0, 1]}) | DeclaredEncoder() |
    DeclaredEncoder | StandardScaler()
    """
)
#: By parameter: values in its range first, then others.
BY_NAME = {
    "bounds": (*_PAIRS, "'private'", "'privat'"),
    "target_bounds": _PAIRS,
    "public_features": _COLUMNS,
    "encoder": _ENCODERS,
    "ledger": _LEDGERS,
}
BY_NAME |= {
    name: split(values)
    for name, values in {
        "epsilon": r"1.0 | 8 | 0.1 | math.inf | 1e-8 | 1e8 | 0 | -1 | math.nan",
        "delta": r"1e-5 | 1e-3 | 0.5 | 1e-300 | 1e-12 | 0 | 1 | -1 | math.nan",
        "public_target": r"True | False | 1 | 'yes'",
        "names": r"""
            None | 'age' | ['a', 'b', 'c'] | ['a', 'b'] | ['a', 'a', 'b'] |
            {'c0': 'age'} | {0: 'age'} | {'c*': 'age'} | {9: 'age'} |
            {'nobody': 'age'} | ['', 'b', 'c'] | [0, 1, 2] | {0: 3} |
            [None, 'b', 'c']
        """,
        "target_name": r"None | 'target' | 'c0' | '' | 7 | ('a', 'b')",
        "neighboring_relation": r"""
            'replace_one' | 'replace_special' | 'add_or_remove_one' |
            'replace'
        """,
        "n_records": r"None | 30 | 3 | 10**9 | 10**30 | 0 | -1 | 2.5",
        "solver": r"'auto' | 'dp-gd' | 'dp-sgd' | 'one-shot' | 'newton'",
        "loss": r"""
            'log_loss' | 'hinge' | 'squared_hinge' | 'squared_error' |
            'huber' | 'poisson'
        """,
        "public_model": r"""
            None | 'auto' | LogisticRegression() | GaussianNB() | Ridge() |
            PoissonRegressor() |
            LogisticRegression().fit([[0.0], [1.0]], [0, 1]) |
            DummyRegressor() | LogisticRegression | StandardScaler()
        """,
        "public_loss": r"""
            'auto' | None | 'gaussian' | 'zero' | 'impute' |
            lambda *a: 0.0 | lambda *a: (0.0, 0.0)
        """,
        "public_batch_size": r"None | 5 | 10**9 | 0 | 2.5 | 'auto'",
        "private_weight": r"1.0 | 1e-20 | 1e20 | 0 | -1 | math.inf",
        "padding_scale": r"1.0 | 0 | 1e20 | -1 | math.nan",
        "feature_bound": r"'auto' | 1.0 | 0.1 | 1e20 | 1e-20 | 0 | math.inf",
        "normalize": r"True | False | 'auto' | None | 1",
        "clip_norm": r"'auto' | 1.0 | 1e-20 | 1e20 | 0 | -1 | math.inf",
        "max_rows_per_person": r"None | 1 | 2 | 0 | -1 | 2.5 | 10**30",
        "max_iter": r"2 | 1 | 3 | 0 | -1 | 2.5 | '2'",
        "batch_size": r"'auto' | None | 5 | 1 | 10**9 | 0 | 2.5",
        "learning_rate": r"'auto' | 0.1 | 1e-20 | 1e20 | 0 | 'fast'",
        "learning_rate_decay": r"1.0 | 0.5 | 0 | 2 | -1",
        "momentum": r"0.9 | 0 | 0.999999 | 1 | -1",
        "average": r"'last' | 'tail' | 'uniform' | 'median'",
        "noise_decay": r"0.75 | 0 | 9.5 | 10 | -1",
        "radius": r"None | 1.0 | 1e-20 | 1e20 | 0",
        "C": r"'auto' | 1.0 | 1e-10 | 1e10 | 0 | math.inf",
        "alpha": r"'auto' | 1.0 | 0 | 1e20 | -1",
        "huber_threshold": r"'auto' | 1.35 | 1e-20 | 1e20 | 0 | -1",
        "fit_intercept": r"True | False | 1 | 0 | 'no'",
        "class_weight": r"""
            None | 'balanced' | {0: 1.0, 1: 2.0} | {'a': 1, 'b': 0} |
            {0: 0, 1: 0} | {0: 1e300} | {0: math.nan} | {9: 1}
        """,
        "classes": r"""
            None | [0, 1] | [0, 1, 2] | ['a', 'b'] | [1] | [0, 0] |
            ['a', 0] | [None, 'a'] | [math.nan, 0.0] | (True, False) |
            {0, 1} | np.array([[0], [1]]) | 'ab' | pd.Series([0, 1]) |
            pd.Index(['a', 'b']) | [b'a', b'b'] | [[0], [1]] |
            np.array(['2020-01-01', '2020-01-02'], dtype='M8[D]') |
            [0.5, 1.5] | [1j, 2j] | iter([0, 1])
        """,
        "centering": r"'auto' | 'gaussian' | 'adaptive' | None | 'exact'",
        "clip_quantile": r"'auto' | None | 0.5 | 0.999999 | 1e-20 | 1 | 0",
        "clip_features": r"False | True | 1 | None",
        "mean_fraction": r"'auto' | 0.1 | 0.999999 | 1e-20 | 1 | 0",
        "output_bound": r"1.0 | 1e-20 | 1e20 | 0 | 'auto'",
        "hidden_layer_sizes": r"""
            (4,) | (3, 2) | () | (0,) | 4 | [4] | (2.5,) | ('a',) |
            np.array([4])
        """,
        "pretraining": r"'auto' | None | 'public' | 'class_sums' | 'linear'",
        "pretraining_share": r"'auto' | 0.5 | 0 | 1 | 2",
        "trained_layers": r"'auto' | 'all' | 'last' | 1 | 0 | 5",
        "backend": r"'numpy' | 'torch' | 'jax'",
        "device": r"None | 'cpu' | 'cuda:9' | 'nowhere'",
        "dtype": r"'float32' | 'float64' | 'float16' | np.float32",
        "covariance": r"'auto' | True | False | 'exact'",
        "n_draws": r"'auto' | 1 | 3 | 0 | 2.5",
        "on_invalid": r"'replace' | 'raise' | 'drop'",
        "random_state": r"None | 0 | 7 | 2**200 | -1 | np.random.RandomState(0)",
        "n_jobs": r"None | 1 | 2 | -1 | 0 | '2'",
        "categories": r"""
            None | {'c0': ['red', 'green']} | {0: ['red', 'green']} |
            {0: [0, 1], 1: [0, 1], 2: [0, 1]} | {0: []} | {0: [None]} |
            {0: ['red', 'red']} | {0: ['other', 'missing']} | {0: 'red'} |
            {0: {'red': 1}} | {9: ['red']} | {0: [[1]]} | {0: [math.nan]} |
            ['red']
        """,
        "basis": r"'hats' | 'linear' | {'c0': 'linear'} | {0: 'x'} | {9: 'hats'}",
        "n_knots": r"""
            'auto' | 3 | 1 | 0 | {0: 3} | {0: [0.0, 0.5, 1.0]} | [0, 1] |
            {0: [1, 0]} | {0: []} | {0: 'auto'} | 2.5
        """,
        "spacing": r"'auto' | 'even' | 'geometric' | {0: 'even'} | 'x'",
        "cyclic": r"() | [0] | ['c0'] | 'c0' | [9] | 0",
        "interactions": r"""
            () | [(0, 1)] | [('c0', 'c1')] | [(0, 0)] | [(0,)] |
            [(0, 1), (1, 0)] | ['c0'] | [0] | [(0, 1, 2)] | 'c0'
        """,
        "ignore": r"() | [0] | ['c0'] | 'c0' | [0, 1, 2] | [9] | 0",
        "sparse_output": r"False | True | 1 | 'yes'",
        # Of searches, and of the completion.
        "estimator": r"""
            DPSGDFClassifier(bounds=(0, 1), max_iter=2, delta=1e-3) |
            FeatureDPLogisticRegression(bounds=(0, 1), max_iter=2) |
            FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1]) |
            make_pipeline(StandardScaler(), DPSGDFClassifier(bounds=False)) |
            DPSGDFClassifier(ledger=PrivacyLedger()) |
            DPSGDFRegressor(target_bounds=(0, 1)) | DPSGDFClassifier |
            GaussianNB() | LogisticRegression() | Ridge() | GaussianNB
        """,
        "param_grid": r"""
            {'clip_norm': [0.1, 1.0]} | [{'clip_norm': [0.1]}, {'C': [1.0, 2.0]}] | {} |
            {'nobody': [1]} | {'clip_norm': []} | {'clip_norm': 0.1} |
            {'epsilon': [1.0, 2.0]} | {'ledger': [None]} | {'clip_norm': [-1.0]} |
            {'random_state': [0]} | {'clip_norm': 'ab'}
        """,
        "mean_runs": r"1.5 | 1 | 3 | 0 | 1e9",
        "eta": r"1.0 | 0 | 0.5 | -0.5 | 1e20",
        "scoring": r"'accuracy' | 'neg_log_loss' | 'roc_auc'",
        "loss_bound": r"4.0 | 1e-20 | 0 | math.inf",
        "validation_fraction": r"0.1 | 0.5 | 0.999 | 1e-9 | 0 | 1",
    }.items()
}
#: Parameters of small fits that should work, of whatever estimator has them.
SENSIBLE = {
    "bounds": "(0, 1)",
    "max_iter": "2",
    "hidden_layer_sizes": "(4,)",
    "target_bounds": "(0, 1)",
}
_NAMES = {
    "pd": ("pandas", None),
    "PrivacyLedger": ("skfdp.privacy", "PrivacyLedger"),
    "DeclaredEncoder": ("skfdp.data.encoder", "DeclaredEncoder"),
    "LogisticRegression": ("sklearn.linear_model", "LogisticRegression"),
    "Ridge": ("sklearn.linear_model", "Ridge"),
    "PoissonRegressor": ("sklearn.linear_model", "PoissonRegressor"),
    "GaussianNB": ("sklearn.naive_bayes", "GaussianNB"),
    "DummyRegressor": ("sklearn.dummy", "DummyRegressor"),
    "DPSGDFClassifier": ("skfdp", "DPSGDFClassifier"),
    "DPSGDFRegressor": ("skfdp", "DPSGDFRegressor"),
    "FeatureDPLogisticRegression": ("skfdp", "FeatureDPLogisticRegression"),
    "make_pipeline": ("sklearn.pipeline", "make_pipeline"),
    "StandardScaler": ("sklearn.preprocessing", "StandardScaler"),
}


class _Names(dict):
    """The names that expressions may use, imported when they are used first."""

    def __missing__(self, name):
        module, attribute = _NAMES[name]  # KeyError: a NameError in the expression
        found = importlib.import_module(module)
        return found if attribute is None else getattr(found, attribute)


@functools.lru_cache(maxsize=4096)
def _compiled(text):
    return compile(text, "<odd value>", "eval")


def value_of(text, **names):
    """Return the value of an expression, a new one each time."""
    known = {
        "np": np,
        "math": math,
        "datetime": datetime,
        "decimal": decimal,
        "fractions": fractions,
    }
    # Functions in an expression look names up in its globals, which must be a dict
    # that nobody has to ask for what is missing.
    code = _compiled(text)
    more = {name: _Names()[name] for name in code.co_names if name in _NAMES}
    for constant in code.co_consts:  # of lambdas
        inner = getattr(constant, "co_names", ())
        more |= {name: _Names()[name] for name in inner if name in _NAMES}
    return eval(code, known | more | names)
