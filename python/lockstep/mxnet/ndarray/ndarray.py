# SPDX-License-Identifier: Apache-2.0
"""The class NDArray: MXNet 1.9's array on an engine's tensor.

It has at least one axis (an array of one number has shape (1,)), comparisons give numbers, and
memory is written in place outside of `record()`.
"""

import numpy as np

from lockstep import _core, ops
from lockstep._convert import to_numpy
from lockstep.mxnet import _hints
from lockstep.mxnet.base import MXNetError, as_shape, dtype_name, is_number
from lockstep.mxnet.context import Context, context_of, device_for
from lockstep.mxnet.ndarray.indexing import assign_item, get_item
from lockstep.mxnet.ndarray.memory import apart, fresh, move
from lockstep.mxnet.ndarray.shapes import infer_shape
from lockstep.mxnet.util import is_np_shape

_recording = _core.is_recording
_NUMPY_TYPES = {name: np.dtype(name).type for name in
                ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64",
                 "bool")}
_INTEGERS = frozenset(("int8", "uint8", "int16", "int32", "int64"))
# Names that tests of array code import from here.
py_slice = slice
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}


def result_class(array):
    """The class of what is computed of an array."""
    return array._out


def _operand(value, tensor):
    """A tensor or a number that an operator of `tensor` takes; None for what is neither."""
    if isinstance(value, NDArray):
        return value._tensor
    if isinstance(value, (float, int)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _tensor_of(value, tensor.dtype.name, tensor.device)
    return None


def _tensor_of(source, dtype, device=0):
    array = np.array(source, dtype="float32" if dtype == "bfloat16" else dtype, order="C")
    tensor = _core._share_buffer(array if array.ndim or is_np_shape() else array.reshape(1))
    if tensor is None:
        tensor = _core.Tensor(array)
    if dtype == "bfloat16":
        tensor = ops.cast(tensor, dtype)
    return tensor if device == 0 or device.index == 0 else tensor.to(device)


def _arithmetic(name):
    def operator(self, other):
        tensor = self._tensor
        value = other._tensor if isinstance(other, NDArray) else _operand(other, tensor)
        if value is None:
            return NotImplemented
        return self._out(getattr_op(tensor, value))

    getattr_op = getattr(_core.Tensor, name)
    operator.__name__ = name
    return operator


def _divide(tensor, value):
    """Of integers MXNet's quotient is an integer."""
    if tensor.dtype.name in _INTEGERS and (isinstance(value, int) or (
            isinstance(value, _core.Tensor) and value.dtype.name in _INTEGERS)):
        return ops.cast(ops.divide(ops.cast(tensor, "float64"), value), tensor.dtype)
    return tensor / value


def _compared(name, op):
    def operator(self, other):
        tensor = self._tensor
        value = _operand(other, tensor)
        if value is None:
            return NotImplemented
        return self._out(ops.cast(op(tensor, value), tensor.dtype))

    operator.__name__ = name
    return operator


def _in_place(name, compute):
    def operator(self, other):
        tensor = self._tensor
        value = _operand(other, tensor)
        if value is None:
            return NotImplemented
        if tensor.is_symbolic or (_recording() and not self._is_leaf):
            self._tensor = compute(tensor, value)
        elif _recording():
            raise MXNetError(f"{name}: in-place operators (+=, -=, x[:] = ...) on an array with "
                             "attach_grad() are not supported while recording")
        else:
            tensor.assign(compute(tensor, value))
        return self

    operator.__name__ = name
    return operator


@_hints.tell_missing(_hints.ARRAY)
class NDArray:
    """An array of numbers on a device."""

    __slots__ = ("_tensor", "_grad_req", "_grad", "_grad_stype", "_stale_grad", "_shown_dtype",
                 "_constant", "__weakref__")
    __array_priority__ = 1000.0

    def __init__(self, tensor):
        self._tensor = tensor

    # What it is.
    @property
    def shape(self):
        """The extent of each axis."""
        return self._tensor.shape

    @property
    def size(self):
        """The number of elements."""
        return self._tensor.size

    @property
    def ndim(self):
        """The number of axes."""
        return self._tensor.ndim

    @property
    def dtype(self):
        """NumPy's type of the elements."""
        name = self._tensor.dtype.name
        if name == "float64":
            return getattr(self, "_shown_dtype", np.float64)
        return _NUMPY_TYPES.get(name, name)

    @property
    def context(self):
        """Where it is."""
        return context_of(self._tensor)

    ctx = context
    device = context

    @property
    def stype(self):
        """How it is stored."""
        return "default"

    @property
    def T(self):
        """The axes reversed."""
        return self._out(apart(ops.transpose(self._tensor))) if self.ndim > 1 else self

    @property
    def handle(self):
        """The engine's tensor."""
        return self._tensor

    # Numbers out of it.
    def asnumpy(self):
        """A NumPy array with a copy of the contents."""
        contents = np.array(to_numpy(self._tensor))
        return self._shown(contents) if contents.dtype == np.float64 else contents

    def _shown(self, contents):
        """Integers of an integer array that wants a gradient, which is kept in float64."""
        return contents.astype(getattr(self, "_shown_dtype", np.float64), copy=False)

    def asscalar(self):
        """The only element, of NumPy's type."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(-1)[0]

    def item(self, *args):
        """One element as a Python number."""
        return self.asnumpy().item(*args)

    def tolist(self):
        """Nested lists of numbers."""
        return self.asnumpy().tolist()

    def __array__(self, dtype=None, copy=None):
        array = self.asnumpy()
        return array if dtype is None else array.astype(dtype)

    def __dir__(self):
        return [name for name in object.__dir__(self) if hasattr(self, name)]

    def __len__(self):
        return self.shape[0]

    def __bool__(self):
        if self.size == 0:
            return False
        if self.size == 1:
            return bool(self.asscalar())
        raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")

    def __float__(self):
        return float(self.asscalar())

    def __int__(self):
        return int(self.asscalar())

    def __index__(self):
        if self._tensor.dtype.name not in _INTEGERS:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.asscalar())

    def __repr__(self):
        extents = "x".join(str(extent) for extent in self.shape)
        kind = (self._out if self.stype == "default" else type(self)).__name__
        if self._tensor.is_symbolic:
            return f"<{kind} {extents} of a trace>"
        return f"\n{self.asnumpy()!s}\n<{kind} {extents} @{self.context}>"

    def __format__(self, spec):
        if spec and self.size == 1:
            return format(self.asscalar(), spec)
        return format(str(self), spec)

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    def __contains__(self, value):
        return bool((self.asnumpy() == value).any())

    def __hash__(self):
        return id(self) >> 4

    def __reduce__(self):
        return _rebuilt, (self._out, self.asnumpy(), self._tensor.dtype.name,
                          str(self.context))

    def __getstate__(self):
        from lockstep.mxnet import _files

        return {"handle": bytearray(_files.array_to_bytes(self._tensor))}

    def __setstate__(self, state):
        """Of an array's bytes as files have them; arrays of a GPU become the host's."""
        from lockstep.mxnet import _files

        self._tensor = _files.array_from_bytes(bytes(state["handle"]))
        if not isinstance(self._tensor, _core.Tensor):
            self._tensor = _tensor_of(self._tensor, self._tensor.dtype.name)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def wait_to_read(self):
        """Computation is done when a call returns."""

    wait_to_write = wait_to_read

    def copy(self):
        """A copy, recorded."""
        if _recording() and self._tensor.requires_grad:
            return self._out(self._tensor + 0)
        return self._out(self._tensor if self._tensor.is_symbolic else self._tensor.copy())

    def copyto(self, other):
        """Copies to another array, or to a context."""
        if isinstance(other, Context):
            return self._out(fresh(self._tensor, move(self._tensor, device_for(other))))
        if other is self:
            return other
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto: expected an array or a context, got {type(other).__name__}")
        target = other._tensor
        if target.shape != self.shape:
            raise ValueError(f"copyto: shapes {self.shape} and {target.shape} differ")
        source = self._tensor.detach()
        if source.device != target.device:
            source = source.to(target.device)
        if _recording() and target.requires_grad:
            other[:] = self
            return other
        with _core._pause(_core.is_training()):
            target.assign(ops.cast(source, target.dtype))
        return other

    def as_in_context(self, context):
        """Itself where it is there already, else a copy."""
        if self.context == context:
            return self
        device = device_for(context)
        if device == 0 and self._tensor.device.index == 0:
            return self
        return self._out(move(self._tensor, device))

    as_in_ctx = as_in_context
    to_device = as_in_context

    def astype(self, dtype, copy=True):
        """The same values in another dtype."""
        name = dtype_name(dtype)
        if name == self._tensor.dtype.name:
            return self.copy() if copy else self
        return self._out(ops.cast(self._tensor, name))

    def as_nd_ndarray(self):
        """As an mx.nd array."""
        return NDArray(self._tensor)

    def as_np_ndarray(self):
        """As an mx.np array."""
        from lockstep.mxnet import numpy as mx_np

        return mx_np.ndarray(self._tensor)

    def tostype(self, stype):
        """With another storage."""
        from lockstep.mxnet.ndarray import sparse

        return sparse.cast_storage(self, stype)

    def asnative(self):
        """The engine's tensor."""
        return self._tensor

    def __lockstep_tensor__(self):
        return self._tensor

    def __dlpack__(self, stream=None):
        return _core._to_dlpack(self._tensor)

    def __dlpack_device__(self):
        return (1, 0)

    def to_dlpack_for_read(self):
        """A capsule on its memory."""
        return _core._to_dlpack(self._tensor)

    to_dlpack_for_write = to_dlpack_for_read

    # Shapes.
    def reshape(self, *shape, **kwargs):
        """The same elements in another shape; MXNet's codes 0, -1, -2, -3 and -4 are known."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = shape[0]
        elif not shape:
            shape = kwargs.get("shape")
        if not shape and shape != 0:
            raise ValueError("reshape: expected a shape")
        shape = as_shape(shape)
        return self._out(ops.reshape(self._tensor, infer_shape(self._tensor.shape, shape,
                                                               kwargs.get("reverse", False))))

    def broadcast_to(self, shape):
        """Axes of one element repeated; 0 keeps an extent."""
        own = self._tensor.shape
        shape = as_shape(shape)
        if len(own) < len(shape):
            own = (1,) * (len(shape) - len(own)) + own
        shape = tuple(o if s == 0 else s for o, s in zip(own, shape))
        return self._out(apart(ops.expand(ops.reshape(self._tensor, own), shape)))

    def broadcast_like(self, other):
        """Broadcast to another's shape."""
        return self.broadcast_to(other.shape)

    def __getitem__(self, key):
        return get_item(self, key)

    def __setitem__(self, key, value):
        assign_item(self, key, value)

    def slice_assign(self, value, begin, end, step=None):
        """self[begin:end:step] = value, as a new array."""
        made = self.copy()
        step = step or (None,) * len(begin)
        made[tuple(slice(*item) for item in zip(begin, end, step))] = value
        return made

    # Gradients.
    @property
    def _is_leaf(self):
        try:
            return self._grad_req != "null"
        except AttributeError:
            return False

    def attach_grad(self, grad_req="write", stype=None):
        """Keeps the gradient of this array, from the next backward on: written or added."""
        if self._tensor.requires_grad:
            self._tensor = self._tensor.detach()
        self._grad_req, self._grad_stype = grad_req, stype or self.stype
        self._grad = None
        if self._tensor.dtype.name == "bool":
            # Nothing flows back to truths.
            self._grad = self._out(_core.zeros_like(self._tensor))
            return
        if not self._tensor.dtype.is_floating:
            # The engine has no gradients of integers: the values in float64, shown as they were.
            self._shown_dtype = _NUMPY_TYPES[self._tensor.dtype.name]
            self._tensor = ops.cast(self._tensor, "float64")
        _core.attach_grad(self._tensor, grad_req)

    @property
    def grad(self):
        """The gradient, zeros before the first backward; None without attach_grad()."""
        if not self._is_leaf:
            return None
        if self._grad is None:
            self._grad = _gradient_of(self)
        return self._grad

    def drop_grad(self):
        """Forgets that a gradient is wanted."""
        _core.attach_grad(self._tensor, "off")
        self._grad_req = "null"

    def detach(self):
        """The same memory without history."""
        return self._out(self._tensor.detach())

    def backward(self, out_grad=None, retain_graph=False, train_mode=True):
        """Sends gradients from here to the arrays that want them."""
        from lockstep.mxnet import autograd

        autograd.backward([self], None if out_grad is None else [out_grad], retain_graph)

    @property
    def _fresh_grad(self):
        """Whether backward has written the gradient since this was set to False."""
        gradient = self._tensor.grad
        last = getattr(self, "_stale_grad", None)
        return gradient is not None and (last is None or not gradient.same_as(last))

    @_fresh_grad.setter
    def _fresh_grad(self, fresh):
        self._stale_grad = None if fresh else self._tensor.grad

    # Operators.
    __add__ = _arithmetic("__add__")
    __radd__ = _arithmetic("__add__")
    __sub__ = _arithmetic("__sub__")
    __rsub__ = _arithmetic("__rsub__")
    __mul__ = _arithmetic("__mul__")
    __rmul__ = _arithmetic("__mul__")
    __mod__ = _arithmetic("__mod__")
    __rmod__ = _arithmetic("__rmod__")
    __pow__ = _arithmetic("__pow__")
    __rpow__ = _arithmetic("__rpow__")
    __matmul__ = _arithmetic("__matmul__")
    __floordiv__ = _arithmetic("__floordiv__")
    __rfloordiv__ = _arithmetic("__rfloordiv__")

    def __truediv__(self, other):
        value = _operand(other, self._tensor)
        return NotImplemented if value is None else self._out(_divide(self._tensor, value))

    def __rtruediv__(self, other):
        value = _operand(other, self._tensor)
        if value is None:
            return NotImplemented
        return self._out(_core.Tensor.__rtruediv__(self._tensor, value))

    __div__, __rdiv__ = __truediv__, __rtruediv__

    __iadd__ = _in_place("+=", lambda t, v: t + v)
    __isub__ = _in_place("-=", lambda t, v: t - v)
    __imul__ = _in_place("*=", lambda t, v: t * v)
    __itruediv__ = _in_place("/=", _divide)
    __imod__ = _in_place("%=", lambda t, v: t % v)
    __ipow__ = _in_place("**=", lambda t, v: t ** v)

    __gt__ = _compared("__gt__", ops.greater)
    __ge__ = _compared("__ge__", ops.greater_equal)
    __lt__ = _compared("__lt__", ops.less)
    __le__ = _compared("__le__", ops.less_equal)

    def __eq__(self, other):
        value = _operand(other, self._tensor)
        if value is None:
            return False
        return self._out(ops.cast(ops.equal(self._tensor, value), self._tensor.dtype))

    def __ne__(self, other):
        value = _operand(other, self._tensor)
        if value is None:
            return True
        return self._out(ops.cast(ops.not_equal(self._tensor, value), self._tensor.dtype))

    def __neg__(self):
        return self._out(-self._tensor)

    def __pos__(self):
        return self

    def __abs__(self):
        return self._out(abs(self._tensor))


NDArray._out = NDArray
NDArray._keeps_an_axis = True  # an element is an array of one


class GradientArray(NDArray):
    """What backward left in an array: always the newest, and zeros before the first."""

    __slots__ = ("_owner", "_kind")

    def __init__(self, owner, kind):
        self._owner = owner
        self._kind = kind

    @property
    def _out(self):
        return self._kind

    @property
    def _tensor(self):
        gradient = self._owner.grad
        if gradient is None:
            # Zeros that the engine knows as the gradient, so that writing to them counts.
            with _core._record(_core.is_training()):
                head = ops.reshape(self._owner, self._owner.shape)
            _core.backward([head], [ops.full(head.shape, 0.0, head.dtype, head.device)], False)
            gradient = self._owner.grad
        return gradient

    @_tensor.setter
    def _tensor(self, value):
        with _core._pause(_core.is_training()):
            self._tensor.assign(value)


def _gradient_of(array):
    """The gradient with the storage that was asked for."""
    stype = getattr(array, "_grad_stype", "default")
    if stype == "default":
        return GradientArray(array._tensor, array._out)
    from lockstep.mxnet.ndarray import sparse

    return sparse.gradient_class(stype)(array._tensor, array._out)


def _rebuilt(kind, contents, dtype, context):
    from lockstep.mxnet.context import context_named

    try:
        device = device_for(context_named(context))
    except MXNetError:
        device = 0
    return kind(_tensor_of(contents, dtype, device))


def to_tensor(value, dtype=None, device=0):
    """A tensor of an array, a number, or what NumPy makes an array of."""
    if isinstance(value, NDArray):
        return value._tensor if dtype is None else ops.cast(value._tensor, dtype)
    if isinstance(value, _core.Tensor):
        return value
    if is_number(value):
        return ops.full((1,), float(value), dtype or "float32", device)
    return _tensor_of(value, dtype or "float32", device)
