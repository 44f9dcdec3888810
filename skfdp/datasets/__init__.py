"""Data sets of two papers: generators, and a loader for your copy of Purchase100."""

from skfdp.datasets._generators import (
    load_purchase100,
    make_offset_classes,
    make_purchase100,
)

__all__ = ["load_purchase100", "make_offset_classes", "make_purchase100"]
