"""Compiled leaves of the linear query.

Every product and sum here is an integer below 2**53 held in float64, therefore exact
in any order: tiles, threads, blocks and fused multiply-adds cannot change a bit of
the result. That is why ``reassoc`` is allowed; ``nnan`` and ``ninf`` never are.

Shapes: X int16 (n, D); rows int64 (B,), the batch; theta float64 (K, D), integers;
residuals float64 (B, K). Arrays written come last.
"""

import math

import numpy as np
from numba import njit

_REORDER = {"reassoc", "contract", "nsz", "arcp"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def margins(X, rows, theta, out):
    """out[i, k] = X[rows[i]] . theta[k], four rows and five outputs at a time."""
    n_rows, n_outputs = out.shape
    n_columns = X.shape[1]
    i = 0
    while i + 4 <= n_rows:
        x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        k = 0
        while k + 5 <= n_outputs:
            t0, t1, t2 = theta[k], theta[k + 1], theta[k + 2]
            t3, t4 = theta[k + 3], theta[k + 4]
            a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = 0.0
            c0 = c1 = c2 = c3 = c4 = d0 = d1 = d2 = d3 = d4 = 0.0
            for j in range(n_columns):
                a, b, c, d = float(x0[j]), float(x1[j]), float(x2[j]), float(x3[j])
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
                c0 += c * t0[j]
                c1 += c * t1[j]
                c2 += c * t2[j]
                c3 += c * t3[j]
                c4 += c * t4[j]
                d0 += d * t0[j]
                d1 += d * t1[j]
                d2 += d * t2[j]
                d3 += d * t3[j]
                d4 += d * t4[j]
            out[i, k], out[i, k + 1], out[i, k + 2] = a0, a1, a2
            out[i, k + 3], out[i, k + 4] = a3, a4
            out[i + 1, k], out[i + 1, k + 1], out[i + 1, k + 2] = b0, b1, b2
            out[i + 1, k + 3], out[i + 1, k + 4] = b3, b4
            out[i + 2, k], out[i + 2, k + 1], out[i + 2, k + 2] = c0, c1, c2
            out[i + 2, k + 3], out[i + 2, k + 4] = c3, c4
            out[i + 3, k], out[i + 3, k + 1], out[i + 3, k + 2] = d0, d1, d2
            out[i + 3, k + 3], out[i + 3, k + 4] = d3, d4
            k += 5
        while k < n_outputs:
            t = theta[k]
            a0 = b0 = c0 = d0 = 0.0
            for j in range(n_columns):
                a0 += x0[j] * t[j]
                b0 += x1[j] * t[j]
                c0 += x2[j] * t[j]
                d0 += x3[j] * t[j]
            out[i, k], out[i + 1, k], out[i + 2, k], out[i + 3, k] = a0, b0, c0, d0
            k += 1
        i += 4
    while i < n_rows:
        x0 = X[rows[i]]
        for k in range(n_outputs):
            a0 = 0.0
            for j in range(n_columns):
                a0 += x0[j] * theta[k, j]
            out[i, k] = a0
        i += 1


@njit(nogil=True, cache=True, fastmath=_REORDER)
def add_outer_products(X, rows, residuals, out):
    """Out += residuals.T @ X[rows]; out float64 (K, D), integers below 2**53."""
    n_rows, n_outputs = residuals.shape
    n_columns = X.shape[1]
    i = 0
    while i + 4 <= n_rows:
        x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        k = 0
        while k + 2 <= n_outputs:
            p0, p1 = residuals[i, k], residuals[i + 1, k]
            p2, p3 = residuals[i + 2, k], residuals[i + 3, k]
            q0, q1 = residuals[i, k + 1], residuals[i + 1, k + 1]
            q2, q3 = residuals[i + 2, k + 1], residuals[i + 3, k + 1]
            u, v = out[k], out[k + 1]
            for j in range(n_columns):
                a, b, c, d = float(x0[j]), float(x1[j]), float(x2[j]), float(x3[j])
                u[j] += p0 * a + p1 * b + p2 * c + p3 * d
                v[j] += q0 * a + q1 * b + q2 * c + q3 * d
            k += 2
        while k < n_outputs:
            p0, p1 = residuals[i, k], residuals[i + 1, k]
            p2, p3 = residuals[i + 2, k], residuals[i + 3, k]
            u = out[k]
            for j in range(n_columns):
                u[j] += p0 * x0[j] + p1 * x1[j] + p2 * x2[j] + p3 * x3[j]
            k += 1
        i += 4
    while i < n_rows:
        x0 = X[rows[i]]
        for k in range(n_outputs):
            p0 = residuals[i, k]
            u = out[k]
            for j in range(n_columns):
                u[j] += p0 * x0[j]
        i += 1


@njit(nogil=True, cache=True)
def clip_residuals(residuals, squared_norms, rows, clip_norm, unit, largest):
    """Scale each rank-one contribution to the clip norm and quantise, in place.

    Row i contributes residuals[i] (x) x with ``|x| = sqrt(squared_norms[rows[i]])``;
    clip_norm is in the units of residual times x, and the result is the integer
    number of `unit`, toward zero and at most `largest`.
    """
    for i in range(residuals.shape[0]):
        square = 0.0
        for k in range(residuals.shape[1]):
            square += residuals[i, k] * residuals[i, k]
        # 1e-9 outweighs every rounding error of this norm and of the factor.
        norm = math.sqrt(square) * math.sqrt(squared_norms[rows[i]]) * (1 + 1e-9)
        factor = _clip_factor(norm, clip_norm)
        for k in range(residuals.shape[1]):
            residuals[i, k] = _quantised(residuals[i, k], factor, unit, largest)


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
