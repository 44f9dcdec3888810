"""The release function, noise, sampling, descent and checkpoints.

Private sums leave the package only here.
"""
