"""The compiled update of the weights: one pass, whatever their number."""

from skfdp.compiling import kernel


@kernel()
def descend(theta, velocity, gradient, momentum, rate):
    """Velocity = momentum * velocity + gradient; gradient = theta - rate * velocity.

    All flat float64 arrays of one size.
    """
    for i in range(theta.size):
        velocity[i] = momentum * velocity[i] + gradient[i]
        gradient[i] = theta[i] - rate * velocity[i]
