"""Losses, one per file: the compiled residual, the value, and their properties.

A file has the name that users pass for the loss, and defines `LOSS`, a `loss.Loss`. To
add a loss, write its file and add its name below; CONTRIBUTING.rst has an example.
Other packages import losses from `queries.linear`.
"""

#: Losses of linear classifiers, whose targets are classes.
CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
#: Losses of linear regressors, whose targets are numbers.
REGRESSION = ("squared_error", "huber", "poisson", "gamma", "tweedie")
#: Those with a log link.
OF_RATES = ("poisson", "gamma", "tweedie")
