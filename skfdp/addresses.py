"""The names by which saved files find classes and functions.

A pickle, a joblib and a skops file name everything in them by module and name. What is
decorated by `public` is named by its public address (``skfdp``, ``skfdp.privacy``,
``skfdp.audit`` or ``skfdp.cli``), so that it can move from file to file; the module of
the address exports it. Files of earlier versions name the file that it was in: `OLD`
serves them.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

_Named = TypeVar("_Named", bound=Callable[..., Any])

#: Names in files of earlier versions, the oldest first, and the addresses of today.
#: Nothing is ever deleted here; where something is renamed, its address changes.
OLD = {
    "skfdp.cli.encoding.as_numbers": "skfdp.cli.as_numbers",
    "skfdp.cli.encoding.as_text": "skfdp.cli.as_text",
    "skfdp.cli.encoding.category_name": "skfdp.cli.category_name",
    "skfdp.completion.PrivateCompletionClassifier": "skfdp.PrivateCompletionClassifier",
    "skfdp.linear_model.dpsgd_f.DPSGDFClassifier": "skfdp.DPSGDFClassifier",
    "skfdp.linear_model.feature_dp.FeatureDPLogisticRegression": (
        "skfdp.FeatureDPLogisticRegression"
    ),
    "skfdp.linear_model.glm.DPSGDFRegressor": "skfdp.DPSGDFRegressor",
    "skfdp.linear_model.glm.FeatureDPRegressor": "skfdp.FeatureDPRegressor",
    "skfdp.linear_model.public_model.PublicModel": "skfdp.PublicModel",
    "skfdp.linear_model.target.TargetMap": "skfdp.TargetMap",
    "skfdp.model_selection.PrivateSearchCV": "skfdp.PrivateSearchCV",
    "skfdp.neural_network.FeatureDPMLPClassifier": "skfdp.FeatureDPMLPClassifier",
    "skfdp.preprocessing.PrivateCenteringTransformer": (
        "skfdp.PrivateCenteringTransformer"
    ),
    "skfdp.privacy.curves.GaussianCurve": "skfdp.privacy.GaussianCurve",
    "skfdp.privacy.curves.PLDCurve": "skfdp.privacy.PLDCurve",
    "skfdp.privacy.disclosure.Assumption": "skfdp.privacy.Assumption",
    "skfdp.privacy.disclosure.Audit": "skfdp.privacy.Audit",
    "skfdp.privacy.disclosure.PrivacyReport": "skfdp.privacy.PrivacyReport",
    "skfdp.privacy.events.Event": "skfdp.privacy.Event",
    "skfdp.privacy.events.Nameless": "skfdp.privacy.Nameless",
    "skfdp.privacy.ledger.PrivacyLedger": "skfdp.privacy.PrivacyLedger",
    "skfdp.privacy.ledger.WhatIf": "skfdp.privacy.WhatIf",
    "skfdp.privacy.parts.Part": "skfdp.privacy.Part",
    "skfdp.privacy.plan.PrivacyPlan": "skfdp.privacy.PrivacyPlan",
    "skfdp.privacy.public_sets.Promise": "skfdp.privacy.Promise",
    "skfdp.privacy.selection.Selection": "skfdp.privacy.Selection",
    "skfdp.privacy.selection.SelectionCurve": "skfdp.privacy.SelectionCurve",
    "skfdp.privacy.store.LedgerEntry": "skfdp.privacy.LedgerEntry",
    "skfdp.privacy.store.Receipt": "skfdp.privacy.Receipt",
    "skfdp.rows.RowMap": "skfdp.RowMap",
    # What scripts of before import.
    "skfdp.linear_model.DPSGDFClassifier": "skfdp.DPSGDFClassifier",
    "skfdp.linear_model.DPSGDFRegressor": "skfdp.DPSGDFRegressor",
    "skfdp.linear_model.FeatureDPLogisticRegression": (
        "skfdp.FeatureDPLogisticRegression"
    ),
    "skfdp.linear_model.FeatureDPRegressor": "skfdp.FeatureDPRegressor",
}


def public(module: str) -> Callable[[_Named], _Named]:
    """Decorate a class or function that saved files name, as the outermost decorator.

    Parameters
    ----------
    module : str
        Its public address, which must export it.
    """

    def addressed(item: _Named) -> _Named:
        # doctest looks into what has the name of its module, and into what is here.
        tested = sys.modules[item.__module__].__dict__.setdefault("__test__", {})
        tested[item.__name__] = item
        # Not in the body of a class: dataclass resolves annotations in this module.
        item.__module__ = module
        return item

    return addressed


def find(address: str) -> Any:
    """Return what an address, or a name of an earlier version, stands for."""
    module, _, name = address.rpartition(".")
    return getattr(importlib.import_module(module), name)


class _OldModules:
    """Finder and loader of modules that are gone, for those who load their names."""

    modules = frozenset(
        name.rsplit(".", depth)[0]
        for name in OLD
        for depth in range(1, name.count("."))  # the file and its folders
    )

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to make the module, None if there never was one."""
        if name not in self.modules:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Let the module have the names of earlier versions, and no others."""

        def served(name: str) -> Any:
            old = f"{module.__name__}.{name}"
            if old in OLD:
                return find(OLD[old])
            raise AttributeError(
                f"module {module.__name__!r} has no attribute {name!r}"
            )

        module.__getattr__ = served  # type: ignore[method-assign]


def serve_old_names() -> None:
    """Let Python find modules of earlier versions, after all that exist."""
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.append(_OldModules())
