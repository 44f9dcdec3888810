"""Replays: fits that are repeated on neighbours with frozen releases."""
