"""Losses, one a file: the compiled residual, the value, and facts about them.

A file has `LOSS`, a `loss.Loss`, under the name by which users ask for it. To add one,
write its file and put its name below; CONTRIBUTING.rst has an example. Other rooms find
them in `queries.losses`.
"""

#: Losses of linear classifiers; residuals of targets that are classes.
CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
#: Losses of linear regressors; residuals of targets that are numbers.
REGRESSION = ("squared_error", "huber", "poisson")
