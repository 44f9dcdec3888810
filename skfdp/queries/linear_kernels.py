"""Compiled leaves of the linear query, for rows of any length.

Every product and sum here is an integer below 2**53 held in float64, therefore exact
in any order: tiles, threads, blocks and fused multiply-adds cannot change a bit of
the result. That is why ``reassoc`` is allowed; ``nnan`` and ``ninf`` never are.

Shapes: X int16 (n, D); rows int64 (B,), the batch; theta float64 (K, D), integers;
residuals float64 (B, K). Arrays written come last.
"""

import math

import numpy as np
from numba import njit

from skfdp.queries.vectors import prefetch

# Records of a batch lie far apart: what is asked for this early has arrived in time.
_AHEAD = 12
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


@njit(nogil=True, cache=True)
def short_weights(theta, out):
    """Round theta, finite, to integers: out = theta * 2**bits; return bits.

    As many bits as keep the entries below 2**15 and each output's norm below 2**16.
    """
    largest = 0.0
    for k in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            largest = max(largest, abs(theta[k, j]))
    size = math.frexp(largest)[1]
    # A power of two may be too large for one factor.
    first, second = math.ldexp(1.0, -size // 2), math.ldexp(1.0, -size - -size // 2)
    longest = 0.0
    for k in range(theta.shape[0]):
        square = 0.0
        for j in range(theta.shape[1]):
            out[k, j] = theta[k, j] * first * second
            square += out[k, j] * out[k, j]
        longest = max(longest, square)
    bits = min(15, 16 - math.frexp(math.sqrt(longest))[1])
    factor = math.ldexp(1.0, bits)
    for k in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            out[k, j] = min(max(np.rint(out[k, j] * factor), -32767.0), 32767.0)
    return bits - size


@njit(nogil=True, cache=True, fastmath=_REORDER)
def margins(X, rows, theta, out):
    """out[i, k] = X[rows[i]] . theta[k], two rows and five outputs at a time.

    Ten accumulators, two rows and one weight fit into 16 vector registers. An odd last
    row is paired with itself.
    """
    n_rows, n_outputs = out.shape
    n_columns = X.shape[1]
    for i in range(0, n_rows, 2):
        h = min(i + 1, n_rows - 1)
        x0, x1 = X[rows[i]], X[rows[h]]
        k = 0
        while k + 5 <= n_outputs:
            t0, t1, t2 = theta[k], theta[k + 1], theta[k + 2]
            t3, t4 = theta[k + 3], theta[k + 4]
            a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = 0.0
            for j in range(n_columns):
                a, b = float(x0[j]), float(x1[j])
                a0 += a * t0[j]
                a1 += a * t1[j]
                a2 += a * t2[j]
                a3 += a * t3[j]
                a4 += a * t4[j]
                b0 += b * t0[j]
                b1 += b * t1[j]
                b2 += b * t2[j]
                b3 += b * t3[j]
                b4 += b * t4[j]
            out[i, k], out[i, k + 1], out[i, k + 2] = a0, a1, a2
            out[i, k + 3], out[i, k + 4] = a3, a4
            out[h, k], out[h, k + 1], out[h, k + 2] = b0, b1, b2
            out[h, k + 3], out[h, k + 4] = b3, b4
            k += 5
        while k < n_outputs:
            t = theta[k]
            a0 = b0 = 0.0
            for j in range(n_columns):
                a0 += x0[j] * t[j]
                b0 += x1[j] * t[j]
            out[i, k], out[h, k] = a0, b0
            k += 1


@njit(nogil=True, cache=True, fastmath=_REORDER)
def add_outer_products(X, rows, residuals, out):
    """Out += residuals.T @ X[rows], four rows and five outputs at a time.

    out is float64 (K, D), integers below 2**53. Rows that the last four lack count with
    a residual of 0.
    """
    n_rows, n_outputs = residuals.shape
    n_columns = X.shape[1]
    r = np.zeros((4, n_outputs))
    for i in range(0, n_rows, 4):
        last = n_rows - 1
        x0, x1 = X[rows[i]], X[rows[min(i + 1, last)]]
        x2, x3 = X[rows[min(i + 2, last)]], X[rows[min(i + 3, last)]]
        for h in range(4):
            for k in range(n_outputs):
                r[h, k] = residuals[i + h, k] if i + h < n_rows else 0.0
        k = 0
        while k + 5 <= n_outputs:
            a0, b0, c0, d0 = r[0, k], r[1, k], r[2, k], r[3, k]
            a1, b1, c1, d1 = r[0, k + 1], r[1, k + 1], r[2, k + 1], r[3, k + 1]
            a2, b2, c2, d2 = r[0, k + 2], r[1, k + 2], r[2, k + 2], r[3, k + 2]
            a3, b3, c3, d3 = r[0, k + 3], r[1, k + 3], r[2, k + 3], r[3, k + 3]
            a4, b4, c4, d4 = r[0, k + 4], r[1, k + 4], r[2, k + 4], r[3, k + 4]
            u0, u1, u2 = out[k], out[k + 1], out[k + 2]
            u3, u4 = out[k + 3], out[k + 4]
            for j in range(n_columns):
                a, b, c, d = float(x0[j]), float(x1[j]), float(x2[j]), float(x3[j])
                u0[j] += a0 * a + b0 * b + c0 * c + d0 * d
                u1[j] += a1 * a + b1 * b + c1 * c + d1 * d
                u2[j] += a2 * a + b2 * b + c2 * c + d2 * d
                u3[j] += a3 * a + b3 * b + c3 * c + d3 * d
                u4[j] += a4 * a + b4 * b + c4 * c + d4 * d
            k += 5
        while k < n_outputs:
            a0, b0, c0, d0 = r[0, k], r[1, k], r[2, k], r[3, k]
            u = out[k]
            for j in range(n_columns):
                u[j] += a0 * x0[j] + b0 * x1[j] + c0 * x2[j] + d0 * x3[j]
            k += 1


@njit(nogil=True, cache=True)
def move_integers(partial, total):
    """Add partial, integers in float64, to total, int64, and set it to zero."""
    for k in range(partial.shape[0]):
        for j in range(partial.shape[1]):
            total[k, j] += np.int64(partial[k, j])
            partial[k, j] = 0.0


@njit(nogil=True, cache=True)
def inner_products(X, Z, out):
    """out[i] = X[i] . Z[i]; integers below 2**53."""
    for i in range(out.shape[0]):
        total = 0
        for j in range(X.shape[1]):
            total += np.int64(X[i, j]) * np.int64(Z[i, j])
        out[i] = total


@njit(nogil=True, cache=True)
def clip_residuals(residuals, squared_norms, rows, clip_norm, unit, largest):
    """Scale each rank-one contribution to the clip norm and quantise, in place.

    Row i contributes residuals[i] (x) x with ``|x| = sqrt(squared_norms[rows[i]])``;
    clip_norm is in the units of residual times x, and the result is the nearest integer
    number of `unit`, at most `largest`. Rounding can lengthen a contribution by at most
    unit sqrt(K) |x| / 2, which is taken off the clip norm first.
    """
    half, last = 0.5 * unit * math.sqrt(residuals.shape[1]), residuals.shape[0] - 1
    for i in range(residuals.shape[0]):
        prefetch(squared_norms, rows[min(i + _AHEAD, last)])
        square = 0.0
        for k in range(residuals.shape[1]):
            square += residuals[i, k] * residuals[i, k]
        length = math.sqrt(squared_norms[rows[i]])
        # 1e-9 outweighs every rounding error of this norm and of the factor.
        norm = math.sqrt(square) * length * (1 + 1e-9)
        room = clip_norm - half * length * (1 + 1e-9)
        factor = _clip_factor(norm, room) / unit if room > 0 else 0.0
        for k in range(residuals.shape[1]):
            # Factor 0 is 0 even for NaN. Saturation comes before the rounding.
            scaled = residuals[i, k] * factor if factor > 0.0 else 0.0
            residuals[i, k] = np.rint(min(max(scaled, -largest), largest))


@njit(nogil=True, cache=True)
def clip_differences(
    full, public, squared, squared_public, inner, rows, clip_norm, unit, largest
):
    """Clip and quantise ``full[i] (x) x - public[i] (x) x_public``, in place.

    The norm of a difference of two rank-one matrices is exact:
    |f|^2 |x|^2 + |p|^2 |z|^2 - 2 (f.p)(x.z). Quantising f and p toward zero can
    lengthen their difference by at most unit sqrt(K) (|x| + |z|), which is taken off
    the clip norm first.
    """
    n_outputs = full.shape[1]
    for i in range(full.shape[0]):
        ff = pp = fp = 0.0
        for k in range(n_outputs):
            ff += full[i, k] * full[i, k]
            pp += public[i, k] * public[i, k]
            fp += full[i, k] * public[i, k]
        xx, zz, xz = squared[rows[i]], squared_public[rows[i]], inner[rows[i]]
        # The subtraction cancels; its error is relative to the terms, not to the rest.
        terms = ff * xx + pp * zz
        square = max(terms - 2 * fp * xz, 0.0) + 1e-9 * terms
        slack = unit * math.sqrt(n_outputs) * (math.sqrt(xx) + math.sqrt(zz))
        room = clip_norm * (1 - 1e-9) - slack
        factor = _clip_factor(math.sqrt(square), room) if room > 0 else 0.0
        # One factor for both sides: saturating one of them alone could lengthen v.
        limit = largest * unit * 0.999
        for k in range(n_outputs):
            bound = max(abs(full[i, k]), abs(public[i, k])) * factor
            if bound > limit:
                factor *= limit / bound
        for k in range(n_outputs):
            full[i, k] = _quantised(full[i, k], factor, unit, largest)
            public[i, k] = _quantised(public[i, k], factor, unit, largest)


@njit(nogil=True, cache=True)
def _clip_factor(norm, clip_norm):
    """At most 1 and clip_norm / norm; 0 where the norm is not a number."""
    if not norm < np.inf:
        return 0.0
    return min(1.0, clip_norm / norm) if norm > 0 else 1.0


@njit(nogil=True, cache=True)
def _quantised(residual, factor, unit, largest):
    """Truncate toward zero and saturate; factor 0 is 0 even for NaN."""
    if factor == 0.0:
        return 0.0
    # Saturate before the conversion: a float beyond int64 has no defined truncation.
    return np.trunc(min(max(residual * factor / unit, -largest), largest))
