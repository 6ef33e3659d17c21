# SPDX-License-Identifier: Apache-2.0
"""The files that MXNet's scripts write and read: lists of arrays (`.params`), of every generation.

The engine reads and writes them (`lockstep.io` stands on the same code); here arrays of MXNet's
interface become what it takes.
"""

import os

import numpy as np

from lockstep import _core
from lockstep._convert import asarray
from lockstep._core.io import SparseArray
from lockstep._core import io as _io
from lockstep.errors import InvalidArgument

# The number of a dtype in files and in the attributes of symbols.
DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64",
          7: "bool", 8: "int16", 9: "uint16", 10: "uint32", 11: "uint64", 12: "bfloat16"}
NUMBERS = {name: number for number, name in DTYPES.items()}

__all__ = ["DTYPES", "NUMBERS", "SparseArray", "array_from_bytes", "load_bytes", "load_params",
           "save_params", "write_atomically"]


def _plain(value):
    """The tensor or the SparseArray of whatever was given."""
    if isinstance(value, SparseArray):
        return value
    if getattr(value, "stype", "default") != "default":
        parts = [getattr(value, part, None) for part in ("data", "indices", "indptr")]
        return SparseArray(value.stype, value.shape,
                           *(getattr(part, "_tensor", part) for part in parts))
    value = getattr(value, "_tensor", value)
    if isinstance(value, _core.Tensor):
        return value.detach()
    if isinstance(value, (np.ndarray, np.generic)):
        return asarray(value)
    raise InvalidArgument(f"save: expected arrays, got {type(value).__name__}")


def save_params(path, arrays):
    """Writes a dict of arrays by name, or a list of arrays, as MXNet's `nd.save` does."""
    if not isinstance(arrays, (dict, list, tuple)):
        arrays = [arrays]
    named = isinstance(arrays, dict)
    for name in arrays if named else ():
        if not isinstance(name, str):
            raise InvalidArgument(f"save: the name of an array is {name!r}, expected a string")
    values = [_plain(value) for value in (arrays.values() if named else arrays)]
    _io._save_mxnet(os.fspath(path), list(arrays) if named else [], values)


def load_params(path):
    """A file's arrays by name, or a list: tensors, and SparseArrays. `.npz` and `.npy` of MXNet 2
    are known by their head."""
    return _io._load_mxnet(os.fspath(path))


def load_bytes(data, name="a buffer"):
    """As load_params, of a file's bytes."""
    return _io._mxnet_from_bytes(bytes(data), name)


def array_from_bytes(data, name="an array"):
    """One array's record, as a pickled NDArray holds it."""
    return _io._mxnet_array_from_bytes(bytes(data), name)


def write_atomically(path, data):
    """The file has all of the bytes, or is what it was before."""
    _io._write_file(os.fspath(path), data)
