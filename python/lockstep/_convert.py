# SPDX-License-Identifier: Apache-2.0
"""Tensors of other people's objects, and back, where the buffer protocol does not do."""

import numbers

from lockstep import _core
from lockstep.dtypes import as_dtype

_SUPPORTED = "float16, float32, float64, int8, int16, int32, int64, uint8 and bool"


def _numpy():
    import numpy

    return numpy


def _of_array(array, what):
    """A tensor of a NumPy array whose memory cannot be shared as it is."""
    np = _numpy()
    if array.dtype.kind == "O" or array.dtype.kind not in "fiub":
        raise TypeError(f"tensor: {what} holds {array.dtype}, expected one of {_SUPPORTED}")
    dense = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    shared = _core._share_buffer(dense)
    if shared is None:
        raise TypeError(f"tensor: there is no dtype for {array.dtype}, expected one of {_SUPPORTED}")
    return shared


def _contains_arrays(item):
    while isinstance(item, (list, tuple)) and item:
        item = item[0]
    return hasattr(item, "dtype")


def tensor_of(data):
    """A tensor of arrays, of whatever has `__dlpack__` or `__array__`, and of nested lists."""
    np = _numpy()
    if isinstance(data, np.ndarray) or isinstance(data, np.generic):
        return _of_array(np.asarray(data), "the array")
    if hasattr(data, "__dlpack__"):
        return _core.from_dlpack(data)
    if isinstance(data, numbers.Number) or hasattr(data, "__array__"):
        return _of_array(np.asarray(data), type(data).__name__)
    if not isinstance(data, (list, tuple, range)):
        raise TypeError(f"tensor: expected numbers, got {type(data).__name__}")
    if any(isinstance(item, _core.Tensor) for item in data):
        return _core.stack([_core.Tensor(item) if not isinstance(item, _core.Tensor) else item
                            for item in data])
    try:
        array = np.array(data)
    except ValueError:
        array = np.array(data, dtype=object)
    if array.dtype.kind == "O":
        raise ValueError("tensor: the list holds rows of several lengths, integers of more than "
                         "64 bits, or no numbers")
    # Numbers of Python have no width; a model's is float32.
    if array.dtype == np.float64 and not _contains_arrays(data):
        array = array.astype(np.float32)
    return _of_array(array, "the list")


def tensor(data, dtype=None):
    """A tensor with a copy of what `data` holds: numbers, nested lists, arrays, tensors.

    Floats of Python become float32, integers int64; arrays keep their dtype.

    >>> import lockstep
    >>> lockstep.tensor([[1.0, 2.0], [3.0, 4.0]])
    [[1. 2.]
     [3. 4.]]
    float32[2, 2] cpu(0)
    """
    return _core.Tensor(data, dtype)


def asarray(data, dtype=None):
    """A tensor on the memory of `data` where that is possible, else on a copy."""
    made = data if isinstance(data, _core.Tensor) else _core._as_tensor(data)
    if dtype is not None and made.dtype != dtype:
        made = made.cast(dtype)
    return made


def from_numpy(array):
    """A tensor on the array's own memory.

    >>> import numpy as np, lockstep
    >>> a = np.zeros(3, dtype="float32")
    >>> lockstep.from_numpy(a)[1] = 5
    >>> a
    array([0., 5., 0.], dtype=float32)
    """
    np = _numpy()
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}")
    shared = _core._share_buffer(array) if array.flags.writeable else None
    if shared is None:
        raise ValueError(
            f"from_numpy: an array of {array.dtype} with strides {array.strides} cannot be shared; "
            "lockstep.tensor copies it")
    return shared


def to_numpy(x):
    """The array on a tensor's memory; of bfloat16, which NumPy has not, a copy in float32."""
    np = _numpy()
    if x.is_symbolic:
        raise _symbolic()
    if as_dtype(x.dtype).name == "bfloat16":
        x = x.detach().cast("float32")
    return np.asarray(memoryview(x))


def _symbolic():
    from lockstep.errors import InvalidArgument

    return InvalidArgument(
        "numpy: the tensor stands for a value of a trace and has none yet (inside hybridize, "
        "compile and Trainer.fit, compute with lockstep's functions)")
