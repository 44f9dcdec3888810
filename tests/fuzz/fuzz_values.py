"""Values of parameters and odd values, as expressions that reproduce them."""

import datetime
import decimal
import fractions
import math
import re

import numpy as np
import pandas as pd
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skfdp
from skfdp import schema, solvers
from skfdp.privacy import AddOrRemoveOne


def split(text):
    """Return expressions that are parted by bars."""
    return tuple(one.strip() for one in text.replace("\n", " ").split(" | "))


def domains(text):
    """Return expressions by name, of lines of ``    name,other: one | another``."""
    parts = re.split(r"^ {4}(\S+): ", text, flags=re.MULTILINE)[1:]
    return {
        name: split(value)
        for names, value in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(",")
    }


#: Values of parameters by name, those in range first, and "odd" ones for any of them.
BY_NAME = domains(
    r"""
    odd: None | True | False | 'auto' | 'x' | '' | b'a' | -1 | 0 | 1 | 2 | -0.5 | 10**30
        | 10**400 | 1e-300 | 1e300 | math.nan | math.inf | -math.inf | 1j |
        np.float32(0.5) | np.longdouble(1) | np.int64(3) | np.uint8(3) | np.str_('auto')
        | np.array(1.0) | np.array([1.0, 2.0]) | np.array([]) | np.array('auto') |
        np.datetime64('2020-01-01') | np.ma.masked | fractions.Fraction(1, 2) |
        decimal.Decimal('0.5') | datetime.date(2020, 1, 1) | pd.NA | pd.Series([1.0,
        2.0]) | pd.DataFrame({'c0': [1.0], 'c1': [2.0]}) | [] | [1.0] | [None] | ['c0']
        | [[]] | () | (0, 1) | (1, 0) | {} | {'c0': (0, 1)} | {0: (0, 1)} | range(2) |
        iter([0, 1]) | lambda *a, **k: 1 | object() | Ellipsis | '\x00' | 'é' * 300
    pairs: (0, 1) | (0, 1) | (-1, 2) | (np.zeros(3), np.ones(3)) | ([0, 0], [1, 1]) |
        {0: (0, 1)} | {'c0': (0, 1), 'c1': (-5, 5), 'c2': (0, 10)} | {0: (0, 1), 'c0':
        (0, 1)} | {9: (0, 1)} | {0: (1, 0)} | {(0, 1): (0, 1)} | {0: (math.nan, 1)} |
        (math.nan, 1) | (0, 5e-324) | (-1e308, 1e308) | (1e17, 1e17 + 2) | ('a', 'b') |
        (None, None) | pd.Series([(0, 1)], index=['c0']) | pd.DataFrame({'c0': [0, 1]})
        | (pd.Timestamp('2020-01-01'), pd.Timestamp('2021-01-01'))
    public_features: None | 'all' | 'c0' | 'c*' | ['c0', 'c0'] | ['nobody'] | [0] | [0,
        1] | [-1] | [9] | np.array(0) | [True, False] | [True, 1, 'c0'] | np.ones((3,
        1), dtype=bool) | pd.Series([True, False, False], index=['c0', 'c1', 'c2']) |
        pd.Index(['c0']) | slice(None) | slice(0, 2, 0) | slice(None, 10**30) |
        frozenset({'c0'}) | lambda X: [0] | lambda X: ['c0'] | lambda: 1 | {'c0': True}
        | iter(['c0']) | '['
    ledger: None | PrivacyLedger() | PrivacyLedger(epsilon=100.0, delta=1e-4) |
        PrivacyLedger(epsilon=1e-3, delta=1e-5) |
        PrivacyLedger(neighboring_relation='replace_one') | PrivacyLedger(public=['c0'])
        | 3 | []
    encoder: None | DeclaredEncoder(TableSchema({'c0': Number(0, 1), 'c1': Number(0,
        1)})) | DeclaredEncoder(TableSchema({'c0':
        Number(0, 1, knots=3), 'c1': Category(['red', 'green'])}), sparse_output=True) |
        DeclaredEncoder() | DeclaredEncoder | StandardScaler()
    epsilon: 1.0 | 8 | 0.1 | 1e-8 | 1e8
    delta: 1e-5 | 1e-3 | 0.5 | 1e-12
    schema: None | TableSchema({'c0': Number(0, 1), 'c1': Number(0, 1, True), 'target':
        Label([0, 1])}, outcomes='target') | TableSchema({'c0': Category(['red',
        'green']), 'c1': Date('2173-05-01', '2173-06-01'), 'target': Label(['a', 'b'],
        True)}, outcomes='target') | TableSchema({'c0': Number(0, 1), 'target':
        Number(0, 1)}, outcomes='target') | TableSchema({'c1': Boolean(), 'c2':
        Ignore(), 'target': Boolean()}, outcomes='target') | TableSchema({'c0':
        Number(0, 1), 'target': Label([0, 1])}, outcomes='target', group='c1',
        max_rows_per_group=2) | TableSchema({'c0': Unknown()}) | TableSchema({}) |
        TableSchema
    target,target_name: None | 'target' | 'c0' | 7 | ('a', 'b')
    neighboring_relation: 'replace_one' | 'replace_special' | 'add_or_remove_one' |
        'replace' | AddOrRemoveOne(30) | AddOrRemoveOne(1)
    solver: 'auto' | 'noisy-gd' | 'noisy-sgd' | 'feature-dp-sgd' | 'one-shot' | 'newton'
        | NoisySGD | StandardScaler()
    loss: 'log_loss' | 'hinge' | 'squared_hinge' | 'squared_error' | 'huber' | 'poisson'
    public_model: None | 'auto' | LogisticRegression() | GaussianNB() | Ridge() |
        PoissonRegressor() | LogisticRegression().fit([[0.0], [1.0]], [0, 1]) |
        DummyRegressor() | LogisticRegression | StandardScaler()
    public_loss: 'gaussian' | None | 'zero' | 'impute' | lambda *a: 0.0 |
        lambda *a: (0.0, 0.0)
    iterate: 'last' | 'tail' | 'uniform' | 'median'
    class_weight: None | 'balanced' | {0: 1.0, 1: 2.0} | {'a': 1, 'b': 0} | {0: 0, 1: 0}
        | {0: 1e300} | {0: math.nan} | {9: 1}
    classes: None | [0, 1] | [0, 1, 2] | ['a', 'b'] | [1] | [0, 0] | ['a', 0] | [None,
        'a'] | [math.nan, 0.0] | (True, False) | {0, 1} | np.array([[0], [1]]) | 'ab' |
        pd.Series([0, 1]) | pd.Index(['a', 'b']) | [b'a', b'b'] | [[0], [1]] |
        np.array(['2020-01-01', '2020-01-02'], dtype='M8[D]') | [0.5, 1.5] | [1j, 2j]
    centering: 'auto' | 'gaussian' | 'adaptive' | 'exact'
    hidden_layer_sizes: (4,) | (3, 2) | (0,) | 4 | [4] | (2.5,) | ('a',) | np.array([4])
    pretraining,start: 'auto' | None | 'public' | 'class_sums' | 'linear'
    trained_layers: 'auto' | 'all' | 'last' | 5
    backend: 'numpy' | 'torch' | 'jax'
    device: None | 'cpu' | 'cuda:9' | 'nowhere'
    dtype: 'float32' | 'float64' | 'float16' | np.float32
    covariance: 'auto' | True | 'exact'
    random_state: None | 0 | 7 | 2**200 | np.random.RandomState(0)
    public_target,normalize,fit_intercept,clip_features,sparse_output: True | False |
        'no'
    gradient_scale,padding_scale,output_bound,max_weight_norm: 1.0 | None | 1e-20 | 1e20
    clip_norm,C,alpha,threshold,learning_rate,row_norm: 'auto' | 1.0 | 0.1 | 1e-20 |
        1e20
    clip_quantile,budget_share: 'auto' | None | 0.5 | 0.999999 | 1e-20
    public_batch_size,batch_size: None | 'auto' | 5 | 30 | 10**9 | 2.5
    learning_rate_decay,momentum,noise_decay: 0.75 | 0 | 0.999999 | 9.5 | 1e20
    max_iter,n_draws,n_jobs: 2 | None | 1 | 3 | 2.5 | '2'
    """
)
ODD, _PAIRS = BY_NAME.pop("odd"), BY_NAME.pop("pairs")
BY_NAME |= {"bounds": (*_PAIRS, "'private'", "'privat'"), "target_bounds": _PAIRS}
#: Parameters of small fits that should work, of whatever estimator has them.
SENSIBLE = {
    "bounds": "(0, 1)",
    "hidden_layer_sizes": "(4,)",
    "target_bounds": "(0, 1)",
    "solver": "NoisyGradientDescent(max_iter=2)",
}
#: Objects that are values, too, by parameter.
ALGORITHMS = {
    "solver": ("NoisyGradientDescent", "NoisySGD", "FeatureDPSGD", "OneShot"),
    "centering": ("GaussianCentering", "AdaptiveCentering"),
    "loss": ("Huber",),
    "pretraining": ("Pretraining",),
    "backend": ("NumpyBackend", "TorchBackend"),
}
#: What expressions may name.
_KNOWN = {
    **{one.__name__: one for one in (np, math, datetime, decimal, fractions)},
    **{"np": np, "pd": pd, "make_pipeline": make_pipeline},
    **{name: getattr(skfdp, name) for name in skfdp.__all__},
    **{name: getattr(schema, name) for name in schema.__all__},
    **{name: getattr(solvers, name) for name in solvers.__all__},
    "AddOrRemoveOne": AddOrRemoveOne,
    **{
        one.__name__: one
        for one in (LogisticRegression, Ridge, PoissonRegressor, GaussianNB)
        + (DummyRegressor, StandardScaler)
    },
}


def value_of(text, **names):
    """Return the value of an expression, a new one each time."""
    # Functions in an expression look names up in its globals.
    return eval(text, _KNOWN | names)
