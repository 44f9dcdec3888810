"""Data sets: fetchers of public benchmarks and generators of synthetic ones."""

from ._adult import fetch_adult
from ._images import fetch_fashion_mnist, fetch_mnist
from ._synthetic import make_offset_classes

__all__ = [
    "fetch_adult",
    "fetch_fashion_mnist",
    "fetch_mnist",
    "make_offset_classes",
]
