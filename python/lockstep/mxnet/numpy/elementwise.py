# SPDX-License-Identifier: Apache-2.0
"""Element by element."""

import functools
import math

import numpy as onp

import lockstep as ls
from lockstep import _core, ops
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.ndarray.ops_elementwise import larger, smaller
from lockstep.mxnet.numpy.multiarray import _bits, _divide
from lockstep.mxnet.numpy._wrap import as_float, as_tensor, is_integer, on_arrays

__all__ = []


_OF_TRUTHS = frozenset(("isnan", "isinf", "isfinite", "isposinf", "isneginf"))


def _into_truths(function):
    """`out` of a function that tells what is true holds truths."""

    @functools.wraps(function)
    def call(x, out=None, **options):
        if out is not None and out.dtype != onp.bool_:
            raise TypeError(f"{function.__name__}: out is {out.dtype}, expected bool")
        return function(x, out=out, **options)

    return call


def _export(name, function, doc=None):
    function.__name__ = function.__qualname__ = name
    if doc:
        function.__doc__ = doc
    made = on_arrays(function)
    if name in _OF_TRUTHS:
        made = _into_truths(made)
    globals()[name] = made
    __all__.append(name)
    return made


def _check_options(name, where=True, casting="same_kind", order="K", dtype=None, subok=True):
    """Options of NumPy's functions that mean something else than the default are not here."""
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise TypeError(f"{name}: casting is one of 'no', 'equiv', 'safe', 'same_kind', or "
                        f"'unsafe', got {casting!r}")
    if dtype is not None:
        onp.dtype(dtype)  # a TypeError where it is none
    given = {"where": where is not True, "casting": casting != "same_kind", "order": order != "K",
             "dtype": dtype is not None, "subok": subok is not True}
    wrong = [option for option, is_given in given.items() if is_given]
    if wrong:
        raise NotImplementedError(f"{name}: the option {wrong[0]} is not supported")


def _unary(op, floats):
    def call(x, **options):
        if options:
            _check_options(call.__name__, **options)
        x = as_tensor(x)
        return op(as_float(x) if floats else x)

    return call


_FLOATS = {
    "sqrt": ops.sqrt, "exp": ops.exp, "expm1": ops.expm1, "log": ops.log, "log2": ops.log2,
    "log10": ops.log10, "log1p": ops.log1p, "sin": ops.sin, "cos": ops.cos, "tan": ops.tan,
    "arcsin": ops.asin, "arccos": ops.acos, "arctan": ops.atan, "sinh": ops.sinh, "cosh": ops.cosh,
    "tanh": ops.tanh, "arcsinh": ops.asinh, "arccosh": ops.acosh, "arctanh": ops.atanh,
    "reciprocal": ops.reciprocal, "exp2": ops.exp2,
    "cbrt": lambda x: ops.sign(x) * ops.power(ops.abs(x), 1.0 / 3.0),
    "degrees": lambda x: x * (180.0 / math.pi), "radians": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi), "deg2rad": lambda x: x * (math.pi / 180.0),
}
_ANY = {
    "square": lambda x: x * x, "abs": ops.abs, "absolute": ops.abs, "fabs": ops.abs,
    "sign": ops.sign, "negative": ops.negative, "floor": ops.floor, "ceil": ops.ceil,
    "trunc": ops.trunc, "fix": ops.trunc, "rint": ops.round, "logical_not": ops.logical_not,
    "isnan": ops.isnan, "isinf": ops.isinf, "isfinite": ops.isfinite, "positive": lambda x: x + 0,
    "isposinf": lambda x: ops.logical_and(ops.isinf(x), ops.greater(x, 0)),
    "isneginf": lambda x: ops.logical_and(ops.isinf(x), ops.less(x, 0)),
}
for _name, _op in _FLOATS.items():
    _export(_name, _unary(_op, True), f"{_name} of each element.")
for _name, _op in _ANY.items():
    _export(_name, _unary(_op, False), f"{_name} of each element.")


def _both(a, b):
    """Two tensors; a number beside a tensor takes its dtype, a fraction beside integers makes
    them float32."""
    if not isinstance(a, _core.Tensor) and isinstance(b, _core.Tensor):
        a = as_tensor(a, b)
    elif not isinstance(b, _core.Tensor) and isinstance(a, _core.Tensor):
        b = as_tensor(b, a)
    return as_tensor(a), as_tensor(b)


def _binary(op):
    def call(x1, x2, **options):
        if options:
            _check_options(call.__name__, **options)
        return op(*_both(x1, x2))

    return call


_BINARY = {
    "add": ops.add, "subtract": ops.subtract, "multiply": ops.multiply, "divide": _divide,
    "true_divide": _divide, "floor_divide": ops.floor_divide, "mod": ops.remainder,
    "remainder": ops.remainder, "fmod": ops.fmod, "power": ops.power, "maximum": larger,
    "minimum": smaller, "arctan2": ops.atan2, "hypot": ops.hypot, "equal": ops.equal,
    "not_equal": ops.not_equal, "less": ops.less, "less_equal": ops.less_equal,
    "greater": ops.greater, "greater_equal": ops.greater_equal, "logical_and": ops.logical_and,
    "logical_or": ops.logical_or, "logical_xor": ops.logical_xor, "logaddexp": ops.logaddexp,
    "copysign": lambda a, b: ops.abs(a) * ops.where(ops.less(b, 0), -1.0, 1.0),
    "ldexp": lambda a, b: as_float(a) * ops.exp2(as_float(b)),
    "fmax": lambda a, b: ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, ops.maximum(a, b))),
    "fmin": lambda a, b: ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, ops.minimum(a, b))),
    "bitwise_and": lambda a, b: _bits("and", a, b), "bitwise_or": lambda a, b: _bits("or", a, b),
    "bitwise_xor": lambda a, b: _bits("xor", a, b),
}
for _name, _op in _BINARY.items():
    _export(_name, _binary(_op), f"{_name} of two arrays that broadcast.")


def _clip(a, a_min=None, a_max=None, min=None, max=None):  # noqa: A002 - NumPy's names
    """Kept between two numbers or arrays."""
    a_min, a_max = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if isinstance(a_min, _core.Tensor) or isinstance(a_max, _core.Tensor):
        a = a if a_min is None else ops.maximum(*_both(a, a_min))
        return a if a_max is None else ops.minimum(*_both(a, a_max))
    low = -math.inf if a_min is None else a_min
    high = math.inf if a_max is None else a_max
    return ls.clip(a, low, high)


def _around(x, decimals=0, **_):
    """Rounded, halves to even."""
    if is_integer(x):
        return x + 0
    factor = 10.0 ** decimals
    return ops.round(x * factor) / factor if decimals else ops.round(x)


def _where(condition, x=None, y=None):
    """x where the condition holds, else y; without them where it holds."""
    condition = as_tensor(condition)
    if x is None or y is None:
        from lockstep.mxnet.numpy.shaping import nonzero_tensors

        return nonzero_tensors(condition)
    x, y = _both(x, y)
    if condition.dtype.name != "bool":
        condition = ops.not_equal(condition, 0)
    return ops.where(condition, x, y)


def _nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None, **_):
    """Numbers in the place of NaN and the infinities."""
    if is_integer(x):
        return x + 0
    given = x
    limits = onp.finfo(dtype_name(x.dtype.name) if x.dtype.name != "bfloat16" else "float32")
    x = ops.where(ops.isnan(x), as_tensor(float(nan), x), x)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None
                                                              else neginf)
    infinite = ops.isinf(x)
    ends = ops.where(ops.greater(x, 0), as_tensor(float(high), x), as_tensor(float(low), x))
    made = ops.where(infinite, ends, x)
    if copy or given.is_symbolic or _core.is_recording():
        return made
    given.assign(made)
    return given


def _invert(x, **options):
    """Not; of integers -x - 1."""
    if options:
        _check_options("invert", **options)
    return ops.logical_not(x) if x.dtype.name == "bool" else ops.negative(x) - 1


_export("clip", _clip)
for _name in ("around", "round", "round_"):
    _export(_name, lambda x, decimals=0, **_: _around(x, decimals), "Rounded, halves to even.")
_export("where", _where)
_export("nan_to_num", _nan_to_num)
_export("invert", lambda x, **options: _invert(x, **options), "Not.")
_export("bitwise_not", lambda x, **options: _invert(x, **options), "Not.")
