# SPDX-License-Identifier: Apache-2.0
"""Products of vectors, matrices and more."""

import numpy as onp

import lockstep as ls
from lockstep import ops
from lockstep.errors import InvalidArgument
from lockstep.mxnet.numpy._wrap import as_tensor, on_arrays

__all__ = ["cross", "dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot",
           "polyval"]


def _common(a, b):
    a, b = as_tensor(a), as_tensor(b)
    if a.dtype != b.dtype:
        a, b = ops.add(a, ops.cast(ops.full((), 0.0, "float32"), b.dtype)), b
        b = ops.cast(b, a.dtype)
    return a, b


def matmul_tensors(a, b):
    """a @ b."""
    if not hasattr(a, "ndim") or not hasattr(b, "ndim") or a.ndim == 0 or b.ndim == 0:
        raise InvalidArgument("matmul: an array without axes cannot be multiplied so")
    a, b = _common(a, b)
    left, right = a.ndim == 1, b.ndim == 1
    a = ops.expand_dims(a, 0) if left else a
    b = ops.expand_dims(b, 1) if right else b
    made = ops.matmul(a, b)
    if right:
        made = ops.squeeze(made, (made.ndim - 1,))
    return ops.squeeze(made, (made.ndim - (1 if right else 2),)) if left else made


@on_arrays
def matmul(a, b):
    """a @ b: of matrices, of stacks of them."""
    return matmul_tensors(as_tensor(a), as_tensor(b))


def _tensordot(a, b, left, right):
    left, right = [i % a.ndim for i in left], [i % b.ndim for i in right]
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise InvalidArgument(f"tensordot: shapes {tuple(a.shape)} and {tuple(b.shape)} do not agree")
    keep_a = [i for i in range(a.ndim) if i not in left]
    keep_b = [i for i in range(b.ndim) if i not in right]
    inner_size = int(onp.prod([a.shape[i] for i in left]))
    shape = tuple(a.shape[i] for i in keep_a) + tuple(b.shape[i] for i in keep_b)
    rows = int(onp.prod([a.shape[i] for i in keep_a]))
    columns = int(onp.prod([b.shape[i] for i in keep_b]))
    a = ops.reshape(ops.transpose(a, tuple(keep_a + left)) if a.ndim else a, (rows, inner_size))
    b = ops.reshape(ops.transpose(b, tuple(right + keep_b)) if b.ndim else b, (inner_size, columns))
    return ops.reshape(ops.matmul(a, b), shape)


@on_arrays
def dot(a, b):
    """The product: over the last axis of a and the last but one of b."""
    a, b = _common(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return ops.multiply(a, b)
    if a.shape[-1] != b.shape[0 if b.ndim == 1 else -2]:
        raise InvalidArgument(f"dot: shapes {tuple(a.shape)} and {tuple(b.shape)} do not agree")
    return _tensordot(a, b, [a.ndim - 1], [0 if b.ndim == 1 else b.ndim - 2])


@on_arrays
def tensordot(a, b, axes=2):
    """The product over several axes."""
    a, b = _common(a, b)
    if isinstance(axes, int):
        return _tensordot(a, b, list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    left, right = ([axis] if isinstance(axis, int) else list(axis) for axis in axes)
    return _tensordot(a, b, left, right)


@on_arrays
def inner(a, b):
    """The product over the last axes."""
    a, b = _common(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return ops.multiply(a, b)
    return _tensordot(a, b, [a.ndim - 1], [b.ndim - 1])


@on_arrays
def vdot(a, b):
    """The product of all elements."""
    a, b = _common(a, b)
    return ops.sum(ops.multiply(ops.reshape(a, (-1,)), ops.reshape(b, (-1,))))


@on_arrays
def outer(a, b):
    """Every element of a times every one of b."""
    a, b = _common(a, b)
    return ops.multiply(ops.reshape(a, (-1, 1)), ops.reshape(b, (1, -1)))


@on_arrays
def kron(a, b):
    """Blocks of b, one for every element of a."""
    a, b = _common(a, b)
    count = max(a.ndim, b.ndim)
    a = ops.reshape(a, (1,) * (count - a.ndim) + tuple(a.shape))
    b = ops.reshape(b, (1,) * (count - b.ndim) + tuple(b.shape))
    left = tuple(extent for one in a.shape for extent in (one, 1))
    right = tuple(extent for one in b.shape for extent in (1, one))
    return ops.reshape(ops.multiply(ops.reshape(a, left), ops.reshape(b, right)),
                       tuple(x * y for x, y in zip(a.shape, b.shape)))


@on_arrays
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector that is normal to two."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = as_tensor(a), as_tensor(b)
    last = tuple(i for i in range(a.ndim) if i != axisa % a.ndim) + (axisa % a.ndim,)
    a = ops.transpose(a, last)
    last = tuple(i for i in range(b.ndim) if i != axisb % b.ndim) + (axisb % b.ndim,)
    b = ops.transpose(b, last)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError("cross: the vectors have 3 elements")
    (x, y, z), (u, v, w) = ([t[..., i] for i in range(3)] for t in (a, b))
    made = ls.stack([y * w - z * v, z * u - x * w, x * v - y * u], -1)
    if axisc in (-1, made.ndim - 1):
        return made
    order = list(range(made.ndim - 1))
    order.insert(axisc % made.ndim, made.ndim - 1)
    return ops.transpose(made, tuple(order))


@on_arrays
def einsum(subscripts, *operands, optimize=False, **_):
    """Einstein's sums."""
    return ls.einsum(subscripts, *[as_tensor(o) for o in operands])


@on_arrays
def polyval(p, x):
    """A polynomial's value, the highest power's factor first."""
    made = x * 0
    for i in range(p.shape[0]):
        made = made * x + p[i]
    return made
