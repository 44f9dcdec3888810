"""Private scores of models: tables of predictions, their metrics and intervals."""
