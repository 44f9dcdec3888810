"""What the sampler's finite words cost a plan: before, and now.

Before, a pair of normals was two random words, and what they could not express was in
no delta. Now further words decide what two leave open (docs/theory/exact_release.rst).
"""

import argparse
import math
import time
from decimal import Decimal, localcontext

import numpy as np
from scipy import integrate, stats

from skfdp.kernels.sampling import (
    _FAR,
    _NEAR,
    _OF_ITSELF,
    _OF_RADIUS,
    _points,
    add_rounded_normals,
)
from skfdp.mechanisms.noise import (
    Streams,
    add_integer_gaussian,
    random_words,
    rounded_pair,
)

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
#: Columns (one output each), steps, log2 of the standard deviation in grid units.
PLANS = [
    (784, 1_000, 27),
    (7_850, 2_000, 30),
    (10**5, 1_000, 34),
    (10**6, 200, 27),
    (10**6, 200, 34),
    (10**6, 10**6, 34),
]


def excluded_before(std: float) -> float:
    """Return the probability that two words excluded the neighbour of a pair.

    Where circles are g > 1 grid units apart, a shift by one unit leaves all of them
    with probability 1 - 1 / g. With t = -log(u), g is
    ``std * 2**-75 / (u * sqrt(2 t))``.
    """

    def density(t: float) -> float:
        gap = std * 2.0**-75 * math.exp(t) / math.sqrt(2 * t)
        return math.exp(-t) * max(0.0, 1 - 1 / gap)

    return integrate.quad(density, 1, 75, points=[20, 30, 40], limit=500)[0]


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
    scratch, worst = np.empty((4, n_pairs)), Decimal(0)
    _points(words, scratch)
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
            for row, value in zip((0, 2), exact, strict=True):
                worst = max(worst, abs(Decimal(float(scratch[row, i])) / value - 1))
    return float(worst * 2**53)


def moved_before(n_pairs: int) -> float:
    """Return the share of entries that two words and float64 moved, at 2**40 units."""
    std, words = 2.0**40, np.random.default_rng(1).bit_generator.random_raw(2 * n_pairs)
    scratch, unsure = np.empty((4, n_pairs)), np.empty(n_pairs, dtype=np.int64)
    _points(words, scratch)
    total = np.zeros(2 * n_pairs, dtype=np.int64)
    n_unsure = add_rounded_normals(total, std, words, unsure)
    stream, moved = Streams(0, "script").private("x"), 0
    for i in unsure[:n_unsure].tolist():
        first, second = words[2 * i : 2 * i + 2].tolist()
        pair = rounded_pair(
            std, first, second, lambda n: random_words(stream, n).tolist()
        )
        rows = (2, 0) if second >> 63 else (0, 2)
        for row, exact in zip(rows, pair, strict=True):
            moved += math.floor(std * scratch[row, i] + 0.5) != abs(exact)
    return moved / (2 * n_pairs)


def milliseconds(std: float, entries: int, rounds: int) -> tuple[float, float, float]:
    """Return medians: entries drawn and added, at this noise, at none, and words."""
    stream, total = Streams(None, "script").private("x"), np.zeros(entries, np.int64)
    contestants = (
        lambda: add_integer_gaussian(total, std, stream),
        lambda: add_integer_gaussian(total, 1.0, stream),
        lambda: random_words(stream, entries),
    )
    times = np.empty((rounds, 3))
    for row in times:
        for k, draw in enumerate(contestants):
            start = time.process_time()
            draw()
            row[k] = time.process_time() - start
    return tuple(1e3 * np.median(times, axis=0))


def main(argv: list[str] | None = None) -> None:
    """Print the bound before and now for a grid of plans, errors, and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer words, no times")
    quick = parser.parse_args(argv).quick

    print("  columns x steps     std  | before: no delta held | now | of the cipher")
    for columns, steps, power in PLANS:
        pairs = columns * steps / 2
        before = pairs * excluded_before(2.0**power)
        cipher = pairs**2 / 2.0**129
        plan = f"{columns:>9,} x {steps:<9,} 2^{power}"
        print(f"{plan} | {before:21.1e} |   0 | {cipher:.1e}")
    print("\na pair before, log2, and second looks an entry now, log2")
    for power in (20, 27, 30, 34, 40):
        before, now = excluded_before(2.0**power), looks_per_entry(2.0**power)
        print(f"2^{power}: {math.log2(before):.1f}, {math.log2(now):.1f}")

    moved = moved_before(2**12 if quick else 2**18)
    share = math.log2(max(moved, 1e-12)) - 6  # proportional to the noise
    print(f"\nentries moved to another integer before, at 2^34, log2: {share:.1f}")

    error = largest_error(1_000 if quick else 50_000)
    print(f"largest error of a normal: {error:.1f} of 11 times 2^-53 of itself")
    if quick:
        return
    print("\na million entries, ms: at this noise, at one grid unit, words alone")
    for power in (20, 27, 30, 32, 33, 34):
        drawn, least, words = milliseconds(2.0**power, 10**6, 21)
        print(f"2^{power}: {drawn:.2f}, {least:.2f}, {words:.2f}")


if __name__ == "__main__":
    main()
