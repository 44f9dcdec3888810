"""Audits of whole fits in one run."""
