# SPDX-License-Identifier: Apache-2.0
"""Indices as MXNet's arrays take them."""

import numpy as np

from lockstep import _core, ops
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.ndarray.memory import apart


def _index(item):
    """One part of a key as the engine has it: arrays of floats are positions."""
    if hasattr(item, "_tensor"):
        tensor = item._tensor
        return ops.cast(tensor, "int64") if "float" in tensor.dtype.name else tensor
    if isinstance(item, np.ndarray) and item.dtype.kind == "f":
        return item.astype("int64")
    if isinstance(item, np.bool_):
        return bool(item)
    return item


def _whole(key):
    if isinstance(key, tuple):
        return tuple(_index(item) for item in key)
    return _index(key)


def get_item(array, key):
    """array[key]: never without axes."""
    kind = type(key)
    if kind is int or kind is slice:
        result = array._tensor[key]
    elif kind is tuple and key == ():
        return array
    else:
        result = array._tensor[_whole(key)]
    if not result.is_contiguous():
        result = _strided(array, key)
    if result.ndim == 0 and array._out._keeps_an_axis:
        result = ops.reshape(result, (1,))
    return array._out(result)


def _strided(array, key):
    """array[key] where that is not one piece of memory: a copy, unless the array itself is none."""
    tensor = array._tensor
    if not tensor.is_contiguous() and not (tensor.is_symbolic or tensor.requires_grad):
        tensor = array._tensor = tensor.copy()
    result = tensor[_whole(key)]
    return result if result.is_contiguous() else apart(result)


def assign_item(array, key, value):
    """array[key] = value, in place; what is recorded or traced becomes a new tensor instead."""
    tensor = array._tensor
    if hasattr(value, "_tensor"):
        value = value._tensor
        if value.device != tensor.device:
            value = value.to(tensor.device)
    elif isinstance(value, (list, tuple)):
        value = np.array(value, dtype=tensor.dtype.name)
    if _belongs_on_the_tape(array, value):
        array._tensor = written(tensor, _whole(key), _core._as_tensor(value))
        return
    if _core.is_recording() and array._is_leaf:
        raise MXNetError("x[...] = value: an array with attach_grad() cannot be written to while "
                         "recording")
    if isinstance(key, slice) and key == slice(None) or key is Ellipsis:
        _assign_all(tensor, value)
        return
    key, value = _whole(key), _fitted(value, tensor)
    with _core._pause(_core.is_training()):
        if getattr(value, "ndim", 0) > 1:
            value = _without_leading_ones(value, tensor[key].ndim)
        tensor[key] = value


def _belongs_on_the_tape(array, value):
    """Whether a gradient flows to the value, or to what the array was before."""
    tensor, source = array._tensor, value if isinstance(value, _core.Tensor) else None
    if tensor.is_symbolic or (source is not None and source.is_symbolic):
        return True
    if not _core.is_recording():
        return False
    if source is not None and source.requires_grad:
        return True
    return tensor.requires_grad and not array._is_leaf


def _assign_all(tensor, value):
    if isinstance(value, np.ndarray) or isinstance(value, _core.Tensor):
        if value.size == tensor.size and value.shape != tensor.shape and value.ndim > tensor.ndim:
            value = value.reshape(tensor.shape)
    if isinstance(value, _core.Tensor):
        value = value.detach()
    with _core._pause(_core.is_training()):
        tensor.assign(value)


def _without_leading_ones(value, axes):
    while value.ndim > axes and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    return value


def _fitted(value, tensor):
    """The value as elements of the tensor; of one element without axes, which fits anywhere."""
    if isinstance(value, (np.ndarray, _core.Tensor)) and value.size == 1 and value.ndim:
        value = value.reshape(())
    if isinstance(value, np.ndarray) and value.dtype.name != tensor.dtype.name:
        return value.astype("float32" if tensor.dtype.name == "bfloat16" else tensor.dtype.name)
    return value


def written(tensor, key, value):
    """A new tensor with the value in its place: gradients flow to both."""
    positions = ops.arange(0, tensor.size, 1, "int64", tensor.device)
    positions = ops.reshape(positions, tensor.shape)
    with _core._pause(_core.is_training()):
        places = positions[key] if not (isinstance(key, slice) and key == slice(None)) else positions
    value = ops.cast(_fitted(value, tensor), tensor.dtype)
    if value.device != tensor.device:
        value = value.to(tensor.device)
    if value.ndim > places.ndim:
        value = ops.reshape(value, places.shape)
    updates = ops.reshape(ops.expand(value, places.shape), (-1,))
    flat = ops.scatter(ops.reshape(tensor, (-1,)), ops.reshape(places, (-1,)), updates, 0)
    return ops.reshape(flat, tensor.shape)
