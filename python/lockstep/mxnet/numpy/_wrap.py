# SPDX-License-Identifier: Apache-2.0
"""Functions of mx.np are written on the engine's tensors; here they get arrays."""

import functools

import numpy as onp

from lockstep import _core, ops
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.ndarray.ndarray import NDArray

_INTEGERS = frozenset(("int8", "uint8", "int16", "int32", "int64", "bool"))


def is_integer(tensor):
    """Whether it has no fractions."""
    return tensor.dtype.name in _INTEGERS


def array_class():
    from lockstep.mxnet.numpy.multiarray import ndarray

    return ndarray


def tensor_of(value):
    """The tensor of an array; lists of arrays become lists of tensors; the rest as it is."""
    if isinstance(value, NDArray):
        return value._tensor
    if isinstance(value, (list, tuple)) and any(isinstance(item, NDArray) for item in value):
        return type(value)(tensor_of(item) for item in value)
    if isinstance(value, onp.ndarray):
        return _core.Tensor(value)
    if isinstance(value, onp.generic):
        return value.item()
    return value


def arrays_of(made):
    """Arrays of tensors, in lists and tuples too."""
    if isinstance(made, _core.Tensor):
        return array_class()(made)
    if isinstance(made, (list, tuple)):
        return type(made)(arrays_of(item) for item in made)
    return made


def into(out, made):
    """Writes a result to an array."""
    if tuple(out.shape) != tuple(made.shape):
        raise ValueError(f"out has shape {out.shape}, the result {made.shape}")
    value, own = made._tensor, out._tensor
    recorded = value.requires_grad or own.requires_grad
    if _core.is_recording() and not out._is_leaf and recorded:
        out._tensor = ops.cast(value, own.dtype)
        return out
    with _core._pause(_core.is_training()):
        own.assign(ops.cast(value.detach(), own.dtype))
    return out


def on_arrays(function):
    """A function of arrays of one of tensors; `out` gets the result where it is given."""

    @functools.wraps(function)
    def call(*args, out=None, **kwargs):
        made = arrays_of(function(*[tensor_of(arg) for arg in args],
                                  **{key: tensor_of(value) for key, value in kwargs.items()}))
        return made if out is None else into(out, made)

    return call


def full(shape, value, dtype="float32", device=0):
    """A tensor of one value; bool by way of uint8."""
    shape = (shape,) if isinstance(shape, (int, onp.integer)) else tuple(int(s) for s in shape)
    return ops.full(shape, float(value), dtype_name(dtype), device)


def as_tensor(value, beside=None):
    """A tensor of a tensor, a number or a list; numbers get the dtype of the tensor beside."""
    if isinstance(value, _core.Tensor):
        return value
    if beside is not None and isinstance(value, (int, float, bool)):
        return ops.full((), float(value), scalar_dtype(beside, value), beside.device)
    array = onp.asarray(value)
    return _core.Tensor(array.astype("float32") if array.dtype == onp.float64 else array)


def scalar_dtype(tensor, number):
    """The dtype of a tensor and a number of Python together."""
    if isinstance(number, bool):
        return tensor.dtype
    if isinstance(number, float) and is_integer(tensor):
        return "float32"
    return "int64" if tensor.dtype.name == "bool" else tensor.dtype


def as_float(tensor):
    """Integers as float32."""
    return ops.cast(tensor, "float32") if is_integer(tensor) else tensor
