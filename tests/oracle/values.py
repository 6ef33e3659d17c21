# SPDX-License-Identifier: Apache-2.0
"""Inputs of random calls: described in a few words, and their values, which follow from those."""

import dataclasses
from typing import List

import numpy

SPECIALS = {
    "nan": [numpy.nan],
    "inf": [numpy.inf],
    "-inf": [-numpy.inf],
    "infs": [numpy.inf, -numpy.inf],
    "zeros": [0.0, -0.0],
    "subnormal": [1e-40, -3e-42],
    "tiny": [1e-30, -1e-20],
    "large": [3e4, -2e4],
}


# Matrices in the last two axes: far from singular; symmetric and positive definite; with singular
# values, or as symmetric ones with eigenvalues, that are far from each other.
MATRICES = ("regular", "positive", "spaced", "spectrum")


@dataclasses.dataclass
class Input:
    """`kind` is float, weight (no gradient is asked for), int, bool, mask (bool, each row begins with true), simplex (rows that add up to
    1), marked (ints, each row's end -1), distinct (ints below high, no two the same along axis low)
    or one of MATRICES."""

    shape: List[int]
    low: float = -2.0
    high: float = 2.0
    kind: str = "float"
    seed: int = 0
    special: str = ""  # a key of SPECIALS: some elements are these
    shift: float = 0.0  # added to every element
    dtype: str = ""  # where it is not the call's own

    def text(self):
        """Without what is usual."""
        usual = Input([])
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if name == "shape" or value != getattr(usual, name)
        }

    def dtype_in(self, dtype):
        if self.dtype:
            return self.dtype
        if self.kind == "distinct":
            return "int64"
        return {"int": "int64", "marked": "int64", "bool": "bool", "mask": "bool"}.get(self.kind, dtype)


def rounded(values, dtype):
    """The nearest that the dtype has, as float64."""
    with numpy.errstate(over="ignore"):
        if dtype == "float32":
            return values.astype(numpy.float32).astype(numpy.float64)
        if dtype == "float16":
            return values.astype(numpy.float16).astype(numpy.float64)
        if dtype != "bfloat16":
            return values
        bits = numpy.atleast_1d(values.astype(numpy.float32)).view(numpy.uint32).astype(numpy.int64)
        odd = (bits >> 16) & 1
        near = ((bits + 0x7FFF + odd) >> 16 << 16).astype(numpy.uint32).view(numpy.float32)
        near = near.astype(numpy.float64).reshape(values.shape)
        return numpy.where(numpy.isfinite(values), near, values)


def put_specials(values, special, generator):
    flat = values.reshape(-1)
    if not special or flat.size == 0:
        return
    count = 1 if generator.random() < 0.5 else max(1, flat.size // 8)
    places = generator.integers(0, flat.size, count)
    flat[places] = generator.choice(SPECIALS[special], count)


def integers(given, generator):
    values = generator.integers(int(given.low), int(given.high) + 1, given.shape)
    if given.kind == "marked":
        counts = generator.integers(0, given.shape[-1] + 1, given.shape[:-1])
        values[numpy.arange(given.shape[-1]) >= counts[..., None]] = -1
    return values.astype(numpy.int64)


def distinct(given, generator):
    axis, below = int(given.low), int(given.high)
    shape = given.shape[:axis] + [below] + given.shape[axis + 1 :]
    order = numpy.argsort(generator.random(shape), axis)
    return numpy.take(order, range(given.shape[axis]), axis).astype(numpy.int64)


def transposed(x):
    return numpy.swapaxes(x, -1, -2)


def matrices(kind, x):
    """Of random ones."""
    m, n = x.shape[-2:]
    if kind == "regular":
        return x / (2 * n + 1) + numpy.eye(n)
    if kind == "positive":
        return x @ transposed(x) + numpy.eye(n)
    k = min(m, n)
    left = numpy.linalg.qr(x[..., :k])[0]
    if kind == "spectrum":
        return left * numpy.arange(-1.5, k - 1.5) @ transposed(left)
    right = numpy.linalg.qr(transposed(x[..., :k, :]))[0]
    return left * numpy.arange(1.0, k + 1.0) @ transposed(right)


def values_of(given, dtype):
    """float64 or int64; floats are such that `dtype` has them exactly."""
    generator = numpy.random.Generator(numpy.random.PCG64(given.seed))
    if given.kind in ("int", "marked"):
        return integers(given, generator)
    if given.kind == "distinct":
        return distinct(given, generator)
    values = generator.uniform(given.low, given.high, given.shape) + given.shift
    if given.kind in ("bool", "mask"):
        bits = numpy.asarray(values > -1)
        if given.kind == "mask":
            bits[..., 0] = True
        return bits.astype(numpy.int64)
    if given.kind == "simplex":
        values = numpy.exp(values)
        values /= values.sum(-1, keepdims=True)
    values = numpy.asarray(values, dtype=numpy.float64)
    if given.kind in MATRICES:
        values = matrices(given.kind, values)
    put_specials(values, given.special, generator)
    return rounded(values, given.dtype_in(dtype))
