"""What users construct: parameters, training, predictions."""
