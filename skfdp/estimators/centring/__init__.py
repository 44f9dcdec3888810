"""Centring by released means."""
