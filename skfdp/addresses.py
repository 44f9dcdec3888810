"""Public module names of classes and functions.

The ``__module__`` of a public object is the module from which users import it
(``skfdp``, ``skfdp.privacy`` or ``skfdp.audit``), not the module of its file.
Tracebacks, documentation links, pickles and skops files then show the public name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

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
