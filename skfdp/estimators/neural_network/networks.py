"""ReLU networks without any privacy: starting points, synthetic rows, margins."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from skfdp.records.row_map import RowMap

_BATCH = 200
_ROWS_OF_A_CALL = 4096


@dataclasses.dataclass(frozen=True)
class Network:
    """Weights of a ReLU network in scikit-learn's layout.

    Attributes
    ----------
    coefs : list of ndarray of shape (inputs, outputs)
    intercepts : list of ndarray of shape (outputs,)
    """

    coefs: list
    intercepts: list

    def hidden(self, rows: np.ndarray) -> np.ndarray:
        """Return the activations of the last hidden layer, float64."""
        for coef, intercept in zip(self.coefs[:-1], self.intercepts[:-1], strict=True):
            rows = np.maximum(rows @ coef + intercept, 0.0)
        return rows

    def margins(self, rows: np.ndarray) -> np.ndarray:
        """Return the margins, shape (n_rows, n_outputs)."""
        return self.hidden(rows) @ self.coefs[-1] + self.intercepts[-1]

    def blind(self, columns: np.ndarray) -> Network:
        """Return the network with zero weights on some input columns."""
        first = self.coefs[0].copy()
        first[columns] = 0.0
        return Network([first, *self.coefs[1:]], self.intercepts)

    def to_theta(self, input_bias: float) -> np.ndarray:
        """Return one vector; `input_bias` is the constant that the input layer sees."""
        biases = [input_bias] + [1.0] * (len(self.coefs) - 1)
        return np.concatenate(
            [
                np.column_stack([coef.T, intercept / bias]).ravel()
                for coef, intercept, bias in zip(
                    self.coefs, self.intercepts, biases, strict=True
                )
            ]
        )

    @classmethod
    def from_matrices(cls, matrices, input_bias: float) -> Network:
        """Build a network from matrices whose last column meets a constant."""
        biases = [input_bias] + [1.0] * (len(matrices) - 1)
        return cls(
            [matrix[:, :-1].T.copy() for matrix in matrices],
            [
                matrix[:, -1] * bias
                for matrix, bias in zip(matrices, biases, strict=True)
            ],
        )

    @classmethod
    def passing_on(cls, coef, intercept, hidden, generator) -> Network:
        """Return a network whose margins are those of a linear model.

        Two neurons of each hidden layer carry a margin, its positive and its negative
        part. The others are drawn, and nothing listens to them yet.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_inputs)
        intercept : ndarray of shape (n_outputs,)
        hidden : tuple of int
            Widths of the hidden layers, each at least ``2 * n_outputs``.
        generator : Generator
            A public stream.
        """
        n_outputs, n_inputs = coef.shape
        pair = 2 * n_outputs
        drawn = glorot((n_inputs, *hidden, n_outputs), generator)
        coefs, intercepts = drawn.coefs, drawn.intercepts
        coefs[0][:, :pair] = np.hstack([coef.T, -coef.T])
        intercepts[0][:pair] = np.r_[intercept, -intercept]
        for weights, constant in zip(coefs[1:-1], intercepts[1:-1], strict=True):
            weights[:, :pair] = np.eye(len(weights), pair)
            constant[:pair] = 0.0
        coefs[-1][:] = 0.0
        coefs[-1][:pair] = np.vstack([np.eye(n_outputs), -np.eye(n_outputs)])
        intercepts[-1][:] = 0.0
        return cls(coefs, intercepts)

    def spread(self, classes: np.ndarray, n_classes: int) -> Network:
        """Return the network with an output for every class, seen or not."""
        if len(classes) == n_classes:
            return self
        coef = np.zeros((len(self.coefs[-1]), n_classes))
        intercept = np.full(n_classes, -10.0)
        if len(classes) == 2:
            coef[:, classes[1]] = self.coefs[-1][:, 0]
            intercept[classes] = 0.0, self.intercepts[-1][0]
        else:
            coef[:, classes] = self.coefs[-1]
            intercept[classes] = self.intercepts[-1]
        return Network([*self.coefs[:-1], coef], [*self.intercepts[:-1], intercept])

    def on_mapped_rows(self, row_map: RowMap) -> Network:
        """Return the network that meets ``row_map(X)`` in place of bounded rows."""
        first, offset = row_map.coefficients(self.coefs[0].T * row_map.feature_bound)
        return Network(
            [first.T, *self.coefs[1:]],
            [self.intercepts[0] + offset, *self.intercepts[1:]],
        )


def glorot(widths: tuple[int, ...], generator: np.random.Generator) -> Network:
    """Draw starting weights as scikit-learn's `MLPClassifier` does."""
    coefs, intercepts = [], []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        bound = np.sqrt(6 / (inputs + outputs))
        coefs.append(generator.uniform(-bound, bound, (inputs, outputs)))
        intercepts.append(generator.uniform(-bound, bound, outputs))
    return Network(coefs, intercepts)


def trained(
    draw: Callable[[], np.ndarray],
    target: np.ndarray,
    n_classes: int,
    hidden: tuple[int, ...],
    *,
    n_epochs: int,
    generator: np.random.Generator,
) -> Network:
    """Train a network without privacy on rows that may be disclosed.

    Parameters
    ----------
    draw : callable
        Returns rows, for each epoch anew.
    target : int64 ndarray of shape (n_rows,)
        Public class of each row.
    n_classes : int
    hidden : tuple of int
    n_epochs : int
    generator : Generator
        A public stream.
    """
    seed = int(generator.integers(2**31))
    model = MLPClassifier(
        hidden, batch_size=min(_BATCH, len(target)), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for count in _passes_of_calls(n_epochs, len(target)):
            rows = np.vstack([draw() for _ in range(count)]).astype(np.float32)
            labels = np.tile(target, count)
            model.partial_fit(rows, labels, classes=np.arange(n_classes))
    return Network(
        [coef.astype(np.float64) for coef in model.coefs_],
        [intercept.astype(np.float64) for intercept in model.intercepts_],
    )


def _passes_of_calls(n_epochs: int, n_rows: int) -> list[int]:
    """Return how many passes over few rows share a call, for each call.

    scikit-learn checks the rows, the labels and the classes in every call, which on a
    dozen rows takes a hundred times as long as a step.
    """
    together = min(n_epochs, math.ceil(_ROWS_OF_A_CALL / n_rows))
    calls, rest = divmod(n_epochs, together)
    return [together] * calls + [rest] * (rest > 0)


def shrunk_class_means(
    sums: np.ndarray, counts: np.ndarray, noise_std: float
) -> np.ndarray:
    """Shrink noisy class sums to means: toward the grand mean, by the known noise.

    Parameters
    ----------
    sums : ndarray of shape (n_classes, n_columns)
        Released sums of columns in [0, 1].
    counts : ndarray of shape (n_classes,)
        Public class sizes.
    noise_std : float
        Standard deviation of the noise of each sum.

    Returns
    -------
    means : ndarray of shape (n_classes, n_columns), in [0, 1]
    kept : float
        Share of the classes' differences that the shrinkage left, on average over the
        records: 0 where the sums are noise.
    """
    grand = sums.sum(axis=0) / max(counts.sum(), 1)
    sizes = np.maximum(counts, 1)[:, None]
    means, noise = sums / sizes, (noise_std / sizes) ** 2
    spread = np.maximum(((means - grand) ** 2).mean(axis=1, keepdims=True) - noise, 0.0)
    keep = spread / np.maximum(spread + noise, 1e-300)
    kept = float((keep[:, 0] * counts).sum() / max(counts.sum(), 1))
    return np.clip(grand + keep * (means - grand), 1e-3, 1.0), kept
