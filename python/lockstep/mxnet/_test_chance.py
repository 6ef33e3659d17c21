# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: whether random numbers have the distribution they should have."""

import math

import numpy as np


def gen_buckets_probs_with_ppf(ppf, nbuckets):
    """Ranges of equal probability of a distribution given by its quantiles: (ranges,
    probabilities)."""
    bounds = [ppf(i / float(nbuckets)) for i in range(nbuckets + 1)]
    return list(zip(bounds[:-1], bounds[1:])), [1.0 / nbuckets] * nbuckets


def mean_check(generator, mu, sigma, nsamples=1000000):
    """Whether a sample's mean is within three standard errors."""
    bound = 3 * sigma / math.sqrt(nsamples)
    return abs(np.asarray(generator(nsamples)).mean() - mu) < bound


def var_check(generator, sigma, nsamples=1000000):
    """Whether a sample's variance is within three standard errors."""
    bound = 3 * math.sqrt(2 * sigma ** 4 / (nsamples - 1))
    return abs(np.asarray(generator(nsamples)).var(ddof=1) - sigma ** 2) < bound


def _upper_gamma(a, x):
    """The regularised upper incomplete gamma function Q(a, x)."""
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        # The series of the lower one.
        term = total = 1 / a
        n = a
        while abs(term) > 1e-16 * abs(total):
            n += 1
            term *= x / n
            total += term
        return 1 - scale * total
    # The continued fraction, by Lentz's method.
    b = x + 1 - a
    c, d = 1e300, 1 / b
    fraction = d
    for i in range(1, 10000):
        factor = -i * (i - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        step = c * d
        fraction *= step
        if abs(step - 1) < 1e-15:
            break
    return scale * fraction


def chi_square_check(generator, buckets, probs, nsamples=1000000):
    """The probability that a right generator is as far off as this one, with the frequencies seen
    and expected. Buckets are ranges, or the values of a discrete distribution."""
    if not isinstance(buckets, list) or len(buckets) != len(probs):
        raise ValueError("chi_square_check: expected a list of buckets and as many probabilities")
    samples = np.asarray(generator(nsamples)).ravel()
    expected = (nsamples * np.asarray(probs, dtype="float32")).astype("int32")
    if isinstance(buckets[0], (list, tuple)):
        bounds = np.asarray(buckets, dtype="float32").ravel()
        if np.any(np.diff(bounds) < 0):
            raise ValueError("chi_square_check: ranges are to ascend and not to overlap")
        place = np.searchsorted(bounds, samples, side="right") // 2
        seen = np.array([(place == i).sum() for i in range(len(buckets))])
    else:
        seen = np.array([(samples == value).sum() for value in buckets])
    # Frequencies are compared as parts: roundings of the expected ones are not the generator's.
    total = expected * (seen.sum() / expected.sum())
    statistic = float(((seen - total) ** 2 / total).sum())
    return _upper_gamma((len(buckets) - 1) / 2, statistic / 2), seen, expected


def verify_generator(generator, buckets, probs, nsamples=1000000, nrepeat=5, success_rate=0.2,
                     alpha=0.05):
    """Raises AssertionError where too few of `nrepeat` samples look as they should."""
    runs = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    found = [p for p, _, _ in runs]
    if sum(p > alpha for p in found) < nrepeat * success_rate:
        raise AssertionError(f"chi-square p = {found}, seen {[r[1].tolist() for r in runs]}, "
                             f"expected {runs[0][2].tolist()}; buckets {buckets}, "
                             f"probabilities {probs}")
    return found
