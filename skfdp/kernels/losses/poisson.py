"""The Poisson loss: half the deviance, up to a constant, with a log link."""

from skfdp.kernels.losses import tweedie

LOSS = tweedie.with_parameter(1.0, "poisson")
