"""Classifiers of private columns that are completed from public ones."""
