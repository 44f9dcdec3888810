"""Odd values, as expressions that reproduce them."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import importlib
import math
from typing import Any

import numpy as np

#: For any parameter.
ODD = (
    "None",
    "True",
    "False",
    "'auto'",
    "'x'",
    "''",
    "b'a'",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "0.5",
    "1.0",
    "-0.5",
    "2.5",
    "10**30",
    "10**400",
    "1e-300",
    "1e300",
    "5e-324",
    "math.nan",
    "math.inf",
    "-math.inf",
    "1j",
    "'1'",
    "np.float32(0.5)",
    "np.float64(1.0)",
    "np.float16(0.5)",
    "np.longdouble(1)",
    "np.int64(3)",
    "np.uint8(3)",
    "np.bool_(True)",
    "np.str_('auto')",
    "np.array(1.0)",
    "np.array([1.0])",
    "np.array([1.0, 2.0])",
    "np.array([])",
    "np.array('auto')",
    "np.array([[1.0, 2.0], [3.0, 4.0]])",
    "np.datetime64('2020-01-01')",
    "np.timedelta64(3, 's')",
    "np.ma.masked",
    "fractions.Fraction(1, 2)",
    "decimal.Decimal('0.5')",
    "datetime.date(2020, 1, 1)",
    "pd.NA",
    "pd.NaT",
    "pd.Series([1.0, 2.0])",
    "pd.DataFrame({'c0': [1.0], 'c1': [2.0]})",
    "[]",
    "[0]",
    "[1.0]",
    "[0.1, 0.2]",
    "[None]",
    "['c0']",
    "[[]]",
    "()",
    "(0,)",
    "(0, 1)",
    "(1, 0)",
    "(0, 1, 2)",
    "{}",
    "{0}",
    "{'c0': (0, 1)}",
    "{0: (0, 1)}",
    "{None: 1}",
    "range(2)",
    "slice(0, 1)",
    "iter([0, 1])",
    "lambda *a, **k: 1",
    "lambda *a, **k: None",
    "object",
    "object()",
    "Ellipsis",
    "NotImplemented",
    "'\\x00'",
    "'é' * 300",
)
_NAMES: dict[str, tuple[str, str | None]] = {
    "pd": ("pandas", None),
    "PrivacyLedger": ("skfdp.privacy", "PrivacyLedger"),
    "DeclaredEncoder": ("skfdp.encoding.encoder", "DeclaredEncoder"),
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

    def __missing__(self, name: str) -> Any:
        module, attribute = _NAMES[name]  # KeyError: a NameError in the expression
        found = importlib.import_module(module)
        return found if attribute is None else getattr(found, attribute)


@functools.lru_cache(maxsize=4096)
def _compiled(text: str) -> Any:
    return compile(text, "<odd value>", "eval")


def value_of(text: str, **names: Any) -> Any:
    """Return the value of an expression, a new one each time.

    Parameters
    ----------
    text : str
        An expression of this file or of your own; it is evaluated as it stands.
    **names : dict
        Names that it may use beside those of this file.

    Returns
    -------
    value : object

    Examples
    --------
    >>> from skfdp.audit.fuzz.expressions import value_of
    >>> value_of("np.array([0, 1])").tolist()
    [0, 1]
    """
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
