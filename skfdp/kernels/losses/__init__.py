"""Losses: the compiled residual, the value, and their properties.

The loss that users pass as "squared_hinge" is `SQUARED_HINGE`, a `loss.Loss`, in the
file of this name or in that of `FILE_OF`. To add a loss, write its file and add its
name below; CONTRIBUTING.rst has an example. Other packages import losses from
`queries.linear`.
"""

#: Losses of linear classifiers, whose targets are classes.
CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
#: Losses of linear regressors, whose targets are numbers.
REGRESSION = ("squared_error", "huber", "poisson", "gamma", "tweedie")
#: Those with a log link.
OF_RATES = ("poisson", "gamma", "tweedie")
#: Files of the losses that share one with another loss.
FILE_OF = {
    "squared_hinge": "hinge",
    "squared_error": "huber",
    "poisson": "tweedie",
    "gamma": "tweedie",
}
