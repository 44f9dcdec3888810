"""How often the sampler looks twice, and how exact its normals are.

Two words decide nearly every integer; further ones decide what they leave open
(docs/theory/exact_release.rst, which states what is printed here).
"""

import argparse
import math
from decimal import Decimal, localcontext

import numpy as np
from scipy import stats

from skfdp.kernels.sampling import _FAR, _NEAR, _OF_ITSELF, _OF_RADIUS, _points

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def looks_per_entry(std: float) -> float:
    """Return the expected number of second looks over that of entries."""
    size, radius = math.sqrt(2 / math.pi), math.sqrt(math.pi / 2)
    edge = 2 * std * (_OF_ITSELF * size + _OF_RADIUS * radius)
    law = stats.rayleigh()
    return edge + (law.cdf(_NEAR) + law.sf(_FAR)) / 2


def largest_error(n_pairs: int) -> float:
    """Return the largest error of a computed normal, as a share of it over 2**-53."""
    words = np.random.default_rng(0).bit_generator.random_raw(2 * n_pairs)
    # In a quarter of them u is close to sqrt(1/2), where the bound is nearest.
    words[: n_pairs // 2 : 2] = int(2**64 * 0.7072) - words[: n_pairs // 2 : 2] // 2**10
    words[1 : n_pairs // 2 : 2] |= np.uint64((2**50 - 2**40) << 11)
    points, worst = np.empty((3, n_pairs)), Decimal(0)
    _points(n_pairs, words, *points)
    with localcontext(prec=50):
        for i, (first, second) in enumerate(words.reshape(-1, 2).tolist()):
            u = ((first << 11) + second % 2**11 + Decimal("0.5")) / 2**75
            radius = (-2 * u.ln()).sqrt()
            turn = ((second >> 11) % 2**50 + Decimal("0.5")) / 2**50 * PI / 4
            sums, term = [Decimal(0)] * 4, Decimal(1)
            for k in range(36):
                sums[k % 4] += term
                term = term * turn / (k + 1)
            exact = radius * (sums[0] - sums[2]), radius * (sums[1] - sums[3])
            for row, value in zip(points, exact, strict=False):
                worst = max(worst, abs(Decimal(float(row[i])) / value - 1))
    return float(worst * 2**53)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=50_000, help="of random words")
    pairs = parser.parse_args(argv).pairs
    print("second looks an entry, log2, by the noise in grid units")
    for power in (20, 27, 30, 34, 40):
        print(f"2^{power}: {math.log2(looks_per_entry(2.0**power)):.1f}")
    print("of the cipher, by columns and steps")
    for columns, steps in ((784, 1_000), (10**6, 200), (10**6, 10**6)):
        print(f"{columns:,} x {steps:,}: {(columns * steps / 2) ** 2 / 2.0**129:.1e}")
    error = largest_error(pairs)
    print(f"largest error of a normal: {error:.1f} of 11 times 2^-53 of itself")


if __name__ == "__main__":
    main()
