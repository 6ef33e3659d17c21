# SPDX-License-Identifier: Apache-2.0
"""Optimisers' states as MXNet keeps them: a pickle, of which nothing but data is made.

A pickle can name any function. Here it may name the few types that states are made of; everything
else is an error before it is looked up.
"""

import builtins
import collections
import importlib
import io
import pickle
import pickletools
import sys

import numpy as np

from lockstep.errors import Corrupt
from lockstep.mxnet import _files

_BUILTINS = ("complex", "dict", "float", "frozenset", "int", "list", "set", "slice", "tuple")
_NUMPY = {"_reconstruct", "scalar", "dtype", "ndarray", "_frombuffer"} | {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool_"}
_ARRAYS = ("NDArray", "CSRNDArray", "RowSparseNDArray", "ndarray")


class _PickledArray:
    """Stands for an NDArray while a pickle is read."""

    def __new__(cls, *_):
        return object.__new__(cls)

    def __init__(self, *_):
        self.value = None

    def __setstate__(self, state):
        handle = state.get("handle") if isinstance(state, dict) else state
        if isinstance(handle, (bytes, bytearray)):
            self.value = _files.array_from_bytes(bytes(handle), "optimizer states")


def _rebuilt(kind, contents, dtype, context):
    """An array that this package pickled."""
    contents = np.asarray(contents)
    if contents.dtype.kind not in "fiub" or dtype not in _files.NUMBERS:
        raise Corrupt(f"optimizer states: an array of {contents.dtype}")
    made = _PickledArray()
    made.value = (contents, str(dtype))
    return made


def _bytearray(contents=b"", encoding=None):
    """A bytearray of what there is; of a number it would be as many bytes."""
    if isinstance(contents, str):
        return bytearray(contents.encode(encoding or "latin1"))
    if not isinstance(contents, (bytes, bytearray)):
        raise Corrupt("optimizer states: a bytearray of something else than bytes")
    return bytearray(contents)


def _empty_array(kind, shape, code):
    """What a pickled NumPy array begins as; its state comes after."""
    return np.core.multiarray._reconstruct(np.ndarray, (0,), b"b")


class _PickledContext:
    """Stands for a Context, which says where an array was."""

    def __new__(cls, *_):
        return object.__new__(cls)

    def __init__(self, *_):
        pass

    def __setstate__(self, state):
        pass


def _class_of(module, name, allowed):
    """A class of the package that is one of `allowed`, or None."""
    tail = module.partition("mxnet.")[2]
    if tail.split(".")[0] not in ("optimizer", "lr_scheduler"):
        return None
    holder = importlib.import_module("lockstep.mxnet." + tail.split(".")[0])
    found = getattr(holder, name, None)
    base = getattr(holder, allowed[tail.split(".")[0]], None)
    if isinstance(found, type) and isinstance(base, type) and issubclass(found, base):
        return found
    return None


class _Unpickler(pickle.Unpickler):
    _BASES = {"optimizer": "Optimizer", "lr_scheduler": "LRScheduler"}

    def find_class(self, module, name):
        if module in ("builtins", "__builtin__") and name in _BUILTINS:
            return getattr(builtins, name)
        if module in ("builtins", "__builtin__") and name == "bytearray":
            return _bytearray
        if module == "collections" and name in ("OrderedDict", "defaultdict", "deque"):
            return getattr(collections, name)
        if module == "_codecs" and name == "encode":
            return sys.modules["_codecs"].encode
        if module.split(".")[0] == "numpy" and name in _NUMPY:
            if name == "_reconstruct":
                return _empty_array
            if name == "scalar":
                return np.core.multiarray.scalar
            if name == "_frombuffer":
                return np.core.numeric._frombuffer
            return getattr(np, name)
        if module.split(".")[0] in ("mxnet", "lockstep"):
            if name == "_rebuilt":
                return _rebuilt
            if name in _ARRAYS and module.split(".")[-1] in ("ndarray", "sparse", "multiarray",
                                                             "_array"):
                return _PickledArray
            if name == "Context":
                return _PickledContext
            found = _class_of(module, name, self._BASES)
            if found is not None:
                return found
        raise Corrupt(f"optimizer states: the pickle names {module}.{name}, which is no part of "
                      "states")


def _filled(item, make):
    if isinstance(item, _PickledArray):
        return None if item.value is None else make(item.value)
    if isinstance(item, _PickledContext):
        return None
    if isinstance(item, dict):
        return {key: _filled(value, make) for key, value in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return item
    if isinstance(item, (list, tuple)):
        return type(item)(_filled(value, make) for value in item)
    return item


def _array(value):
    from lockstep.mxnet import ndarray as nd

    if isinstance(value, tuple):
        return nd.array(value[0], dtype=value[1])
    return nd.NDArray(value.dense() if isinstance(value, _files.SparseArray) else value)


def _check(data):
    """Raises unless the pickle's own sizes and numbers are within what there is of it."""
    for code, argument, _ in pickletools.genops(data):
        if isinstance(argument, int) and ("PUT" in code.name or "GET" in code.name) and (
                argument > len(data)):
            raise Corrupt(f"optimizer states: the pickle remembers {argument} things")


def loads(data, make=_array):
    """What a pickle of states holds; `make` turns what a file has of an array into one."""
    try:
        _check(data)
        item = _Unpickler(io.BytesIO(data), encoding="latin1").load()
    except Corrupt:
        raise
    except Exception as error:  # noqa: B902: a broken pickle raises whatever it meets
        raise Corrupt(f"optimizer states: {error}") from None
    filled = _filled(item, make)
    for part in filled if isinstance(filled, tuple) else (filled,):
        if hasattr(part, "__dict__") and not isinstance(part, type):
            for key, value in vars(part).items():
                vars(part)[key] = _filled(value, make)
    return filled
