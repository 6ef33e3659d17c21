# SPDX-License-Identifier: Apache-2.0
"""Sums and their like, order, and statistics."""

import lockstep as ls
from lockstep import ops
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.numpy._wrap import as_float, as_tensor, is_integer, on_arrays

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "argsort", "average", "cumprod",
           "cumsum", "max", "mean", "median", "min", "nanmax", "nanmin", "prod", "sort", "std",
           "sum", "var", "ptp", "nansum", "nanmean", "count_nonzero"]


def _axes(axis, ndim):
    if axis is None:
        return tuple(range(ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for one in axes:
        if not -ndim <= one < ndim:
            raise ValueError(f"axis {one} is out of bounds for array of dimension {ndim}")
    return tuple(one % ndim for one in axes)


def _reduce(op, x, axis, keepdims):
    axes = _axes(axis, x.ndim)
    if not axes:
        # Nothing to reduce: an array without axes, or axis=().
        return x + 0
    return op(x, axes, bool(keepdims))


def _wide(a, wanted):
    """What elements are added in that end as `wanted`: never float16, integers without loss."""
    own = a.dtype.name
    if own == wanted:
        return own
    if own == "float64" or wanted == "float64":
        return "float64"
    return "float32" if "float" in own or "float" in wanted else "int64"


def _reduction(op, floats=False, widen=False):
    def call(a, axis=None, dtype=None, keepdims=False, initial=None, where=None, **_):
        a = as_tensor(a)
        wanted = None if dtype is None else dtype_name(dtype)
        if wanted is not None:
            a = ops.cast(a, _wide(a, wanted))
        elif floats:
            a = as_float(a)
        elif widen and is_integer(a):
            a = ops.cast(a, "int64")
        made = _reduce(op, a, axis, keepdims)
        made = made if initial is None else made + initial
        if wanted is not None and "int" in wanted:
            made = ops.cast(made, "int64")  # what is too large wraps around, as integers do
        return made if wanted is None else ops.cast(made, wanted)

    return on_arrays(call)


sum = _reduction(ops.sum, widen=True)  # noqa: A001 - NumPy's names
prod = _reduction(ops.prod, widen=True)
mean = _reduction(ops.mean, floats=True)


def _extreme(op):
    def call(a, axis=None, keepdims=False, **_):
        return _reduce(op, as_tensor(a), axis, keepdims)

    return on_arrays(call)


max, min = _extreme(ops.max), _extreme(ops.min)  # noqa: A001
amax, amin = max, min


def _truth(op):
    def call(a, axis=None, keepdims=False, **_):
        a = as_tensor(a)
        a = a if a.dtype.name == "bool" else ops.not_equal(a, 0)
        return _reduce(op, a, axis, keepdims)

    return on_arrays(call)


all, any = _truth(ops.all), _truth(ops.any)  # noqa: A001


@on_arrays
def count_nonzero(a, axis=None, keepdims=False):
    """How many are not zero."""
    return _reduce(ops.sum, ops.cast(ops.not_equal(a, 0), "int64"), axis, keepdims)


def _without_nan(value, op, floats=False):
    def call(a, axis=None, dtype=None, keepdims=False, **_):
        a = as_tensor(a)
        return _reduce(op, ops.where(ops.isnan(a), as_tensor(float(value), a), a), axis, keepdims)

    return on_arrays(call)


nansum = _without_nan(0, ops.sum)
nanmax, nanmin = _without_nan("-inf", ops.max), _without_nan("inf", ops.min)


@on_arrays
def nanmean(a, axis=None, keepdims=False, **_):
    """The mean of what is a number."""
    bad = ops.isnan(a)
    total = _reduce(ops.sum, ops.where(bad, as_tensor(0.0, a), a), axis, keepdims)
    return total / _reduce(ops.sum, ops.cast(ops.logical_not(bad), a.dtype), axis, keepdims)


def _spread(op):
    def call(a, axis=None, dtype=None, ddof=0, keepdims=False, **_):
        a = as_tensor(a)
        wanted = None if dtype is None else dtype_name(dtype)
        a = as_float(a) if wanted is None else ops.cast(a, _wide(a, wanted))
        axes = _axes(axis, a.ndim)
        # Over no axes each element is its own mean.
        made = op(a, axes, bool(keepdims), ddof) if axes else (a - a) / (1.0 - ddof)
        return made if wanted is None else ops.cast(made, wanted)

    return on_arrays(call)


std, var = _spread(ops.stddev), _spread(ops.var)


@on_arrays
def ptp(a, axis=None, keepdims=False):
    """The largest less the smallest."""
    return _reduce(ops.max, a, axis, keepdims) - _reduce(ops.min, a, axis, keepdims)


def average(a, axis=None, weights=None, returned=False):
    """The mean, with weights where they are given."""
    if weights is None:
        made = mean(a, axis=axis)
        scale = made * 0 + a.size / made.size
    else:
        shaped = weights
        if weights.shape != a.shape:
            shape = [1] * a.ndim
            shape[axis] = -1
            shaped = weights.reshape(shape) * (a * 0 + 1)
        scale = sum(shaped, axis=axis)
        made = sum(a * shaped, axis=axis) / scale
    return (made, scale) if returned else made


def _place(op):
    def call(a, axis=None, keepdims=False, **_):
        a = as_tensor(a)
        if axis is None or (a.ndim == 0 and axis in (0, -1)):
            made = op(ops.reshape(a, (-1,)), 0, False)
            return ops.reshape(made, (1,) * a.ndim) if keepdims else made
        return op(a, axis, bool(keepdims))

    return on_arrays(call)


argmax, argmin = _place(ops.argmax), _place(ops.argmin)


def _along(op):
    def call(a, axis=None, dtype=None, **_):
        a = as_tensor(a)
        if dtype is not None:
            a = ops.cast(a, dtype_name(dtype))
        if axis is None:
            return op(ops.reshape(a, (-1,)), 0)
        return op(a, axis)

    return on_arrays(call)


cumsum, cumprod = _along(ops.cumsum), _along(ops.cumprod)


@on_arrays
def sort(a, axis=-1, kind=None, order=None):
    """In rising order."""
    if axis is None:
        a, axis = ops.reshape(a, (-1,)), 0
    return ops.sort(a, axis)[0]


@on_arrays
def argsort(a, axis=-1, kind=None, order=None):
    """The places in rising order."""
    if axis is None:
        a, axis = ops.reshape(a, (-1,)), 0
    return ops.cast(ops.argsort(a, axis), "int64")


@on_arrays
def median(a, axis=None, keepdims=False, **_):
    """The middle value; the mean of the two of an even number."""
    a = as_float(a)
    if axis is None:
        shape = (1,) * a.ndim
        flat = _median(ops.reshape(a, (-1,)), 0)
        return ops.reshape(flat, shape) if keepdims else flat
    made = _median(a, axis)
    return ops.expand_dims(made, axis % a.ndim) if keepdims else made


def _median(a, axis):
    ordered, count = ops.sort(a, axis)[0], a.shape[axis]
    low = ls.take(ordered, ls.tensor([(count - 1) // 2]), axis=axis % a.ndim)
    high = ls.take(ordered, ls.tensor([count // 2]), axis=axis % a.ndim)
    return ops.squeeze((low + high) * 0.5, (axis % a.ndim,))
