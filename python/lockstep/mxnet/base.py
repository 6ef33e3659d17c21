# SPDX-License-Identifier: Apache-2.0
"""What the other modules build on: errors, names of types, arguments as MXNet's scripts give them.
"""

import ast
import difflib
import numbers

import numpy as np

from lockstep import errors

# Whatever the engine says is wrong is an MXNetError to a script that expects one.
MXNetError = errors.Error

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
mx_real_t = np.float32
py_str = str
_Null = None


class NotImplementedForSymbol(MXNetError, TypeError):
    """A function of arrays that symbols do not have."""


def is_number(value):
    """Whether it is one number, of Python or NumPy."""
    return isinstance(value, numbers.Number) or isinstance(value, np.generic)


def dtype_name(dtype):
    """'float32' for whatever means it: a name, NumPy's dtype or type, Python's float."""
    if dtype is None:
        return "float32"
    if isinstance(dtype, str):
        name = dtype
    elif dtype is float:
        name = "float32"
    elif dtype is int:
        name = "int64"
    elif dtype is bool:
        name = "bool"
    else:
        name = getattr(dtype, "name", None)
        if not isinstance(name, str):
            try:
                name = np.dtype(dtype).name
            except TypeError:
                name = "object"
        if name == "object":
            raise TypeError(f"dtype: expected a dtype such as 'float32', got {dtype!r}; an array is "
                            "made by mx.nd.array(x), converted by x.astype('float32')")
    return {"bool_": "bool", "half": "float16", "double": "float64", "float": "float32",
            "int": "int64", "uint16": "int32", "uint32": "int64", "uint64": "int64"}.get(name, name)


def as_shape(shape):
    """A tuple of ints of a number, a list or a tuple."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple(int(extent) for extent in shape)


def as_pair(value, count, default):
    """`count` ints of a number, a tuple or nothing."""
    if value is None or (not isinstance(value, int) and len(value) == 0):
        return (default,) * count
    if isinstance(value, (int, np.integer)):
        return (int(value),) * count
    return tuple(int(v) for v in value)


def parse_attr(text):
    """The value of an attribute as symbol files have it: '(3, 3)', 'True', 'relu'."""
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def as_list(value):
    """A list of one, or the list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


_as_list = as_list


def nearest(name, known):
    """'; the nearest is ...' where one is near."""
    lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return f"; the nearest name is '{lower[found[0]]}'" if found else ""


class NeverWas(AttributeError):
    """A name that MXNet never had; the message says what to write instead."""


def missing_name(module, name, known, hints=()):
    """The AttributeError for a name that a module has not."""
    full = module.replace("lockstep.mxnet", "mxnet")
    hint = dict(hints).get(name)
    if hint:
        return NeverWas(f"'{full}.{name}' does not exist in MXNet: {hint}")
    return AttributeError(f"'{full}.{name}' is not in lockstep.mxnet{nearest(name, known)}")


def attributes_of(namespace, hints=()):
    """A module's __getattr__ that says what to write instead."""
    module = namespace["__name__"]

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        known = [key for key in namespace if not key.startswith("_")]
        raise missing_name(module, name, known, hints)

    return __getattr__
