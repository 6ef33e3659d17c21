# SPDX-License-Identifier: Apache-2.0
"""New arrays. Their dtype is float32 unless something says otherwise."""

import numpy as onp

from lockstep import _core, ops
from lockstep.errors import InvalidArgument
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.context import device_for
from lockstep.mxnet.ndarray.memory import apart
from lockstep.mxnet.ndarray.ndarray import NDArray, _tensor_of
from lockstep.mxnet.numpy import _wrap
from lockstep.mxnet.numpy.multiarray import ndarray

__all__ = ["arange", "array", "asarray", "blackman", "copy", "diag_indices_from", "empty",
           "empty_like", "eye", "full", "full_like", "hamming", "hanning", "identity", "indices",
           "linspace", "logspace", "meshgrid", "ones", "ones_like", "tri", "tril_indices", "zeros",
           "zeros_like", "triu_indices"]


def array(object, dtype=None, ctx=None, device=None):  # noqa: A002 - NumPy's name
    """An array with a copy of what `object` holds."""
    device = device_for(ctx if ctx is not None else device)
    if isinstance(object, ndarray):
        made = object.astype(dtype or object.dtype, copy=True).detach()
        return made if device == 0 else ndarray(made._tensor.to(device))
    if isinstance(object, NDArray):
        raise ValueError("array: an array of mx.nd becomes one of mx.np by x.as_np_ndarray()")
    if isinstance(object, (list, tuple)):
        object = _plain(object)  # noqa: A001
    if dtype is None:
        dtype = getattr(object, "dtype", None) if isinstance(object, (onp.ndarray, onp.generic)) \
            else None
    try:
        contents = onp.array(object, dtype=dtype_name(dtype) if dtype is not None else "float32")
    except (TypeError, ValueError) as error:
        raise TypeError(str(error)) from None
    if contents.dtype.name == "float64" and dtype is None:
        contents = contents.astype("float32")
    return ndarray(_of(contents, device))


def _of(contents, device):
    if contents.ndim == 0:
        made = _core.Tensor(contents)
        return made if device == 0 else made.to(device)
    return _tensor_of(contents, contents.dtype.name, device)


def _plain(nested):
    """Nested lists with numbers in the place of arrays."""
    if isinstance(nested, NDArray):
        return nested.asnumpy()
    if isinstance(nested, (list, tuple)):
        return [_plain(item) for item in nested]
    return nested


def asarray(obj, dtype=None, ctx=None, device=None):
    """The array itself where it is one."""
    if isinstance(obj, ndarray) and dtype is None:
        return obj
    return array(obj, dtype, ctx, device)


def copy(a):
    """A copy."""
    return a.copy() if isinstance(a, ndarray) else array(a)


def _make(value):
    def make(shape, dtype=None, order="C", ctx=None, device=None):
        if order != "C":
            raise NotImplementedError(f"only order='C' is supported, got {order!r}")
        return ndarray(_wrap.full(shape, value, dtype or "float32",
                                  device_for(ctx if ctx is not None else device)))

    return make


zeros, ones, empty = _make(0), _make(1), _make(0)
zeros.__doc__, ones.__doc__, empty.__doc__ = "Zeros.", "Ones.", "Contents of any kind: zeros."


def full(shape, fill_value, dtype=None, order="C", ctx=None, device=None, out=None):
    """One value everywhere; an array is broadcast."""
    place = device_for(ctx if ctx is not None else device)
    if isinstance(fill_value, NDArray):
        made = ops.expand(fill_value._tensor, (shape,) if isinstance(shape, int) else tuple(shape))
        return ndarray(ops.cast(made, dtype_name(dtype)) if dtype is not None else made + 0)
    if dtype is None:
        dtype = "bool" if isinstance(fill_value, bool) else "float32"
    made = ndarray(_wrap.full(shape, fill_value, dtype, place))
    return made if out is None else _wrap.into(out, made)


def _like(value):
    def make(a, dtype=None, order="C", subok=False, ctx=None, device=None, out=None, **_):
        if order not in ("C", "K"):
            raise NotImplementedError(f"only order='C' is supported, got {order!r}")
        if subok:
            raise NotImplementedError("subok=True is not supported: there are no other classes")
        tensor = a._tensor
        made = ndarray(_wrap.full(tensor.shape, value, dtype or tensor.dtype.name, tensor.device))
        return made if out is None else _wrap.into(out, made)

    return make


zeros_like, ones_like, empty_like = _like(0), _like(1), _like(0)


def full_like(a, fill_value, dtype=None, order="C", ctx=None, device=None, out=None):
    """One value in the shape of another array."""
    return _like(fill_value)(a, dtype, out=out)


def arange(start, stop=None, step=1, dtype=None, ctx=None, device=None):
    """Numbers in equal steps, the end left out."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ZeroDivisionError("arange: the step is 0")
    place = device_for(ctx if ctx is not None else device)
    made = onp.arange(start, stop, step, dtype="float64")
    return ndarray(_of(made.astype(dtype_name(dtype) if dtype is not None else "float32"), place))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, ctx=None,
             device=None):
    """So many numbers from one to another."""
    start, stop = _number(start), _number(stop)
    if isinstance(num, float) or num < 0:
        raise InvalidArgument(f"linspace: num is a number of elements, got {num}")
    wanted = dtype_name(dtype) if dtype is not None else "float32"
    made, step = onp.linspace(start, stop, num, endpoint, True, dtype=wanted, axis=axis)
    array_ = ndarray(_of(onp.asarray(made),
                         device_for(ctx if ctx is not None else device)))
    return (array_, step) if retstep else array_


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0, ctx=None,
             device=None):
    """Numbers whose logarithms are in equal steps."""
    made = onp.logspace(_number(start), _number(stop), num, endpoint, base, axis=axis)
    return ndarray(_of(onp.asarray(made, dtype_name(dtype) if dtype is not None else "float32"),
                       device_for(ctx if ctx is not None else device)))


def _number(value):
    return value.asnumpy() if isinstance(value, NDArray) else value


def eye(N, M=None, k=0, dtype=None, ctx=None, device=None, **_):
    """Ones on a diagonal."""
    if any(isinstance(n, float) or (n is not None and n < 0) for n in (N, M)):
        raise InvalidArgument(f"eye: the numbers of rows and columns are at least 0, got {N}, {M}")
    return ndarray(ops.eye(N, -1 if M is None else M, k, dtype_name(dtype or "float32"),
                           device_for(ctx if ctx is not None else device)))


def identity(n, dtype=None, ctx=None, device=None):
    """A square eye."""
    return eye(n, dtype=dtype, ctx=ctx, device=device)


def tri(N, M=None, k=0, dtype=None, ctx=None, device=None):
    """Ones at and below a diagonal."""
    return array(onp.tri(N, M, k, dtype_name(dtype or "float32")), ctx=ctx, device=device)


def _window(function):
    def make(M, dtype=None, ctx=None, device=None):
        return array(function(M).astype(dtype_name(dtype or "float32")), ctx=ctx, device=device)

    return make


hanning, hamming, blackman = _window(onp.hanning), _window(onp.hamming), _window(onp.blackman)


def indices(dimensions, dtype=None, ctx=None, device=None):
    """Where each element is."""
    return array(onp.indices(dimensions, dtype_name(dtype or "int32")), ctx=ctx, device=device)


def _index_arrays(function):
    def make(*args, **kwargs):
        return tuple(array(part.astype("int64")) for part in function(
            *[arg.asnumpy() if isinstance(arg, NDArray) else arg for arg in args], **kwargs))

    return make


tril_indices, triu_indices = _index_arrays(onp.tril_indices), _index_arrays(onp.triu_indices)
diag_indices_from = _index_arrays(onp.diag_indices_from)


def meshgrid(*xi, indexing="xy", **_):
    """Coordinates of a grid."""
    tensors = [x._tensor for x in xi]
    count = len(tensors)
    shape = [t.size for t in tensors]
    made = []
    for i, tensor in enumerate(tensors):
        place = [1] * count
        place[i] = -1
        made.append(ops.expand(ops.reshape(tensor, tuple(place)), tuple(shape)))
    if indexing == "xy" and count > 1:
        axes = (1, 0) + tuple(range(2, count))
        made = [ops.transpose(t, axes) for t in made]
    return [ndarray(apart(t)) for t in made]
