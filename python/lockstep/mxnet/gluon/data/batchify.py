# SPDX-License-Identifier: Apache-2.0
"""How samples become a batch: stacked, padded, field by field."""

import numpy as np

from lockstep import _core
from lockstep.mxnet.base import is_number
from lockstep.mxnet.ndarray import array
from lockstep.mxnet.ndarray.ndarray import NDArray, _tensor_of

__all__ = ["Append", "AsList", "Group", "List", "Pad", "Stack", "Tuple"]


def stacked(samples):
    """Arrays of one shape along a new first axis."""
    first = samples[0]
    if isinstance(first, NDArray):
        return first._out(_core.stack([s._tensor for s in samples], 0))
    if isinstance(first, np.ndarray):
        made = np.stack(samples)
    else:
        made = np.asarray(samples)
    if made.dtype.kind not in "fiub":
        raise TypeError(f"batchify: samples are {type(first).__name__}, expected arrays or numbers")
    name = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}.get(made.dtype.name,
                                                                         made.dtype.name)
    return NDArray(_tensor_of(made, name))


class Stack:
    """Samples of one shape along a new first axis."""

    def __init__(self, use_shared_mem=False):
        pass

    def __call__(self, data):
        return stacked(data)


class Pad:
    """Arrays of several lengths along an axis, made equal."""

    def __init__(self, axis=0, val=None, dtype=None, ret_length=False, use_shared_mem=False,
                 pad_val=None, round_to=None):
        self._axis, self._dtype, self._ret_length = axis, dtype, ret_length
        self._value = val if val is not None else (pad_val or 0)
        self._round_to = round_to

    def __call__(self, data):
        arrays = [d.asnumpy() if isinstance(d, NDArray) else np.asarray(d) for d in data]
        lengths = [a.shape[self._axis] for a in arrays]
        longest = max(lengths)
        if self._round_to:
            longest = -(-longest // self._round_to) * self._round_to
        shape = list(arrays[0].shape)
        shape[self._axis] = longest
        dtype = self._dtype or (arrays[0].dtype if arrays[0].dtype != np.float64 else "float32")
        whole = np.full((len(arrays), *shape), self._value, dtype=dtype)
        for i, one in enumerate(arrays):
            key = [slice(None)] * one.ndim
            key[self._axis] = slice(0, lengths[i])
            whole[(i, *key)] = one
        made = array(whole, dtype=whole.dtype)
        return (made, array(lengths, dtype="int32")) if self._ret_length else made


class Tuple:
    """A function for each field."""

    def __init__(self, fn, *args):
        self._fns = list(fn) if isinstance(fn, (list, tuple)) else [fn, *args]

    def __call__(self, data):
        if len(data[0]) != len(self._fns):
            raise AssertionError(f"The number of attributes in each data sample should contain "
                                 f"{len(self._fns)} elements")
        return tuple(fn([sample[i] for sample in data]) for i, fn in enumerate(self._fns))


Group = Tuple


class List:
    """The samples as they are."""

    def __call__(self, data):
        return list(data)


AsList = List


class Append:
    """Each sample as an array of its own."""

    def __init__(self, expand=True, batch_axis=0, use_shared_mem=False):
        self._expand, self._axis = expand, batch_axis

    def __call__(self, data):
        made = [d if isinstance(d, NDArray) else array(np.atleast_1d(d) if is_number(d) else d)
                for d in data]
        return [m.expand_dims(self._axis) for m in made] if self._expand else made
