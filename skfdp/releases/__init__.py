"""The only way out for a private sum: coins, noise, the release, the descent."""
