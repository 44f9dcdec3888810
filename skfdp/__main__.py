"""``python -m skfdp``: train on a CSV file, or on data bundled with scikit-learn."""

import sys


def _main() -> int:
    try:
        from skfdp.cli import main
    except KeyboardInterrupt:  # the imports take a second
        print("python -m skfdp: interrupted before it began.", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    raise SystemExit(_main())
