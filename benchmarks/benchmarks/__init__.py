"""The asv suite; ``asv run --python=same --quick`` from the folder above runs it."""
