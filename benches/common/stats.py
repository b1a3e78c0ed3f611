# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Medians, spreads, intervals; rounds against rounds."""

import random
import statistics


def quantile(values, q):
    values = sorted(values)
    at = (len(values) - 1) * q
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def spread(values):
    """Median, extremes and quartiles."""
    return {
        "median": quantile(values, 0.5),
        "min": min(values),
        "max": max(values),
        "p25": quantile(values, 0.25),
        "p75": quantile(values, 0.75),
        "n": len(values),
    }


def spread_of(rows, figure):
    """Spread of a figure in rows; those that lack it do not count, None of none."""
    values = [r[figure] for r in rows if r.get(figure) is not None]
    return spread(values) if values else None


def bootstrap_median(values, rounds=10000):
    """95 % interval of the median; the same values give the same interval."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


def paired(rows, figure, mine, other):
    """Spread of a figure's ratio, each round's own against the same round's other.
    Rows have a round and a tool; a round that lacks one of them does not count."""
    of = lambda tool: {r["round"]: r[figure] for r in rows if r["tool"] == tool and r[figure] is not None}
    upper, lower = of(mine), of(other)
    ratios = [upper[n] / lower[n] for n in upper if lower.get(n)]
    return spread(ratios) if ratios else None


def line(points):
    """The straight line through (x, y) by least squares: y at 0, slope, share of
    the variance that it explains. None of fewer than three points."""
    if len(points) < 3:
        return None
    mean_x, mean_y = (statistics.mean(values) for values in zip(*points))
    sum_of = lambda of: sum(of(x - mean_x, y - mean_y) for x, y in points)
    xx, xy, yy = sum_of(lambda x, y: x * x), sum_of(lambda x, y: x * y), sum_of(lambda x, y: y * y)
    if not xx:
        return None
    slope = xy / xx
    return {"at_0": mean_y - slope * mean_x, "slope": slope, "r2": xy * xy / (xx * yy) if yy else 1.0}
