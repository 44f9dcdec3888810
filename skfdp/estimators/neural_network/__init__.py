"""Networks whose hidden layers learn from public parts or by noisy releases."""
