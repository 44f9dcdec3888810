"""``python -m skfdp``: train on a CSV file, or on data bundled with scikit-learn."""

from skfdp.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
