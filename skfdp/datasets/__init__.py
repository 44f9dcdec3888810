"""Data sets: fetchers of public benchmarks and generators of synthetic ones."""

from skfdp.datasets._adult import fetch_adult
from skfdp.datasets._images import fetch_fashion_mnist, fetch_mnist
from skfdp.datasets._purchase import load_purchase100, make_purchase100
from skfdp.datasets._synthetic import make_offset_classes

__all__ = [
    "fetch_adult",
    "fetch_fashion_mnist",
    "fetch_mnist",
    "load_purchase100",
    "make_offset_classes",
    "make_purchase100",
]
