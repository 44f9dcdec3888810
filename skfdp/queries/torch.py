"""Operations of the network query on torch tensors; the only importer of torch.

Each operation returns the same numbers as on NumPy arrays, because matrices are
integers that the dtype represents exactly.
"""

from __future__ import annotations

import numpy as np

from skfdp.privacy.checks import shown
from skfdp.queries import network

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


class Operations(network.Operations):
    """The operations of the network query on torch tensors."""

    _library = torch

    def __init__(self, dtype: str, device: str | None = None):
        self._dtype = getattr(torch, dtype)
        self._device = torch.device("cpu" if device is None else device)
        self._powers = self.place(_POWERS)
        # The CPU starts each operation of a GPU, which takes longer than a small block.
        self.n_blocks = 1 if self._device.type == "cpu" else _BLOCKS_OF_GPU

    def place(self, values: np.ndarray) -> torch.Tensor:
        """Copy an array to the device."""
        return torch.from_numpy(values).to(self._device)

    def host(self, a: torch.Tensor) -> np.ndarray:
        """Return a tensor as a NumPy array."""
        return a.cpu().numpy()

    def _floats(self, a: torch.Tensor) -> torch.Tensor:
        return a.double()

    def _factors(self, a: torch.Tensor) -> torch.Tensor:
        return a.to(self._dtype)

    def dots(self, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
        """Return the inner product of each pair of rows, exactly."""
        return self.host((a.double() * b.double()).sum(dim=1))

    def exact_sum(self, inputs, errors, n_exact: int) -> np.ndarray:
        """Return int64 ``inputs.T @ errors`` of integers, for any number of rows.

        `n_exact` is the number of rows for which float64 sums are exact.
        """
        total = 0
        for start in range(0, len(inputs), n_exact):
            rows = slice(start, start + n_exact)
            total = total + (inputs[rows].double().T @ errors[rows]).long()
        return self.host(total)

    def _rounded(self, rows: torch.Tensor, bits: int):
        """Return rows as integers of at most `bits` bits, and a factor for each row."""
        largest = rows.abs().amax(dim=1)
        exponent = bits - torch.frexp(largest).exponent.long()
        usable = (largest > 0) & torch.isfinite(largest) & (exponent < 1024)
        index = torch.where(usable, exponent, 0) - _LOWEST
        power = torch.where(usable, self._powers[index], 0.0)
        whole = torch.where(usable[:, None], torch.round(rows * power[:, None]), 0.0)
        return self._factors(whole), power
