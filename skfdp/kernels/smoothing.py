"""Compiled product of spline bases with the shapes of their smooth terms."""

from skfdp.kernels.compiling import kernel


@kernel()
def smooth(places, values, shapes, factor, rest, start, out):
    """Write (hats @ shapes) * factor, where a row of hats has few entries.

    Hats are a linear spline basis. Row i has ``values[i, e]``, float64, at the distinct
    positions ``places[i, e]``, int32. shapes (H, K) and factor (K,) are float64. The
    position H is the level "missing", which is one more column with the factor rest[0],
    or is left out if rest is empty. out float64 (n, W), zeros at first, is written from
    column `start` on.
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
