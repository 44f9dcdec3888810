"""Public names of modules, the modules of wings, and the version in saved models.

The ``__module__`` of a public object is the module from which users import it
(``skfdp``, ``skfdp.privacy`` or ``skfdp.audit``), not the module of its file.
Tracebacks, documentation links, pickles and skops files then show the public name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from skfdp._version import __version__

_Named = TypeVar("_Named", bound=Callable[..., Any])


def public(module: str) -> Callable[[_Named], _Named]:
    """Return a decorator that sets `__module__`; use it as the outermost decorator.

    Parameters
    ----------
    module : str
        The module from which users import the object.
    """

    def addressed(item: _Named) -> _Named:
        # doctest skips an object with another __module__ unless __test__ lists it.
        tested = sys.modules[item.__module__].__dict__.setdefault("__test__", {})
        tested[item.__name__] = item
        # Set last, because the dataclass decorator looks up annotations in __module__.
        item.__module__ = module
        return item

    return addressed


#: The modules of the wings, by name; `skfdp/__init__.py` registers them.
WINGS: dict[str, str] = {}


def wing(name: str) -> ModuleType:
    """Return the module of a wing, which the core never imports by itself."""
    return import_module(WINGS[name])


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


class Versioned:
    """Mixin of estimators: only the same minor version can load a saved estimator.

    Private attributes may change between minor versions. Another version could
    therefore load an estimator without an error, and predict wrongly.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_skfdp_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop("_skfdp_version", __version__)
        if _minor(version) != _minor(__version__):
            raise ValueError(
                f"{type(self).__name__} was saved by skfdp {version}, which skfdp "
                f"{__version__} cannot read: load it with skfdp "
                f"{'.'.join(_minor(version))}, or fit it again."
            )
        super().__setstate__(state)  # type: ignore[misc]
