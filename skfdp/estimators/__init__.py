"""The estimators: parameters, methods, predictions."""
