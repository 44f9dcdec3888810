"""Compiled product of spline bases with the shapes of their smooth terms."""

from skfdp.kernels.compiling import kernel


@kernel()
def smooth(encoded, first, shapes, factor, start, out):
    """Write (hats @ shapes) * factor, where most entries of a row of hats are zero.

    All arrays are float64. encoded (n, D) holds the hats, a linear spline basis, from
    column `first` on; shapes (H, K); factor (K,); out (n, W) is written from column
    `start` on. Each row is summed in column order, independently of the other rows.
    """
    n_hats, width = shapes.shape
    for i in range(encoded.shape[0]):
        hats, row = encoded[i, first : first + n_hats], out[i, start : start + width]
        row[:] = 0.0
        for j in range(n_hats):
            value = hats[j]
            if value != 0.0:
                shape = shapes[j]
                for k in range(width):
                    row[k] += value * shape[k]
        for k in range(width):
            row[k] *= factor[k]
