"""Linear classifiers and regressors with differential privacy."""
