"""The release function, noise, sampling, gradient descent and checkpoints.

Private sums are released only by this package.
"""
