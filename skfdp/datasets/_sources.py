"""The sources of data sets: a local folder first, then OpenML."""

import os
from numbers import Integral, Number
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.utils import check_random_state

PathOrNone = str | os.PathLike[str] | None
Subset = Literal["train", "test", "all"]
SUBSETS = ("train", "test", "all")


def splits_of(subset):
    """Return the splits that `subset` asks for, training records first."""
    if not isinstance(subset, str) or subset not in SUBSETS:
        raise ValueError(
            f"subset must be 'train', 'test' or 'all', got {shown(subset)}."
        )
    return ("train", "test") if subset == "all" else (subset,)


def find_folder(name, files, data_home):
    """Return the first local folder `name` that holds all `files`, else None."""
    if data_home is not None:
        path_of("data_home", data_home)
    for root in (data_home, os.environ.get("SKFDP_DATA")):
        if root:
            folder = Path(root).expanduser() / name
            if all((folder / file).is_file() for file in files):
                return folder
    return None


def import_pandas(purpose):
    """Import pandas, an optional dependency, or name the extra that brings it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs pandas: pip install 'skfdp[cli]'."
        ) from error
    return pandas


def fetch_frame(
    openml_name, *, version, name, files, data_home, download_if_missing=True
):
    """Return an OpenML data set as a DataFrame, the target as its last column.

    Parameters
    ----------
    openml_name : str
        Name on OpenML.
    version : int
        Version on OpenML: fixed, so that the data can never change.
    name : str
        Name of the local folder, for the error.
    files : sequence of str
        Files expected in the local folder, for the error.
    data_home : str, path-like or None
        Folder of OpenML's cache.
    download_if_missing : bool, default=True
        False refuses instead of asking OpenML.

    Returns
    -------
    frame : pandas.DataFrame
        All records in OpenML's order.

    Raises
    ------
    OSError
        If OpenML may not be asked, or does not answer.
    """
    unavailable = (
        f"{openml_name} is not available: put {' and '.join(files)} into "
        f"<root>/{name}, where <root> is data_home (now {data_home!r}) or the "
        "environment variable SKFDP_DATA "
        f"(now {os.environ.get('SKFDP_DATA')!r}), or let it be downloaded from OpenML"
    )
    if not download_if_missing:
        raise OSError(f"{unavailable} (download_if_missing is False).")
    import_pandas(f"reading {openml_name} from OpenML")
    from sklearn.datasets import fetch_openml

    try:
        return fetch_openml(
            openml_name, version=version, data_home=data_home, as_frame=True
        ).frame
    except OSError as error:
        raise OSError(f"{unavailable} ({error}).") from error


def check_count(name, value):
    """Raise ValueError unless a value is an integer of at least 2."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 2:
        raise ValueError(
            f"{name} must be an integer of at least 2, got {shown(value)}."
        )


def check_flag(name, value):
    """Raise ValueError unless a value is True or False, in any spelling."""
    if not isinstance(value, Number | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")


def shown(value):
    """Return a value for a message: a number or a short text, else its type."""
    plain = value is None or isinstance(value, Number | str)
    text = repr(value) if plain else ""
    return text if 0 < len(text) < 80 else f"a {type(value).__name__}"


def path_of(name, value):
    """Return a path; TypeError or ValueError for what is none."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}={shown(value)} must be the path of a file or folder.")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} holds a null character: give another path.")
    return Path(value).expanduser()


def generator_of(random_state):
    """Return scikit-learn's generator of a seed."""
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    # A timedelta calls itself an integer.
    odd = isinstance(random_state, np.timedelta64)
    if odd or (whole and not 0 <= random_state < 2**32):
        raise ValueError(
            f"random_state={shown(random_state)} must be None, a RandomState or an "
            "integer from 0 on below 2**32."
        )
    return check_random_state(random_state)
