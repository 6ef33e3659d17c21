# SPDX-License-Identifier: Apache-2.0
"""What a Tensor has besides memory, indexing and operators: the ops as methods, and Python's
protocols."""

from lockstep import _core, functions, ops
from lockstep._convert import to_numpy
from lockstep.dtypes import as_dtype

Tensor = _core.Tensor


def _axes(values):
    return values[0] if len(values) == 1 and not isinstance(values[0], int) else values


def _reshape(self, *shape, **keywords):
    """The same elements in another shape; one extent may be -1."""
    if keywords:
        return ops.reshape(self, *shape, **keywords)
    return ops.reshape(self, _axes(shape))


def _transpose(self, *axes, **keywords):
    """Axes in another order; reversed when none is given."""
    if keywords:
        return ops.transpose(self, *axes, **keywords)
    return ops.transpose(self, _axes(axes))


def _expand(self, *shape, **keywords):
    """Broadcast to a shape."""
    if keywords:
        return ops.expand(self, *shape, **keywords)
    return ops.expand(self, _axes(shape))


def _array(self, dtype=None, copy=None):
    array = to_numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _tolist(self):
    """Nested lists of Python numbers."""
    return to_numpy(self).tolist()


def _iterate(self):
    if self.ndim == 0:
        raise TypeError("a tensor without axes cannot be iterated over")
    return (self[i] for i in range(len(self)))


def _contains(self, value):
    return bool((self == value).any())


def _format(self, spec):
    if self.size == 1 and spec:
        return format(self.item(), spec)
    return format(repr(self), spec)


def _rebuild(contents, dtype, shape, wants_gradient=False):
    tensor = _core._from_bytes(contents, dtype, shape)
    if wants_gradient:
        _core.attach_grad(tensor)
    return tensor


def _reduce(self):
    return _rebuild, (_core._to_bytes(self), self.dtype.name, self.shape)


def _deepcopy(self, memo):
    made = self.copy()
    memo[id(self)] = made
    return made


def _dlpack(self, stream=None):
    return _core._to_dlpack(self)


def _attach_grad(self, mode="write"):
    """Makes the tensor a leaf whose gradient `backward` leaves in `grad`: written, or added.

    >>> import lockstep
    >>> x = lockstep.tensor([1.0, 2.0]).attach_grad()
    >>> with lockstep.autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    [2. 4.]
    float32[2] cpu(0)
    """
    _core.attach_grad(self, mode)
    return self


def _backward(self, head_grad=None, retain=False):
    """Sends gradients from this tensor to the leaves it was computed from."""
    _core.backward(self, head_grad, retain)


def _zero_grad(self):
    """Sets the gradient to zeros."""
    _core.zero_gradient(self)


def _to(self, device):
    """The same contents on another device."""
    return _core._to_device(self, device)


_METHODS = {
    "reshape": _reshape, "transpose": _transpose, "expand": _expand, "__array__": _array,
    "tolist": _tolist, "__iter__": _iterate, "__contains__": _contains, "__format__": _format,
    "__reduce__": _reduce, "__copy__": lambda self: self.copy(), "__deepcopy__": _deepcopy,
    "__dlpack__": _dlpack, "__dlpack_device__": lambda self: (1, 0), "attach_grad": _attach_grad,
    "backward": _backward, "zero_grad": _zero_grad, "to": _to,
}


def _numpy(self):
    """The NumPy array on this tensor's memory; bfloat16, which NumPy has not, becomes float32."""
    return to_numpy(self)


def _astype(self, dtype):
    """The same values in another dtype."""
    return ops.cast(self, as_dtype(dtype))


def _flatten(self, start_axis=0):
    """The axes from `start_axis` on made one."""
    return _core.flatten(self, start_axis)


_METHODS.update(numpy=_numpy, astype=_astype, flatten=_flatten, split=functions.split,
                max_pool=functions.max_pool, batch_norm=functions.batch_norm)
_NO_METHODS = ("Update rules", "Fused chains", "Creation")


def _ops_as_methods():
    for family, members in _core._op_families.items():
        for op in members:
            parameters = op._parameters()
            first = parameters[0][1] if parameters else None
            if family in _NO_METHODS or first != "required" or op.__name__.endswith("_backward"):
                continue
            if op.__name__ not in Tensor.__dict__:
                yield op.__name__, op


def complete():
    """Adds them to the type."""
    for name, method in _METHODS.items():
        setattr(Tensor, name, method)
    for name, op in _ops_as_methods():
        setattr(Tensor, name, op)
    Tensor.T = property(lambda self: ops.transpose(self), doc="The axes reversed.")
    Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize,
                             doc="The bytes of its elements.")
    Tensor.itemsize = property(lambda self: self.dtype.itemsize, doc="The bytes of an element.")
    # Beside a NumPy array it is the tensor that decides what an operator means.
    Tensor.__array_priority__ = 1000.0
