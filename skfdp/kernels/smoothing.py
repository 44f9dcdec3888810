"""Compiled map of rows of hats to smooth coordinates."""

from skfdp.kernels.compiling import kernel


@kernel()
def smooth(encoded, first, shapes, factor, start, out):
    """Write (hats @ shapes) * factor, of which few entries of a row are not zero.

    encoded (n, D), the hats of a block from column `first` on; shapes (H, K); factor
    (K,); out (n, W), written from column `start` on; float64. Products are added in the
    order of the columns: a row does not depend on those beside it.
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
