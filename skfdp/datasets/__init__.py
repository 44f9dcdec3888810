"""The data set of a paper: a loader for your copy of Purchase100, and a generator."""

from skfdp.datasets._generators import load_purchase100, make_purchase100

__all__ = ["load_purchase100", "make_purchase100"]
