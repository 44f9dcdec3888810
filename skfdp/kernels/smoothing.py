"""Compiled product of rows of a linear spline basis with a matrix of curve shapes."""

from skfdp.kernels.compiling import kernel


@kernel()
def smooth(places, values, shapes, factor, rest, start, out):
    """Write (hats @ shapes) * factor, where each row of hats has few entries.

    Hats are the H functions of a linear spline basis. Row i has the entries
    ``values[i, e]``, float64, at the distinct positions ``places[i, e]``, int32. shapes
    (H, K) and factor (K,) are float64. The position H means that the number is missing.
    If rest is empty, the entry at this position is ignored. Otherwise the entry times
    rest[0] is written to one more column, after the K columns. out float64 (n, W),
    which must be zero, is written from column `start` on.
    """
    n_hats, width = shapes.shape
    for i in range(places.shape[0]):
        row = out[i, start : start + width]
        for e in range(places.shape[1]):
            place, value = places[i, e], values[i, e]
            if value == 0.0:
                continue
            if place < n_hats:
                shape = shapes[place]
                for k in range(width):
                    row[k] += value * shape[k]
            elif rest.shape[0]:
                out[i, start + width] = value * rest[0]
        for k in range(width):
            row[k] *= factor[k]
