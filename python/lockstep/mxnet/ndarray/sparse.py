# SPDX-License-Identifier: Apache-2.0
"""Sparse arrays: MXNet's row_sparse and csr.

Their memory is dense; what tells them apart is which rows or elements are named. Training on them
gives MXNet's numbers, not MXNet's memory.
"""

import builtins
import numbers

import numpy as np

from lockstep import ops
from lockstep.errors import InvalidArgument
from lockstep.mxnet.base import as_shape, dtype_name
from lockstep.mxnet.context import device_for
from lockstep.mxnet.ndarray.memory import move
from lockstep.mxnet.ndarray.ndarray import GradientArray, NDArray, _tensor_of
from lockstep.mxnet.ndarray.registry import op, op_names

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "array", "cast_storage",
           "csr_matrix", "dot", "empty", "retain", "row_sparse_array", "zeros"]


class BaseSparseNDArray(NDArray):
    """What both have."""

    __slots__ = ()

    def tostype(self, stype):
        """With another storage."""
        return cast_storage(self, stype)

    def _of(self, tensor):
        """An array of the same storage; a gradient's is no gradient."""
        return _CLASSES[self.stype](tensor)

    def _beside(self, contents, dtype=None):
        """A dense array on the same context."""
        tensor = self._tensor
        return NDArray(_tensor_of(contents, dtype or tensor.dtype.name, tensor.device))

    def copyto(self, other):
        """Copies to another array, or to a context with the same storage."""
        made = super().copyto(other)
        return made if made is other else self._of(made._tensor)

    def copy(self):
        """A copy with the same storage."""
        return self._of(self._tensor.copy())

    def __reduce__(self):
        rebuild, (_, *rest) = super().__reduce__()
        return rebuild, (_CLASSES[self.stype], *rest)

    def check_format(self, full_check=True):
        """Nothing can be wrong: what places named was checked when the array was made."""

    def astype(self, dtype, copy=True):
        """Another dtype, the same storage."""
        if not copy and dtype_name(dtype) == self._tensor.dtype.name:
            return self
        return self._of(ops.cast(self._tensor, dtype_name(dtype)))

    def todense(self):
        """A dense array."""
        return NDArray(self._tensor)

    def detach(self):
        """The same memory without history."""
        return self._of(self._tensor.detach())

    def as_in_context(self, context):
        """With the same storage on another context."""
        return self if self.context == context else self._of(
            NDArray(self._tensor).as_in_context(context)._tensor)

    as_in_ctx = as_in_context


class CSRNDArray(BaseSparseNDArray):
    """A matrix by its rows' elements."""

    __slots__ = ()

    @property
    def stype(self):
        """'csr'"""
        return "csr"

    def _places(self):
        return np.nonzero(self.asnumpy())

    @property
    def data(self):
        """The elements that are not 0."""
        contents = self.asnumpy()
        return self._beside(contents[np.nonzero(contents)])

    @property
    def indices(self):
        """Their columns."""
        return self._beside(self._places()[1], "int64")

    @property
    def indptr(self):
        """Where each row begins among them."""
        rows = np.bincount(self._places()[0], minlength=self.shape[0])
        return self._beside(np.concatenate([[0], np.cumsum(rows)]), "int64")

    def asscipy(self):
        """SciPy's matrix."""
        from scipy.sparse import csr_matrix as scipy_matrix

        return scipy_matrix(self.asnumpy())

    def __getitem__(self, key):
        if isinstance(key, int):
            key = builtins.slice(key, key + 1 or None)
        return CSRNDArray(self._tensor[key])


class RowSparseNDArray(BaseSparseNDArray):
    """An array by those of its rows that are not all 0."""

    __slots__ = ()

    @property
    def stype(self):
        """'row_sparse'"""
        return "row_sparse"

    def _rows(self):
        contents = self.asnumpy().reshape(self.shape[0], -1)
        return np.nonzero(contents.any(axis=1))[0]

    @property
    def indices(self):
        """The rows' numbers."""
        return self._beside(self._rows(), "int64")

    @property
    def data(self):
        """Those rows."""
        return self._beside(self.asnumpy()[self._rows()])

    def retain(self, *args, **kwargs):
        """Some rows alone."""
        return retain(self, *args, **kwargs)


class ShownRows(RowSparseNDArray):
    """Some rows of an array: the others read as 0, and stay in memory as they are."""

    __slots__ = ("_shown",)

    def __init__(self, tensor, rows):
        super().__init__(tensor)
        self._shown = rows.asnumpy().reshape(-1).astype("int64")

    def asnumpy(self):
        """A NumPy array with a copy of the contents."""
        contents = super().asnumpy()
        shown = np.zeros_like(contents)
        shown[self._shown] = contents[self._shown]
        return shown


_CLASSES = {"default": NDArray, "csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def class_of(stype):
    """The class of arrays with a storage."""
    return _CLASSES[stype]


class _RowSparseGradient(GradientArray, RowSparseNDArray):
    """A gradient by its rows."""

    __slots__ = ()


class _CSRGradient(GradientArray, CSRNDArray):
    """A gradient by its rows' elements."""

    __slots__ = ()


def gradient_class(stype):
    """The class of gradients with a storage."""
    return {"row_sparse": _RowSparseGradient, "csr": _CSRGradient}[stype]


def _check_storage(what, stype):
    if stype not in _CLASSES:
        raise ValueError(f"{what}: there is no storage '{stype}' (there are: "
                         f"{', '.join(_CLASSES)})")


def cast_storage(arr, stype):
    """An array with another storage."""
    _check_storage("tostype", stype)
    if stype == "csr" and arr.ndim != 2:
        raise InvalidArgument(f"tostype: the array has {arr.ndim} axes, csr has 2")
    if arr._tensor.is_symbolic or arr._tensor.requires_grad:
        return _CLASSES[stype](arr._tensor)
    # Memory of its own: who writes to one of the two does not write to the other.
    return _CLASSES[stype](arr._tensor.copy())


def _check_places(what, places, extent):
    if len(places) and (places.min() < 0 or places.max() >= extent):
        raise InvalidArgument(f"{what}: indices are from {places.min()} to {places.max()}, "
                              f"expected 0 to {extent - 1}")


def _check_shape(what, shape, made):
    if shape is not None and as_shape(shape) != tuple(made):
        raise InvalidArgument(f"{what}: shape is {as_shape(shape)}, the array's {tuple(made)}")


def _finish(kind, contents, ctx, dtype):
    return kind(_tensor_of(contents, dtype_name(dtype), device_for(ctx)))


def _numbers(value, dtype=None):
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value, dtype=dtype)


def _dtype_of(source, dtype):
    """What is asked for, else an array's own; lists of numbers become float32."""
    if dtype is not None:
        return dtype
    return dtype_name(source.dtype) if isinstance(source, (NDArray, np.ndarray)) else "float32"


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """Of (data, indices, indptr), of (data, (row, column)), of a shape, or of an array."""
    if isinstance(arg1, tuple) and len(arg1) == 3:
        data, indices, indptr = (_numbers(part) for part in arg1)
        indices, indptr = indices.astype("int64"), indptr.astype("int64")
        if shape is None:
            shape = (len(indptr) - 1, int(indices.max()) + 1 if len(indices) else 0)
        if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise InvalidArgument(f"csr_matrix: indptr begins with {indptr[0]} and ends with "
                                  f"{indptr[-1]}, expected growing numbers from 0 to "
                                  f"{len(indices)}")
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        dtype = _dtype_of(arg1[0], dtype)
        return _of_places(data, rows, indices, shape, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[1], tuple):
        data, (rows, columns) = _numbers(arg1[0]), map(_numbers, arg1[1])
        if shape is None:
            shape = (int(rows.max()) + 1, int(columns.max()) + 1)
        return _of_places(data, rows.astype("int64"), columns.astype("int64"), shape, ctx,
                          _dtype_of(arg1[0], dtype))
    if isinstance(arg1, tuple):
        _check_shape("csr_matrix", shape, arg1)
        return zeros("csr", arg1, ctx, dtype)
    if hasattr(arg1, "toarray"):
        return _finish(CSRNDArray, arg1.toarray(), ctx, dtype or arg1.dtype)
    contents = _numbers(arg1)
    if contents.ndim != 2:
        raise InvalidArgument(f"csr_matrix: the array has {contents.ndim} axes, expected 2")
    _check_shape("csr_matrix", shape, contents.shape)
    return _finish(CSRNDArray, contents, ctx, _dtype_of(arg1, dtype))


def _of_places(data, rows, columns, shape, ctx, dtype):
    _check_places("csr_matrix", rows, shape[0])
    _check_places("csr_matrix", columns, shape[1])
    dense = np.zeros(shape, dtype=dtype_name(dtype) if dtype else "float32")
    np.add.at(dense, (rows, columns), data)
    return _finish(CSRNDArray, dense, ctx, dense.dtype)


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """Of (data, indices), of a shape, or of an array."""
    if isinstance(arg1, tuple) and len(arg1) == 2 and not isinstance(arg1[0], numbers.Integral):
        data, indices = _numbers(arg1[0]), _numbers(arg1[1]).astype("int64").reshape(-1)
        if shape is None:
            shape = (int(indices.max()) + 1,) + data.shape[1:]
        _check_places("row_sparse_array", indices, shape[0])
        dense = np.zeros(shape, dtype=dtype_name(_dtype_of(arg1[0], dtype)))
        dense[indices] = data
        return _finish(RowSparseNDArray, dense, ctx, dense.dtype)
    if isinstance(arg1, tuple):
        _check_shape("row_sparse_array", shape, arg1)
        return zeros("row_sparse", arg1, ctx, dtype)
    contents = _numbers(arg1)
    _check_shape("row_sparse_array", shape, contents.shape)
    return _finish(RowSparseNDArray, contents, ctx, _dtype_of(arg1, dtype))


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """All 0."""
    _check_storage("zeros", stype)
    return _CLASSES[stype](ops.full(as_shape(shape), 0.0, dtype_name(dtype), device_for(ctx)))


empty = zeros


def array(source_array, ctx=None, dtype=None):
    """Of a sparse array, or SciPy's matrix."""
    if hasattr(source_array, "toarray"):
        return csr_matrix(source_array, ctx=ctx, dtype=dtype)
    return source_array.copy()


def retain(data, indices, **kwargs):
    """Some rows alone, the others 0."""
    device = data._tensor.device
    wanted = move(ops.reshape(ops.cast(indices._tensor, "int64"), (-1,)), device)
    keep = ops.full((data.shape[0],), 0.0, data._tensor.dtype, device)
    keep = ops.scatter(keep, wanted, ops.full(wanted.shape, 1.0, keep.dtype, device), 0)
    keep = ops.reshape(keep, (-1,) + (1,) * (data.ndim - 1))
    return RowSparseNDArray(data._tensor * keep)


def dot(lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None):
    """A product of matrices."""
    return NDArray(op("dot").impl(lhs._tensor, rhs._tensor, transpose_a, transpose_b))


def _with_op(name):
    def call(*args, **kwargs):
        made = op(name)(*args, **kwargs)
        return args[0]._of(made._tensor) if isinstance(args[0], BaseSparseNDArray) else made

    return call


for _name in ("add", "subtract", "multiply", "divide", "square", "sqrt", "abs", "sign", "relu",
              "sum", "mean", "norm", "clip", "elemwise_add", "elemwise_mul", "add_n", "where",
              "slice", "take", "zeros_like"):
    globals()[_name] = _with_op(_name)


def __getattr__(name):
    # The other ops give dense arrays.
    if name.startswith("_") or name not in op_names():
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return op(name)
