"""The names by which tracebacks, documentation, pickles and skops files find things.

What users import has the name by which they import it (``skfdp``, ``skfdp.privacy`` or
``skfdp.audit``), whatever file it is in: pages of the documentation link to it, and
whoever loads a skops file recognises what it names. doctest and Sphinx look into what
has the name of its module, so that its own file must list it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

_Named = TypeVar("_Named", bound=Callable[..., Any])


def public(module: str) -> Callable[[_Named], _Named]:
    """Decorate a class or function that a module exports, as the outermost decorator.

    Parameters
    ----------
    module : str
        Where users import it from.
    """

    def addressed(item: _Named) -> _Named:
        # doctest looks into what has the name of its module, and into what is here.
        tested = sys.modules[item.__module__].__dict__.setdefault("__test__", {})
        tested[item.__name__] = item
        # Not in the body of a class: dataclass resolves annotations in this module.
        item.__module__ = module
        return item

    return addressed
