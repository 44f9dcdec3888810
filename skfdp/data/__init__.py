"""Tables, their columns, targets and privacy units; adapters for files."""
