"""Experimental features, which may change or be removed in any version.

Their privacy guarantees hold in full. Names, parameters, defaults and results may
change without notice. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skfdp.experimental.search import PrivateSearchCV

__all__ = ["PrivateSearchCV"]


def __getattr__(name: str) -> Any:
    if name == "PrivateSearchCV":
        from skfdp.experimental.search import PrivateSearchCV

        return PrivateSearchCV
    raise AttributeError(f"module 'skfdp.experimental' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
