"""An estimator that releases the mean of each column, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from skfdp.base import PrivateEstimator
from skfdp.data.records import PublicRecords, Records
from skfdp.preprocessing import PrivateCentring


class PrivateColumnMeans(PrivateEstimator):
    """Release the mean of every column as `means_`, shrunk toward the lower bounds."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        neighboring_relation="replace_one",
        bounds=None,
        ledger=None,
        random_state=None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring_relation = neighboring_relation
        self.bounds = bounds
        self.ledger = ledger
        self.random_state = random_state

    _released = ("means_",)

    def _norm(self, n_features: int, mask: np.ndarray) -> tuple[float | str, bool]:
        return "auto", False  # rows are divided by their largest length

    def _methods(self, public: PublicRecords) -> list[PrivateCentring]:
        return [PrivateCentring()]

    def _without_privacy(self, records: Records) -> Any:
        return PrivateCentring().exactly(records)

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        return {"means_": public.input_scaler.restored(found["mean_"][None])[0]}
