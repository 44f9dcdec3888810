"""MNIST and Fashion-MNIST."""

import gzip
import math
import zlib

import numpy as np
from sklearn.utils import Bunch

from skfdp.datasets._sources import (
    PathOrNone,
    Subset,
    check_flag,
    fetch_frame,
    find_folder,
    splits_of,
)

N_TRAIN = 60_000
SHAPE = (28, 28)
PREFIXES = {"train": "train", "test": "t10k"}
UNSIGNED_BYTE = 0x08

CLOTHES = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]

MNIST_DESCR = """\
MNIST: 60,000 training and 10,000 test images of handwritten digits.

Each image has 28 x 28 pixels with grey levels from 0 (background) to 255; the
target is the digit.

Reference: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning
applied to document recognition", Proceedings of the IEEE 86(11), 1998.
"""

FASHION_MNIST_DESCR = """\
Fashion-MNIST: 60,000 training and 10,000 test images of articles of clothing.

Each image has 28 x 28 pixels with grey levels from 0 (background) to 255; the
target is one of ten kinds of article, named in target_names.

Reference: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset
for benchmarking machine learning algorithms", arXiv:1708.07747, 2017.
"""
# Name on OpenML, names of the classes and description, by the name of the folder.
SETS = {
    "mnist": ("mnist_784", [str(digit) for digit in range(10)], MNIST_DESCR),
    "fashion-mnist": ("Fashion-MNIST", CLOTHES, FASHION_MNIST_DESCR),
}


def fetch_mnist(
    *,
    data_home: PathOrNone = None,
    subset: Subset = "train",
    return_X_y: bool = False,
    download_if_missing: bool = True,
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load MNIST, handwritten digits (classification).

    =================   ============================
    Classes                                       10
    Samples total       60,000 train and 10,000 test
    Dimensionality                               784
    Features            integers from 0 to 255
    =================   ============================

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``mnist/train-images-idx3-ubyte.gz`` and its three
        companions. Where they are missing, the folder named by the environment
        variable ``SKFDP_DATA`` is tried, then OpenML (which needs pandas), whose
        cache goes to `data_home` as in :func:`sklearn.datasets.fetch_openml`.
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

        data : ndarray of shape (n_samples, 784), dtype uint8
            The images, row by row.
        target : ndarray of shape (n_samples,), dtype int64
            The digits.
        feature_names : list of str
            "pixel1" to "pixel784", as on OpenML.
        target_names : list of str
            "0" to "9".
        DESCR : str
            Description of the data set.
    (data, target) : tuple if `return_X_y` is True

    Examples
    --------
    >>> from skfdp.datasets import fetch_mnist
    >>> X, y = fetch_mnist(return_X_y=True)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (60000, 784)
    """
    return _fetch_images("mnist", data_home, subset, return_X_y, download_if_missing)


def fetch_fashion_mnist(
    *,
    data_home: PathOrNone = None,
    subset: Subset = "train",
    return_X_y: bool = False,
    download_if_missing: bool = True,
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load Fashion-MNIST, images of clothes (classification).

    =================   ============================
    Classes                                       10
    Samples total       60,000 train and 10,000 test
    Dimensionality                               784
    Features            integers from 0 to 255
    =================   ============================

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``fashion-mnist/train-images-idx3-ubyte.gz`` and its
        three companions. Where they are missing, the folder named by the
        environment variable ``SKFDP_DATA`` is tried, then OpenML (which needs
        pandas), whose cache goes to `data_home` as in
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

        data : ndarray of shape (n_samples, 784), dtype uint8
            The images, row by row.
        target : ndarray of shape (n_samples,), dtype int64
            Indices into `target_names`.
        feature_names : list of str
            "pixel1" to "pixel784", as on OpenML.
        target_names : list of str
            "T-shirt/top" to "Ankle boot".
        DESCR : str
            Description of the data set.
    (data, target) : tuple if `return_X_y` is True

    Examples
    --------
    >>> from skfdp.datasets import fetch_fashion_mnist
    >>> clothes = fetch_fashion_mnist(subset="test")  # doctest: +SKIP
    >>> clothes.target_names[clothes.target[0]]  # doctest: +SKIP
    'Ankle boot'
    """
    name = "fashion-mnist"
    return _fetch_images(name, data_home, subset, return_X_y, download_if_missing)


def _fetch_images(name, data_home, subset, return_X_y, download_if_missing):
    openml_name, target_names, descr = SETS[name]
    check_flag("return_X_y", return_X_y)
    splits = splits_of(subset)
    files = [file for split in splits for file in _files(split)]
    folder = find_folder(name, files, data_home)
    if folder is not None:
        data, target = _read_folder(folder, splits)
    else:
        frame = fetch_frame(
            openml_name,
            version=1,
            name=name,
            files=files,
            data_home=data_home,
            download_if_missing=download_if_missing,
        )
        data, target = _from_openml(frame, subset)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=[f"pixel{i}" for i in range(1, data.shape[1] + 1)],
        target_names=list(target_names),
        DESCR=descr,
    )


def _files(split):
    prefix = PREFIXES[split]
    return f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"


def _read_folder(folder, splits):
    data, target = [], []
    for split in splits:
        images, labels = (read_idx(folder / file) for file in _files(split))
        if images.shape[1:] != SHAPE or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{folder} must hold 28 x 28 images with one label each, got arrays "
                f"of shapes {images.shape} and {labels.shape}; download it again."
            )
        data.append(images.reshape(-1, math.prod(SHAPE)))
        target.append(labels.astype(np.int64))
    # concatenate would copy a single split for nothing.
    if len(splits) == 1:
        return data[0], target[0]
    return np.concatenate(data), np.concatenate(target)


def _from_openml(frame, subset):
    rows = {"train": slice(N_TRAIN), "test": slice(N_TRAIN, None), "all": slice(None)}
    frame = frame.iloc[rows[subset]]
    data = frame.iloc[:, :-1].to_numpy(dtype=np.uint8)
    # OpenML's labels are categories of strings.
    return data, frame.iloc[:, -1].astype(np.int64).to_numpy()


def read_idx(path):
    """Read a gzipped IDX file of unsigned bytes.

    Parameters
    ----------
    path : path-like
        A file in the format of the MNIST distribution: two zero bytes, the type
        of the values, the number of dimensions, the dimensions as big-endian
        32-bit integers, the values.

    Returns
    -------
    values : ndarray of uint8
    """
    try:
        with gzip.open(path) as file:
            # A bytearray makes the array writable without another copy.
            content = bytearray(file.read())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a whole gzip file ({error}); download it again."
        ) from error
    if len(content) < 4 or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise ValueError(
            f"{path} is not an IDX file of unsigned bytes: it starts with "
            f"{bytes(content[:4])!r}; download it again."
        )
    start = 4 + 4 * content[3]
    if len(content) >= start:
        shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
        if len(content) - start == math.prod(shape):
            values = np.frombuffer(content, dtype=np.uint8, offset=start)
            return values.reshape(shape)
    raise ValueError(
        f"{path} has {len(content)} bytes, not as many as its header announces; "
        "download it again."
    )
