"""Made-up tables, targets and parameters, for fuzzing."""
