"""MNIST, Fashion-MNIST and Adult, from files of SKFDP_DATA or from OpenML."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

N_IMAGES = 60_000
N_ADULT = {"train": 32_561, "test": 16_281}
FIRST_TRAIN_FNLWGT = 77_516
TARGET = "income"

# The names and values, in the order of UCI's documentation of the data set, which
# is public: nothing here was learnt from the records. "?" marks an unknown value in
# the three columns of which UCI says that values are missing.
# fmt: off
CATEGORIES = {
    "workclass": [
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov",
        "State-gov", "Without-pay", "Never-worked", "?"
    ],
    "education": [
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm",
        "Assoc-voc", "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th",
        "Doctorate", "5th-6th", "Preschool"
    ],
    "marital-status": [
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse"
    ],
    "occupation": [
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
        "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
        "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
        "Armed-Forces", "?"
    ],
    "relationship": [
        "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"
    ],
    "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
    "sex": ["Female", "Male"],
    "native-country": [
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China",
        "Cuba", "Iran", "Honduras", "Philippines", "Italy", "Poland", "Jamaica",
        "Vietnam", "Mexico", "Portugal", "Ireland", "France", "Dominican-Republic",
        "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala",
        "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador",
        "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?"
    ]
}
# fmt: on

# Declared, not learnt. UCI's documentation gives the extraction rule (age above 16,
# at least one hour a week); 90 years, 99,999 dollars and 99 hours are the survey's
# top codes; education-num numbers the 16 levels of education. fnlwgt, a sampling
# weight, and capital-loss have no published limit: theirs are round plausible
# numbers, and an estimator clips to them.
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}

FEATURE_NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
]


def load_images(name: str, subset: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images of 784 pixels from 0 to 255, and their labels; "train" or "test".

    `name` is "mnist" or "fashion-mnist".
    """
    prefix = {"train": "train", "test": "t10k"}[subset]
    files = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
    folder = _folder(name, files)
    if folder is not None:
        images, labels = (
            np.frombuffer(bytearray(gzip.decompress(path.read_bytes())), np.uint8)
            for path in map(folder.joinpath, files)
        )
        return images[16:].reshape(-1, 784), labels[8:].astype(np.int64)
    known = {"mnist": "mnist_784", "fashion-mnist": "Fashion-MNIST"}
    frame = fetch_openml(known[name], version=1, as_frame=True).frame
    part = slice(N_IMAGES) if subset == "train" else slice(N_IMAGES, None)
    X, y = frame.iloc[part, :-1], frame.iloc[part, -1]
    return X.to_numpy(dtype=np.uint8), y.astype(np.int64).to_numpy()


def load_adult(subset: str) -> Bunch:
    """Return Adult, with bounds and categories that are declared; "train" or "test".

    `data` is a frame with UCI's names, `target` a series of "<=50K" and ">50K";
    `bounds` and `categories` are dicts by column.
    """
    file = {"train": "adult.data.gz", "test": "adult.test.gz"}[subset]
    folder = _folder("adult", [file])
    if folder is not None:
        frame = pd.read_csv(
            folder / file,
            names=[*FEATURE_NAMES, TARGET],
            dtype=dict.fromkeys(BOUNDS, "int64"),
            skipinitialspace=True,
            na_filter=False,
            comment="|",  # the first line of adult.test is a remark
        )
        # adult.test ends its labels with a dot.
        frame[TARGET] = frame[TARGET].str.rstrip(".")
    else:
        frame = _adult_from_openml(subset)
    data, target = frame[FEATURE_NAMES], frame[TARGET]
    return Bunch(data=data, target=target, bounds=BOUNDS, categories=CATEGORIES)


def _folder(name: str, files) -> Path | None:
    """Return the local folder of a data set, None where it lacks a file."""
    root = os.environ.get("SKFDP_DATA")
    folder = Path(root or ".").expanduser() / name
    whole = root and all((folder / file).is_file() for file in files)
    return folder if whole else None


def _adult_from_openml(subset: str) -> pd.DataFrame:
    frame = fetch_openml("adult", version=2, as_frame=True).frame
    # OpenML joins UCI's two files; the first record tells which comes first.
    train_first = int(frame["fnlwgt"].iloc[0]) == FIRST_TRAIN_FNLWGT
    n_first = N_ADULT["train" if train_first else "test"]
    is_first = (subset == "train") == train_first
    frame = frame.iloc[:n_first] if is_first else frame.iloc[n_first:]
    frame = frame.rename(columns={"class": TARGET}).reset_index(drop=True)
    # It also has missing values in the place of "?".
    numeric = frame[list(BOUNDS)].astype("int64")
    strings = frame[[*CATEGORIES, TARGET]].astype(object).fillna("?").astype(str)
    return numeric.join(strings)
