# SPDX-License-Identifier: Apache-2.0
"""Functions of symbols that are no op of their name, and families of ops."""

import numpy as np

from lockstep.mxnet.symbol import Symbol, _exists, _make, _op_function

__all__ = ["arange", "eye", "full", "hypot", "linspace", "maximum", "minimum", "ones", "pow",
           "power", "split_v2", "zeros"]


def maximum(left, right):
    """The larger one of symbols, or of a symbol and a number."""
    return _two(left, right, "_maximum", "_maximum_scalar", max)


def minimum(left, right):
    """The smaller one."""
    return _two(left, right, "_minimum", "_minimum_scalar", min)


def hypot(left, right):
    """The root of the sum of squares."""
    return _two(left, right, "_hypot", "_hypot_scalar", np.hypot)


def _two(left, right, both, scalar, numbers, reverse=None):
    if isinstance(left, Symbol):
        return left._binary(right, both, scalar)
    if isinstance(right, Symbol):
        return right._binary(left, both, scalar, reverse)
    return numbers(left, right)


def pow(base, exp):  # noqa: A001 - MXNet's name
    """base to the power of exp."""
    return _two(base, exp, "_power", "_power_scalar", lambda a, b: a ** b, "_rpower_scalar")


power = pow


def zeros(shape, dtype=None, **kwargs):
    """Zeros."""
    return _make("_zeros", [], {"shape": shape, "dtype": dtype or "float32"}, kwargs.get("name"))


def ones(shape, dtype=None, **kwargs):
    """Ones."""
    return _make("_ones", [], {"shape": shape, "dtype": dtype or "float32"}, kwargs.get("name"))


def full(shape, val, dtype=None, **kwargs):
    """One number everywhere."""
    return _make("_full", [], {"shape": shape, "value": float(val), "dtype": dtype or "float32"},
                 kwargs.get("name"))


def eye(N, M=0, k=0, dtype=None, **kwargs):
    """Ones on a diagonal."""
    return _make("_eye", [], {"N": N, "M": M, "k": k, "dtype": dtype or "float32"},
                 kwargs.get("name"))


def arange(start, stop=None, step=1.0, repeat=1, infer_range=False, name=None, dtype=None):
    """Numbers in equal steps."""
    if stop is None:
        start, stop = 0, start
    return _make("_arange", [], {"start": start, "stop": stop, "step": step, "repeat": repeat,
                                 "dtype": dtype or "float32"}, name)


def linspace(start, stop, num, endpoint=True, name=None, dtype=None):
    """So many numbers from one to another."""
    return _make("_linspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                   "dtype": dtype or "float32"}, name)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of an axis, of equal sizes or cut before the given places."""
    params = {"axis": axis, "squeeze_axis": squeeze_axis}
    if isinstance(indices_or_sections, int):
        params["sections"] = indices_or_sections
    else:
        params["indices"] = (0,) + tuple(indices_or_sections)
    return _make("_split_v2", [ary], params)


class _Internal:
    """Ops whose names begin with an underscore: sym._internal._plus."""

    def __getattr__(self, name):
        if not _exists(name):
            raise AttributeError(f"'mxnet.sym._internal.{name}' is not in lockstep.mxnet")
        return _op_function(name)


_internal = _Internal()


class _Family:
    """sym.contrib, sym.linalg, sym.random, sym.image, sym.sparse."""

    def __init__(self, name, prefix):
        self._name, self._prefix = name, prefix

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("foreach", "while_loop", "cond"):
            raise NotImplementedError(f"sym.contrib.{name}: loops of symbols are not run here; "
                                      "write the loop in hybrid_forward")
        if not _exists(self._prefix + name):
            raise AttributeError(f"'mxnet.sym.{self._name}.{name}' is not in lockstep.mxnet")
        return _op_function(self._prefix + name)


contrib = _Family("contrib", "_contrib_")
linalg = _Family("linalg", "_linalg_")
random = _Family("random", "_random_")
image = _Family("image", "_image_")
sparse = _Family("sparse", "")
