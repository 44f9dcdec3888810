"""Public module names of classes and functions, and the version in saved models.

The ``__module__`` of a public object is the module from which users import it
(``skfdp``, ``skfdp.privacy`` or ``skfdp.audit``), not the module of its file.
Tracebacks, documentation links, pickles and skops files then show the public name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from skfdp._version import __version__

_Named = TypeVar("_Named", bound=Callable[..., Any])


def public(module: str) -> Callable[[_Named], _Named]:
    """Return a decorator that sets the public module; use it as the outermost one.

    Parameters
    ----------
    module : str
        The module from which users import the object.
    """

    def addressed(item: _Named) -> _Named:
        # doctest skips objects of other modules unless they are listed in __test__.
        tested = sys.modules[item.__module__].__dict__.setdefault("__test__", {})
        tested[item.__name__] = item
        # Set after the class is built, because dataclass resolves annotations by it.
        item.__module__ = module
        return item

    return addressed


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


class Versioned:
    """Mixin of estimators: a saved one is read by the same minor version only.

    Attributes without a public name may change between minor versions. Reading them as
    if they had not could give wrong predictions without an error.
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
