"""Adult, also known as Census Income."""

import zlib

from sklearn.utils import Bunch

from skfdp.datasets._sources import (
    PathOrNone,
    Subset,
    check_flag,
    fetch_frame,
    find_folder,
    import_pandas,
    splits_of,
)

FILES = {"train": "adult.data.gz", "test": "adult.test.gz"}
N_TRAIN, N_TEST = 32_561, 16_281
FIRST_TRAIN_FNLWGT = 77_516
TARGET = "income"
TARGET_NAMES = ["<=50K", ">50K"]

# The names and values, in the order of UCI's documentation of the data set, which
# is public: nothing here was learnt from the records. "?" marks an unknown value in
# the three columns of which UCI says that values are missing.
# fmt: off
CATEGORIES = {
    "workclass": [
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov",
        "State-gov", "Without-pay", "Never-worked", "?",
    ],
    "education": [
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm",
        "Assoc-voc", "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th",
        "Doctorate", "5th-6th", "Preschool",
    ],
    "marital-status": [
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse",
    ],
    "occupation": [
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
        "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
        "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
        "Armed-Forces", "?",
    ],
    "relationship": [
        "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried",
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
        "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?",
    ],
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

DESCR = """\
Adult (Census Income): does a person earn more than 50,000 dollars a year?

48,842 persons of the census survey of 1994 in the United States, 32,561 of them for
training: six numeric columns (bounds) and eight categorical ones (categories).
Unknown values are the category "?". fnlwgt is a sampling weight, which says little
about the person.

Reference: B. Becker, R. Kohavi, "Adult", UCI Machine Learning Repository, 1996,
doi:10.24432/C5XW20.
"""


def fetch_adult(
    *,
    data_home: PathOrNone = None,
    subset: Subset = "train",
    return_X_y: bool = False,
    download_if_missing: bool = True,
) -> Bunch | tuple:
    """Load Adult, incomes above or below 50,000 dollars (classification).

    =================   ============================
    Classes                                        2
    Samples total       32,561 train and 16,281 test
    Columns             6 numeric and 8 categorical
    =================   ============================

    Differential privacy needs bounds and categories that are not learnt from
    private records; `bounds` and `categories` are declared here, from what is
    published about the data set.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``adult/adult.data.gz`` and ``adult/adult.test.gz``. Where
        they are missing, the folder named by the environment variable
        ``SKFDP_DATA`` is tried, then OpenML, whose cache goes to `data_home` as in
        :func:`sklearn.datasets.fetch_openml`.
    subset : {"train", "test", "all"}, default="train"
        The records to load; "all" puts the training records first.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    download_if_missing : bool, default=True
        If False, raise an OSError where the files are not found locally.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes:

        data : DataFrame of shape (n_samples, 14)
            Integers and strings under UCI's column names ("education-num"). A
            missing value is the category "?", as in UCI's files.
        target : Series of shape (n_samples,)
            "<=50K" or ">50K", named "income".
        frame : DataFrame of shape (n_samples, 15)
            `data` and `target`.
        feature_names : list of str
            The names of the columns of `data`.
        target_names : list of str
            ``["<=50K", ">50K"]``.
        categories : dict of str to list of str
            The published values of each categorical column.
        bounds : dict of str to tuple of (int, int)
            The declared bounds of each numeric column.
        DESCR : str
            Description of the data set.
    (data, target) : tuple if `return_X_y` is True

    Examples
    --------
    >>> from skfdp.datasets import fetch_adult
    >>> adult = fetch_adult()  # doctest: +SKIP
    >>> adult.data.shape  # doctest: +SKIP
    (32561, 14)
    >>> adult.bounds["age"]  # doctest: +SKIP
    (17, 90)
    """
    pd = import_pandas("fetch_adult")
    check_flag("return_X_y", return_X_y)
    splits = splits_of(subset)
    files = [FILES[split] for split in splits]
    folder = find_folder("adult", files, data_home)
    if folder is not None:
        parts = [_read_csv(pd, folder / file) for file in files]
    else:
        frame = fetch_frame(
            "adult",
            version=2,
            name="adult",
            files=files,
            data_home=data_home,
            download_if_missing=download_if_missing,
        )
        parts = [_from_openml(frame, split) for split in splits]
    frame = pd.concat(parts, ignore_index=True)
    data, target = frame[FEATURE_NAMES], frame[TARGET]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(FEATURE_NAMES),
        target_names=list(TARGET_NAMES),
        categories={name: list(values) for name, values in CATEGORIES.items()},
        bounds=dict(BOUNDS),
        DESCR=DESCR,
    )


def _read_csv(pd, path):
    frame = None
    try:
        frame = pd.read_csv(
            path,
            names=[*FEATURE_NAMES, TARGET],
            dtype=dict.fromkeys(BOUNDS, "int64"),
            skipinitialspace=True,
            na_filter=False,
            comment="|",  # the first line of adult.test is a remark
        )
        # adult.test ends its labels with a dot.
        frame[TARGET] = frame[TARGET].str.rstrip(".")
    except (ArithmeticError, AttributeError, EOFError, OSError, ValueError, zlib.error):
        frame = None  # raised outside: messages of pandas quote the file
    if frame is None or frame.empty:
        raise ValueError(f"{path} is not the whole file of Adult: download it again.")
    return frame


def _from_openml(frame, split):
    # OpenML concatenates UCI's two files; the first record tells which comes first.
    train_first = int(frame["fnlwgt"].iloc[0]) == FIRST_TRAIN_FNLWGT
    n_first = N_TRAIN if train_first else N_TEST
    is_first = (split == "train") == train_first
    frame = frame.iloc[:n_first] if is_first else frame.iloc[n_first:]
    frame = frame.rename(columns={"class": TARGET})
    # It also has missing values in the place of "?".
    numeric = frame[list(BOUNDS)].astype("int64")
    strings = frame[[*CATEGORIES, TARGET]].astype(object).fillna("?").astype(str)
    return numeric.join(strings)[[*FEATURE_NAMES, TARGET]]
