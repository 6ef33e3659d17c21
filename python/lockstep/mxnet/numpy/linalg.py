# SPDX-License-Identifier: Apache-2.0
"""mx.np.linalg."""

import numpy as onp

import lockstep as ls
from lockstep import _core, ops
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.numpy._wrap import as_float, as_tensor, on_arrays
from lockstep.mxnet.numpy.products import matmul, tensordot  # noqa: F401 - NumPy has them here too

__all__ = ["cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank",
           "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd", "matrix_power"]


@on_arrays
def norm(x, ord=None, axis=None, keepdims=False):  # noqa: A002 - NumPy's name
    """The norm of vectors or matrices."""
    x = as_float(as_tensor(x))
    ord = {"inf": onp.inf, "-inf": -onp.inf}.get(ord, ord)  # noqa: A001
    if axis is None and ord is None:
        made = ops.sqrt(ops.sum(ops.square(ops.reshape(x, (-1,)))))
        return ops.reshape(made, (1,) * x.ndim) if keepdims else made
    axes = (tuple(range(x.ndim)) if axis is None
            else (axis,) if isinstance(axis, int) else tuple(axis))
    axes = tuple(a % x.ndim for a in axes)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    return _matrix_norm(x, ord, axes, keepdims)


def _vector_norm(x, ord, axes, keepdims):  # noqa: A002
    keepdims = bool(keepdims)
    if ord is None or ord == 2:
        return ops.sqrt(ops.sum(ops.square(x), axes, keepdims))
    if ord == onp.inf:
        return ops.max(ops.abs(x), axes, keepdims)
    if ord == -onp.inf:
        return ops.min(ops.abs(x), axes, keepdims)
    if ord == 0:
        return ops.sum(ops.cast(ops.not_equal(x, 0), x.dtype), axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return ops.power(ops.sum(ops.power(ops.abs(x), float(ord)), axes, keepdims), 1.0 / ord)


def _matrix_norm(x, ord, axes, keepdims):  # noqa: A002
    if ord in (None, "fro"):
        return ops.sqrt(ops.sum(ops.square(x), axes, bool(keepdims)))
    row, column = axes
    if ord in (1, -1, onp.inf, -onp.inf):
        first, second = (row, column) if ord in (1, -1) else (column, row)
        sums = ops.sum(ops.abs(x), (first,), True)
        made = (ops.max if ord > 0 else ops.min)(sums, (second,), True)
        return made if keepdims else ops.squeeze(made, axes)
    order = [i for i in range(x.ndim) if i not in axes] + [row, column]
    values = ops.svd(ops.transpose(x, tuple(order)))[1]
    made = {2: lambda v: ops.max(v, (-1,)), -2: lambda v: ops.min(v, (-1,)),
            "nuc": lambda v: ops.sum(v, (-1,))}[ord](values)
    for axis in sorted(axes) if keepdims else ():
        made = ops.expand_dims(made, axis)
    return made


@on_arrays
def svd(a):
    """(U, L, V) with a = U diag(L) V."""
    return tuple(ops.svd(a))


@on_arrays
def cholesky(a):
    """The lower factor."""
    return ops.cholesky(a)


@on_arrays
def inv(a):
    """The inverse."""
    return ops.inverse(a)


@on_arrays
def det(a):
    """The determinant."""
    return ops.det(a)


@on_arrays
def slogdet(a):
    """The determinant's sign and logarithm."""
    return tuple(ops.slogdet(a))


@on_arrays
def solve(a, b):
    """x with a x = b."""
    if b.ndim == a.ndim - 1:
        made = ops.solve(a, ops.expand_dims(b, b.ndim))
        return ops.squeeze(made, (made.ndim - 1,))
    return ops.solve(a, b)


@on_arrays
def qr(a, mode="reduced"):
    """(Q, R)."""
    return tuple(ops.qr(a))


@on_arrays
def eigh(a, UPLO="L"):
    """The values and vectors of a symmetric matrix, of which one triangle is read."""
    return tuple(ops.eigh(_symmetric(a, UPLO)))


@on_arrays
def eigvalsh(a, UPLO="L"):
    """The values of a symmetric matrix."""
    return ops.eigh(_symmetric(a, UPLO))[0]


def _symmetric(a, UPLO):  # noqa: N803 - NumPy's name
    """The symmetric matrix that has one triangle of `a`."""
    if UPLO not in ("L", "U"):
        raise ValueError(f"UPLO is 'L' or 'U', got {UPLO!r}")
    a = as_float(as_tensor(a))
    half, rest = (ops.tril(a, 0), ops.tril(a, -1)) if UPLO == "L" else (ops.triu(a, 0),
                                                                       ops.triu(a, 1))
    return half + ops.transpose(rest, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))


@on_arrays
def tensorinv(a, ind=2):
    """The inverse of `a` as a map of its last axes to its first `ind`."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    first, last = a.shape[:ind], a.shape[ind:]
    count = int(onp.prod(last))
    return ops.reshape(ops.inverse(ops.reshape(as_float(a), (count, -1))), last + first)


@on_arrays
def tensorsolve(a, b, axes=None):
    """x of tensordot(a, x, x.ndim) = b."""
    a, b = as_float(a), as_float(b)
    if axes is not None:
        moved = [axis % a.ndim for axis in axes]
        a = ops.transpose(a, (*[i for i in range(a.ndim) if i not in moved], *moved))
    shape = a.shape[b.ndim:]
    count = int(onp.prod(shape))
    made = ops.solve(ops.reshape(a, (-1, count)), ops.reshape(b, (-1, 1)))
    return ops.reshape(made, shape)


@on_arrays
def pinv(a, rcond=1e-15, hermitian=False):
    """The pseudo-inverse."""
    u, s, v = ops.svd(a)
    if isinstance(rcond, _core.Tensor):
        rcond = ops.expand_dims(rcond, rcond.ndim) if rcond.ndim else rcond
    else:
        rcond = max(float(rcond), 1e-15)
    limit = ops.max(s, (-1,), True) * rcond
    inverse = ops.where(ops.greater(s, limit), 1.0 / s, s * 0)
    axes = tuple(range(a.ndim - 2)) + (a.ndim - 1, a.ndim - 2)
    return ops.matmul(ops.transpose(v, axes) * ops.expand_dims(inverse, inverse.ndim - 1),
                      ops.transpose(u, axes))


def _by_numpy(function):
    """What has no gradient, and no engine's op."""

    def call(*args, **kwargs):
        made = function(*[a.detach().numpy() if isinstance(a, _core.Tensor) else a for a in args],
                        **kwargs)
        if isinstance(made, tuple):
            return tuple(_core.Tensor(onp.ascontiguousarray(part)) for part in made)
        return _core.Tensor(onp.ascontiguousarray(made))

    call.__name__ = function.__name__
    return on_arrays(call)


eig, eigvals, matrix_rank, lstsq = (_by_numpy(f) for f in (
    onp.linalg.eig, onp.linalg.eigvals, onp.linalg.matrix_rank, onp.linalg.lstsq))


@on_arrays
def matrix_power(a, n):
    """A matrix times itself."""
    if n < 0:
        a, n = ops.inverse(a), -n
    made = ls.ops.eye(a.shape[-1], -1, 0, a.dtype)
    for _ in range(n):
        made = ops.matmul(made, a)
    return made


@on_arrays
def multi_dot(arrays):
    """The product of several."""
    made = arrays[0]
    for array in arrays[1:]:
        made = ops.matmul(made, array)
    return made


__getattr__ = attributes_of(globals())
