"""``skfdp`` and ``python -m skfdp``: fit, predict and report from a shell."""

import sys


def main() -> int:
    """Run the command line, and return the exit status."""
    try:
        from skfdp.cli import main as run
    except KeyboardInterrupt:  # during the imports, which take a second
        print("skfdp: interrupted before it began.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    raise SystemExit(main())
