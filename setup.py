"""Packaging metadata of skfdp; the tools are configured in pyproject.toml."""

import gzip
import os
import re
import tarfile
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent


def read_version():
    """Read the version as text: importing skfdp would need its dependencies."""
    text = (HERE / "skfdp" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE).group(1)


class Sdist(sdist):
    """Write equal sources as equal bytes if SOURCE_DATE_EPOCH is set."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, **owners):
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, **owners)
        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for file in sorted(Path(base_dir).rglob("*")):
                entry = tar.gettarinfo(file, file.as_posix())
                runs = entry.isdir() or entry.mode & 0o100
                entry.mode, entry.mtime = 0o755 if runs else 0o644, int(epoch)
                entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
                if entry.isfile():
                    with file.open("rb") as content:
                        tar.addfile(entry, content)
                else:
                    tar.addfile(entry)
        return path


# The lower ends of all ranges are also in .ci/oldest.txt, and tested.
EXTRAS = {
    "cli": ["pandas>=2.2.2", "skops>=0.13"],
    "torch": ["torch>=2.6"],
    "plot": ["matplotlib>=3.9"],
    "progress": ["rich>=13"],
    "parquet": ["pyarrow>=16.1"],
    "onnx": ["skl2onnx>=1.20", "onnxruntime>=1.20"],
    "dask": ["dask[array,dataframe]", "dask>=2026.8", "distributed>=2026.8"],
}
EXTRAS["test"] = [
    "pytest>=8.3",
    "pytest-xdist>=3.6.1",
    "hypothesis>=6.100",
    "jsonschema>=4.23",
    "polars>=1.9",
    "z3-solver>=4.13",
    *EXTRAS["cli"],
    *EXTRAS["plot"],
    *EXTRAS["progress"],
    *EXTRAS["parquet"],
]
# Each minor release of ruff may format differently.
EXTRAS["lint"] = [
    "ruff==0.17.*",
    "mypy>=1.13",
    "codespell>=2.4",
    "import-linter>=2.17",
    "pre-commit>=4.0",
]
EXTRAS["docs"] = [
    "sphinx>=9.0",
    # Reads formulas as MathML by the function that docs/_extensions uses.
    "docutils>=0.22",
    "numpydoc>=1.8",
    "pydata-sphinx-theme>=0.24",
    "sphinx-copybutton>=0.5.2",
    "sphinx-design>=0.8",
    "sphinx-gallery>=0.18",
    # For builds that are published: docs/conf.py says when.
    "sphinx-sitemap>=2.9",
    "sphinxext-opengraph>=0.13",
    *EXTRAS["cli"],
    *EXTRAS["plot"],
]
EXTRAS["bench"] = ["asv>=0.6.4", "opacus>=1.5", *EXTRAS["cli"], *EXTRAS["torch"]]

setup(
    name="skfdp",
    version=read_version(),
    description=(
        "scikit-learn compatible differentially private learning where part of "
        "each record may be public"
    ),
    long_description=(HERE / "README.rst").read_text(encoding="utf-8"),
    long_description_content_type="text/x-rst",
    author="The skfdp developers",
    license_expression="BSD-3-Clause",
    license_files=["LICENSE"],
    keywords="differential privacy, machine learning, scikit-learn, DP-SGD, label-DP",
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=["skfdp", "skfdp.*"]),
    package_data={"skfdp": ["py.typed", "privacy/report.schema.json"]},
    install_requires=[
        "scikit-learn>=1.6",
        "numpy>=2.0",
        # 1.13 fails on eigenvalues of no columns.
        "scipy>=1.14",
        "numba>=0.61",
        # 0.7 may fix or move the traps that skfdp.privacy fences off.
        "dp-accounting>=0.6,<0.7",
        "randomgen>=2.3",
        "joblib>=1.4",
        "threadpoolctl>=3.1",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["skfdp = skfdp.__main__:main"]},
    # numba caches compiled kernels beside the sources, which a zip cannot hold.
    zip_safe=False,
    cmdclass={"sdist": Sdist},
)
