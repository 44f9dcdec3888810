"""The compiled update of the weights: one pass, whatever their number."""

from skfdp.kernels.compiling import kernel


@kernel()
def descend(theta, velocity, gradient, momentum, rate):
    """Velocity = momentum * velocity + gradient; gradient = theta - rate * velocity.

    All flat float64 arrays of one size.
    """
    for i in range(theta.size):
        velocity[i] = momentum * velocity[i] + gradient[i]
        gradient[i] = theta[i] - rate * velocity[i]


@kernel()
def descend_implicitly(theta, velocity, gradient, momentum, rates, curvature):
    """Do so along gradient + curvature * (the next theta), which is found first.

    All flat float64 arrays of one size.
    """
    for i in range(theta.size):
        pull = momentum * velocity[i] + gradient[i]
        kept = 1.0 / (1.0 + rates[i] * curvature[i])
        velocity[i] = (pull + curvature[i] * theta[i]) * kept
        gradient[i] = (theta[i] - rates[i] * pull) * kept
