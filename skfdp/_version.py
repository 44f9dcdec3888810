"""The version: the one place, read as text by ``setup.py``."""

__version__ = "0.1.0"
