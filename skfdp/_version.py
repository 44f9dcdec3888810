"""Version of the package, defined only here; ``setup.py`` reads it from this text."""

__version__ = "0.1.0"
