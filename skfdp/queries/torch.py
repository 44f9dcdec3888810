"""Operations of the network query on torch tensors; the only importer of torch.

Each operation returns the same numbers as the operation of this name in
`queries.network`, because matrices are integers that the dtype represents exactly.
"""

from __future__ import annotations

import numpy as np

from skfdp.privacy.checks import shown

try:
    import torch
except ImportError as error:
    raise ImportError(
        "backend='torch' needs torch: pip install 'skfdp[torch]', or use "
        "backend='numpy'."
    ) from error

# Powers of two are read from a table, because torch.ldexp uses pow and may round.
_LOWEST = -1074
_BLOCKS_OF_GPU = 16
_POWERS = np.ldexp(1.0, np.arange(_LOWEST, 1024))


def check_device(device: str | None) -> None:
    """Raise ValueError unless torch computes exactly on the device."""
    try:
        torch.empty(1, dtype=torch.float64, device=device).sum().item()
    except (RuntimeError, TypeError, AssertionError):
        raise ValueError(
            f"device={shown(device)} must be a torch device with float64: pass 'cpu' "
            "or 'cuda'."
        ) from None
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch's old and new settings of the precision conflict
        precision = "set by backend"
    if precision != "highest" or torch.backends.cuda.matmul.allow_tf32:
        raise ValueError(
            f"torch's float32_matmul_precision is {precision!r}, but sums must be "
            "exact: call torch.set_float32_matmul_precision('highest')."
        )
    if torch.is_autocast_enabled(torch.device(device or "cpu").type):
        raise ValueError(
            "torch.autocast is on, but sums must be exact: fit outside of it."
        )


class Operations:
    """The operations of the network query on torch tensors."""

    def __init__(self, dtype: str, device: str | None = None):
        self._dtype = getattr(torch, dtype)
        self._device = torch.device("cpu" if device is None else device)
        self._powers = self._tensor(_POWERS)
        # The CPU starts each operation of a GPU, which takes longer than a small block.
        self.n_blocks = 1 if self._device.type == "cpu" else _BLOCKS_OF_GPU

    def place(self, values: np.ndarray) -> torch.Tensor:
        """Copy int16 records to the device."""
        return self._tensor(values)

    def host(self, a: torch.Tensor) -> np.ndarray:
        """Return a tensor as a NumPy array."""
        return a.cpu().numpy()

    def weights(self, integers: np.ndarray) -> torch.Tensor:
        """Return transposed integer weights in the dtype of the products."""
        return self._tensor(np.ascontiguousarray(integers.T)).to(self._dtype)

    def take(self, records: torch.Tensor, part: np.ndarray) -> torch.Tensor:
        """Return some records in the dtype of the products."""
        return records[self._tensor(part)].to(self._dtype)

    def activate(self, z, row_scale, column_scale, bits):
        """Return the ReLU with a constant 1 appended, as integers, and row scales."""
        rows = self._tensor(row_scale)
        constant = (1.0 / rows)[:, None]
        a = torch.hstack(
            [z.double().clamp(min=0) * self._tensor(column_scale), constant]
        )
        out, power = self._rounded(a, bits)
        scale = torch.where(power > 0, rows / power, 0.0)
        return out, self.host(scale)

    def integers(self, errors, bits: int):
        """Return rows rounded to integers of at most `bits` bits, and their scales."""
        if isinstance(errors, np.ndarray):
            errors = self._tensor(errors)
        out, power = self._rounded(errors.double(), bits)
        return out, self.host(torch.where(power > 0, 1 / power, 0.0))

    def back(self, errors, scale, weights, weight_scale, inputs, bits):
        """Return the errors of the layer below as integers, and their scales."""
        z = (errors @ weights).double() * self._tensor(weight_scale)
        out, factor = self.integers(torch.where(inputs[:, :-1] > 0, z, 0.0), bits)
        return out, scale * factor

    def dots(self, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
        """Return the inner product of each pair of rows, exactly."""
        return self.host((a.double() * b.double()).sum(dim=1))

    def largest(self, a: torch.Tensor) -> np.ndarray:
        """Return the largest absolute value of each row."""
        return self.host(a.abs().amax(dim=1).double())

    def truncated(self, errors, multiplier, largest: float) -> torch.Tensor:
        """Return float64 ``trunc(errors * multiplier)``, saturated at `largest`."""
        return self.scaled(errors, multiplier).clamp(-largest, largest).trunc()

    def scaled(self, errors, multiplier) -> torch.Tensor:
        """Return each row of errors times its multiplier, float64."""
        return errors.double() * self._tensor(multiplier)[:, None]

    def sum_of_products(self, inputs, errors) -> np.ndarray:
        """Return float64 ``inputs.T @ errors``, which is exact for integers."""
        return self.host(inputs.double().T @ errors)

    def exact_sum(self, inputs, errors, n_exact: int) -> np.ndarray:
        """Return int64 ``inputs.T @ errors`` of integers, for any number of rows.

        `n_exact` is the number of rows for which float64 sums are exact.
        """
        total = 0
        for start in range(0, len(inputs), n_exact):
            rows = slice(start, start + n_exact)
            total = total + (inputs[rows].double().T @ errors[rows]).long()
        return self.host(total)

    def _rounded(self, a: torch.Tensor, bits: int):
        """Return rows as integers of at most `bits` bits, and a factor for each row."""
        largest = a.abs().amax(dim=1)
        exponent = bits - torch.frexp(largest).exponent.long()
        usable = (largest > 0) & torch.isfinite(largest) & (exponent < 1024)
        index = torch.where(usable, exponent, 0) - _LOWEST
        power = torch.where(usable, self._powers[index], 0.0)
        out = torch.where(usable[:, None], torch.round(a * power[:, None]), 0.0)
        return out.to(self._dtype), power

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)
