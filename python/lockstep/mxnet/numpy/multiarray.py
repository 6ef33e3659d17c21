# SPDX-License-Identifier: Apache-2.0
"""The class of mx.np's arrays: NumPy's semantics on an engine's tensor."""

import numpy as onp

from lockstep import _core, ops
from lockstep._convert import to_numpy
from lockstep.mxnet import _hints
from lockstep.mxnet.base import MXNetError, dtype_name
from lockstep.mxnet.ndarray.memory import apart
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.numpy import _wrap

__all__ = ["ndarray"]


def _operands(self, other):
    """Both as tensors that the engine computes with; None where `other` is no number."""
    a = self._tensor
    if isinstance(other, NDArray):
        return a, other._tensor
    if isinstance(other, onp.ndarray):
        return a, _core.Tensor(other)
    if isinstance(other, onp.generic):
        other = other.item()
    if isinstance(other, (list, tuple)):
        return a, _wrap.as_tensor(other)
    if not isinstance(other, (bool, int, float)):
        return a, None
    wanted = _wrap.scalar_dtype(a, other)
    return (a if wanted == a.dtype else ops.cast(a, wanted)), other


def _operator(op, reverse=False):
    def call(self, other):
        a, b = _operands(self, other)
        if b is None:
            return NotImplemented
        if reverse:
            a, b = _wrap.as_tensor(b, a), a
        return ndarray(op(a, b))

    return call


def _in_place(op):
    def call(self, other):
        a, b = _operands(self, other)
        if b is None:
            return NotImplemented
        made = op(a, b)
        own = self._tensor
        if own.is_symbolic or (_core.is_recording() and not self._is_leaf):
            self._tensor = made
        elif _core.is_recording():
            raise MXNetError("in-place operators on an array with attach_grad() are not supported "
                             "while recording")
        else:
            own.assign(ops.cast(made, own.dtype))
        return self

    return call


def _divide(a, b):
    if _wrap.is_integer(a) and (not isinstance(b, _core.Tensor) or _wrap.is_integer(b)):
        a = ops.cast(a, "float32")
    return ops.divide(a, b)


def _matmul(a, b):
    from lockstep.mxnet.numpy.products import matmul_tensors

    return matmul_tensors(a, b)


@_hints.tell_missing(_hints.NUMPY_ARRAY)
class ndarray(NDArray):
    """An array of numbers; what it has and how it computes is NumPy's."""

    __slots__ = ()
    __array_priority__ = 1100.0

    __add__, __radd__ = _operator(ops.add), _operator(ops.add, True)
    __sub__, __rsub__ = _operator(ops.subtract), _operator(ops.subtract, True)
    __mul__, __rmul__ = _operator(ops.multiply), _operator(ops.multiply, True)
    __truediv__, __rtruediv__ = _operator(_divide), _operator(_divide, True)
    __floordiv__, __rfloordiv__ = (_operator(ops.floor_divide), _operator(ops.floor_divide, True))
    __mod__, __rmod__ = _operator(ops.remainder), _operator(ops.remainder, True)
    __pow__, __rpow__ = _operator(ops.power), _operator(ops.power, True)
    __matmul__, __rmatmul__ = _operator(_matmul), _operator(_matmul, True)
    __and__, __rand__ = _operator(lambda a, b: _bits("and", a, b)), _operator(
        lambda a, b: _bits("and", a, b), True)
    __or__, __ror__ = _operator(lambda a, b: _bits("or", a, b)), _operator(
        lambda a, b: _bits("or", a, b), True)
    __xor__, __rxor__ = _operator(lambda a, b: _bits("xor", a, b)), _operator(
        lambda a, b: _bits("xor", a, b), True)
    __lt__, __le__ = _operator(ops.less), _operator(ops.less_equal)
    __gt__, __ge__ = _operator(ops.greater), _operator(ops.greater_equal)
    __iadd__, __isub__ = _in_place(ops.add), _in_place(ops.subtract)
    __imul__, __itruediv__ = _in_place(ops.multiply), _in_place(_divide)
    __imod__, __ipow__ = _in_place(ops.remainder), _in_place(ops.power)
    __ifloordiv__ = _in_place(ops.floor_divide)

    def __eq__(self, other):
        a, b = _operands(self, other)
        return False if b is None else ndarray(ops.equal(a, b))

    def __ne__(self, other):
        a, b = _operands(self, other)
        return True if b is None else ndarray(ops.not_equal(a, b))

    def __hash__(self):
        return id(self) >> 4

    def __invert__(self):
        if self._tensor.dtype.name == "bool":
            return ndarray(ops.logical_not(self._tensor))
        return ndarray(ops.subtract(ops.negative(self._tensor), 1))

    @property
    def dtype(self):
        """NumPy's dtype of the elements."""
        own = NDArray.dtype.fget(self)
        return own if isinstance(own, str) else onp.dtype(own)

    @property
    def grad(self):
        """The gradient, zeros before the first backward; None without attach_grad()."""
        gradient = NDArray.grad.fget(self)
        return None if gradient is None else ndarray(gradient._tensor)

    # Numbers out of it.

    def asnumpy(self):
        """A NumPy array with a copy of the contents."""
        contents = onp.array(to_numpy(self._tensor))
        return self._shown(contents) if contents.dtype == onp.float64 else contents

    def item(self, *args):
        """One element as a Python number."""
        return self.asnumpy().item(*args)

    def __repr__(self):
        if self._tensor.is_symbolic:
            return f"<{type(self).__name__} {self.shape} of a trace>"
        text = repr(self.asnumpy())
        # float32 is what an array has unless it says otherwise.
        text = text.replace(", dtype=float32", "")
        index = self._tensor.device.index
        return text if index == 0 else f"{text[:-1]}, ctx={self.context})"

    def __str__(self):
        return repr(self) if self._tensor.is_symbolic else str(self.asnumpy())

    def __format__(self, spec):
        if self.ndim == 0:
            return format(self.item(), spec)
        if spec:
            raise TypeError("unsupported format string passed to mxnet.numpy.ndarray.__format__")
        return str(self)

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self):
        if self.size != 1:
            if self.size == 0:
                return False
            raise ValueError("The truth value of an ndarray with more than one element is "
                             "ambiguous. Use a.any() or a.all()")
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.size != 1 or not _wrap.is_integer(self._tensor):
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.item())

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value):
        return bool((self.asnumpy() == value).any())

    # Shapes.

    @property
    def T(self):
        """The axes reversed."""
        return self.transpose()

    def reshape(self, *shape, order="C", **kwargs):
        """The same elements in another shape; one extent may be -1."""
        if order != "C":
            raise NotImplementedError("reshape: only order='C' is supported")
        shape = kwargs.get("shape", shape)
        if len(shape) == 1 and not isinstance(shape[0], (int, onp.integer)):
            shape = shape[0]
        return ndarray(apart(ops.reshape(self._tensor, tuple(int(extent) for extent in shape))))

    def reshape_view(self, *shape, **kwargs):
        """The same memory in another shape."""
        return NDArray.reshape(self, *shape, **kwargs)

    def transpose(self, *axes):
        """Axes in another order; reversed when none is given."""
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = axes[0] or ()
        return ndarray(apart(ops.transpose(self._tensor, tuple(axes)) if axes
                             else ops.transpose(self._tensor)))

    def flatten(self, order="C"):
        """A copy with one axis."""
        return self.ravel()

    def ravel(self, order="C"):
        """One axis."""
        return ndarray(apart(ops.reshape(self._tensor, (-1,))))

    def broadcast_to(self, shape):
        """Broadcast to a shape."""
        return ndarray(apart(ops.expand(self._tensor, tuple(shape))))

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        """The same values in another dtype."""
        name = dtype_name(dtype)
        if name == self._tensor.dtype.name:
            return self.copy() if copy else self
        return ndarray(ops.cast(self._tensor, name))

    def copy(self, order="C"):
        """A copy, recorded."""
        if order != "C":
            raise NotImplementedError(f"copy: only order='C' is supported, got {order!r}")
        if _core.is_recording() and self._tensor.requires_grad:
            return ndarray(self._tensor + 0)
        # A value of a trace does not change.
        return ndarray(self._tensor if self._tensor.is_symbolic else self._tensor.copy())

    def as_nd_ndarray(self):
        """As an array of mx.nd."""
        return NDArray(self._tensor if self.ndim else ops.reshape(self._tensor, (1,)))

    def as_np_ndarray(self):
        return self

    @property
    def itemsize(self):
        return onp.dtype(self.dtype).itemsize

    @property
    def nbytes(self):
        return self.itemsize * self.size

    def fill(self, value):
        """Writes one value everywhere."""
        self[()] = value

    def __array_function__(self, func, types, args, kwargs):
        """NumPy's functions on these arrays are mx.np's."""
        from lockstep.mxnet import numpy as mx_np

        own = getattr(mx_np, func.__name__, None)
        if own is None:
            return NotImplemented
        return own(*args, **kwargs)


ndarray._out = ndarray
ndarray._keeps_an_axis = False


def _bits(kind, a, b):
    """Bit by bit; of truths the logical ones. The engine has no bits of integers: NumPy's."""
    b = _wrap.as_tensor(b, a)
    if a.dtype.name == "bool" and b.dtype.name == "bool":
        return {"and": ops.logical_and, "or": ops.logical_or, "xor": ops.logical_xor}[kind](a, b)
    if not _wrap.is_integer(a) or not _wrap.is_integer(b):
        raise TypeError(f"bitwise_{kind}: expected integers, got {a.dtype} and {b.dtype}")
    function = {"and": onp.bitwise_and, "or": onp.bitwise_or, "xor": onp.bitwise_xor}[kind]
    return _core.Tensor(function(to_numpy(a), to_numpy(b)))
