# SPDX-License-Identifier: Apache-2.0
"""Reductions, order and products of matrices."""

from lockstep import _core, ops
from lockstep.mxnet.base import MXNetError, dtype_name
from lockstep.mxnet.ndarray.registry import register
from lockstep.mxnet.ndarray.shapes import axes_of


def at_least_1d(x):
    """An array of one number has one axis."""
    return ops.reshape(x, (1,)) if x.ndim == 0 else x


def _reduction(engine, data, axis, keepdims, exclude):
    axes = axes_of(axis, data.ndim, exclude)
    if exclude and axis is not None and not axes:
        return data + 0
    keepdims = bool(keepdims)
    if not axes and not keepdims:
        if data.ndim == 1:
            return engine(data, (0,), True)
        return at_least_1d(engine(data))
    if not axes:
        return engine(data, tuple(range(data.ndim)), True)
    return at_least_1d(engine(data, axes, keepdims))


def _register_reduction(engine, *names, keeps_dtype=True):
    def call(data, axis=None, keepdims=False, exclude=False, dtype=None, **unused):
        if dtype is not None:
            data = ops.cast(data, dtype_name(dtype))
        made = _reduction(engine, data, axis, keepdims, exclude)
        return ops.cast(made, data.dtype) if keeps_dtype and made.dtype != data.dtype else made

    call.__doc__ = engine.__doc__
    register(*names)(call)
    return call


def _without_nan(x, value):
    return ops.where(ops.isnan(x), value, x)


sum_of = _register_reduction(ops.sum, "sum", "sum_axis")
mean_of = _register_reduction(ops.mean, "mean", keeps_dtype=False)
_register_reduction(ops.prod, "prod")
max_of = _register_reduction(ops.max, "max", "max_axis")
_register_reduction(ops.min, "min", "min_axis")
_register_reduction(lambda x, *rest: ops.sum(_without_nan(x, 0.0), *rest), "nansum")
_register_reduction(lambda x, *rest: ops.prod(_without_nan(x, 1.0), *rest), "nanprod")
_register_reduction(lambda x, *rest: ops.sum(ops.square(x), *rest), "_square_sum", "square_sum")


@register("norm")
def norm(data, ord=2, axis=None, keepdims=False, out_dtype=None):  # noqa: A002
    """The 1- or 2-norm."""
    if ord not in (1, 2):
        raise MXNetError(f"norm: ord is {ord}, expected 1 or 2")
    if ord == 1:
        return sum_of(ops.abs(data), axis, keepdims)
    return _reduction(lambda x, *rest: ops.norm(x, 2, *rest), data, axis, keepdims, False)


@register("moments")
def moments(data, axes=None, keepdims=False):
    """Mean and variance."""
    mean = _reduction(ops.mean, data, axes, keepdims, False)
    return mean, _reduction(ops.var, data, axes, keepdims, False)


def _position(engine):
    def call(data, axis=None, keepdims=False):
        if axis is None:
            flat = engine(ops.reshape(data, (-1,)), 0)
            shape = (1,) * data.ndim if keepdims else (1,)
            return ops.cast(ops.reshape(flat, shape), "float32")
        return at_least_1d(ops.cast(engine(data, int(axis), bool(keepdims)), "float32"))

    call.__doc__ = engine.__doc__
    return call


register("argmax")(_position(ops.argmax))
register("argmin")(_position(ops.argmin))


@register("argmax_channel")
def argmax_channel(data):
    """argmax along the second axis."""
    return ops.cast(ops.argmax(data, 1), "float32")


def _flat_where_no_axis(data, axis):
    return (ops.reshape(data, (-1,)), 0) if axis is None else (data, int(axis))


@register("sort")
def sort(data, axis=-1, is_ascend=True):
    """The elements in order."""
    data, axis = _flat_where_no_axis(data, axis)
    return ops.sort(data, axis, not is_ascend)[0]


@register("argsort")
def argsort(data, axis=-1, is_ascend=True, dtype="float32"):
    """The positions that put elements in order."""
    data, axis = _flat_where_no_axis(data, axis)
    return ops.cast(ops.argsort(data, axis, not is_ascend), dtype_name(dtype))


@register("topk")
def topk(data, axis=-1, k=1, ret_typ="indices", is_ascend=False, dtype="float32"):
    """The k largest along an axis: their positions, values, both, or a mask."""
    flat, along = _flat_where_no_axis(data, axis)
    count = int(k) if int(k) > 0 else flat.shape[along]
    values, places = ops.topk(flat, count, along, not is_ascend)
    if ret_typ == "value":
        return values
    if ret_typ == "mask":
        mask = ops.scatter(_core.zeros_like(flat), places, _core.ones_like(values), along)
        return ops.reshape(mask, data.shape)
    places = ops.cast(places, dtype_name(dtype))
    if ret_typ == "indices":
        return places
    if ret_typ == "both":
        return values, places
    raise MXNetError(f"topk: ret_typ is '{ret_typ}', expected value, indices, mask or both")


@register("cumsum", "_np_cumsum")
def cumsum(a, axis=None, dtype=None):
    """Sums of all elements up to each."""
    a, axis = _flat_where_no_axis(a, axis)
    return ops.cumsum(a if dtype is None else ops.cast(a, dtype_name(dtype)), axis)


@register("dot")
def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """Sums of products over lhs's last and rhs's first axis; over its first, its last where it is
    to be transposed."""
    if lhs.ndim == 2 and rhs.ndim == 2:
        return ops.matmul(lhs, rhs, transpose_a, transpose_b)
    if transpose_a and lhs.ndim > 1:
        lhs = ops.transpose(lhs, (*range(1, lhs.ndim), 0))
    if transpose_b and rhs.ndim > 1:
        rhs = ops.transpose(rhs, (rhs.ndim - 1, *range(rhs.ndim - 1)))
    if lhs.ndim == 1 and rhs.ndim == 1:
        return at_least_1d(ops.sum(lhs * rhs))
    if lhs.shape[-1] != rhs.shape[0]:
        raise MXNetError(f"dot: shapes {lhs.shape} and {rhs.shape} do not fit")
    made = ops.matmul(ops.reshape(lhs, (-1, lhs.shape[-1])), ops.reshape(rhs, (rhs.shape[0], -1)))
    return at_least_1d(ops.reshape(made, lhs.shape[:-1] + rhs.shape[1:]))


@register("batch_dot")
def batch_dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """Products of matrices, one pair after another."""
    return ops.matmul(lhs, rhs, bool(transpose_a), bool(transpose_b))


@register("khatri_rao")
def khatri_rao(*args):
    """Column by column Kronecker products."""
    made = args[0]
    for item in args[1:]:
        made = ops.reshape(made.expand_dims(1) * item.expand_dims(0), (-1, item.shape[1]))
    return made
