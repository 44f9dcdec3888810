"""Canaries at the desk: what releases tell of a record that moves them most."""
