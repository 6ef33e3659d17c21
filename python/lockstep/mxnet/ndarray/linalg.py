# SPDX-License-Identifier: Apache-2.0
"""mx.nd.linalg: products, factors and triangles of matrices."""

from lockstep import _core, ops
from lockstep.mxnet.ndarray.ops_reduce import at_least_1d
from lockstep.mxnet.ndarray.registry import op, register


def _turn(a, wanted):
    return _core.swap_axes(a, -1, -2) if wanted else a


def _register(*names, window=False):
    return register(*[name for n in names for name in (f"linalg_{n}", f"_linalg_{n}")],
                    window=window)


@_register("gemm")
def gemm(A, B, C, transpose_a=False, transpose_b=False, alpha=1.0, beta=1.0, axis=-2):  # noqa: N803
    """alpha A B + beta C."""
    return gemm2(A, B, transpose_a, transpose_b, alpha) + C * float(beta)


@_register("gemm2")
def gemm2(A, B, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):  # noqa: N803
    """alpha A B."""
    made = ops.matmul(A, B, bool(transpose_a), bool(transpose_b))
    return made if alpha == 1.0 else made * float(alpha)


@_register("potrf")
def potrf(A, lower=True):  # noqa: N803
    """Cholesky's factor."""
    factor = ops.cholesky(A)
    return factor if lower else _turn(factor, True)


@_register("potri")
def potri(A, lower=True):  # noqa: N803
    """The inverse of what A is a factor of."""
    factor = A if lower else _turn(A, True)
    return ops.inverse(ops.matmul(factor, factor, False, True))


@_register("trmm")
def trmm(A, B, transpose=False, rightside=False, lower=True, alpha=1.0):  # noqa: N803
    """A product with a triangle."""
    triangle = _turn(ops.tril(A) if lower else ops.triu(A), transpose)
    made = ops.matmul(B, triangle) if rightside else ops.matmul(triangle, B)
    return made * float(alpha)


@_register("trsm")
def trsm(A, B, transpose=False, rightside=False, lower=True, alpha=1.0):  # noqa: N803
    """Solves A X = alpha B, or X A = alpha B, for a triangle A."""
    if not rightside:
        return ops.solve_triangular(A, B, not lower, bool(transpose)) * float(alpha)
    made = ops.solve_triangular(A, _turn(B, True), not lower, not transpose)
    return _turn(made, True) * float(alpha)


@_register("sumlogdiag")
def sumlogdiag(A):  # noqa: N803
    """The sum of the logarithms on the diagonal."""
    return at_least_1d(ops.sum(ops.log(ops.diagonal(A)), (-1,)))


@_register("syrk")
def syrk(A, transpose=False, alpha=1.0):  # noqa: N803
    """alpha A A^T, or A^T A."""
    return ops.matmul(A, A, bool(transpose), not transpose) * float(alpha)


@_register("gelqf")
def gelqf(A):  # noqa: N803
    """A = L Q."""
    q, r = ops.qr(_turn(A, True))
    sign = ops.sign(ops.diagonal(r))
    sign = ops.where(ops.equal(sign, 0), 1.0, sign)
    return _turn(q * ops.expand_dims(sign, -2), True), _turn(r * ops.expand_dims(sign, -1), True)


@_register("syevd")
def syevd(A):  # noqa: N803
    """Eigenvectors (rows) and eigenvalues of a symmetric matrix."""
    values, vectors = ops.eigh(A)
    return _turn(vectors, True), values


@_register("inverse")
def inverse(A):  # noqa: N803
    """The inverse."""
    return ops.inverse(A)


@_register("det")
def det(A):  # noqa: N803
    """The determinant."""
    return at_least_1d(ops.det(A))


@_register("slogdet")
def slogdet(A):  # noqa: N803
    """Its sign and the logarithm of its size."""
    sign, log = ops.slogdet(A)
    return at_least_1d(sign), at_least_1d(log)


@_register("extractdiag", window=True)
def extractdiag(A, offset=0):  # noqa: N803
    """A diagonal."""
    return ops.diagonal(A, int(offset))


@_register("makediag")
def makediag(A, offset=0):  # noqa: N803
    """A matrix with a diagonal."""
    return _core.diag_embed(A, int(offset))


def _triangle_places(n, offset, lower):
    rows, columns = [], []
    for r in range(n):
        for c in range(n):
            if (c - r <= offset) if (lower and offset <= 0) or (offset < 0) else (c - r >= offset):
                rows.append(r)
                columns.append(c)
    return rows, columns


@_register("extracttrian")
def extracttrian(A, offset=0, lower=True):  # noqa: N803
    """A triangle's elements in a row."""
    rows, columns = _triangle_places(A.shape[-1], int(offset), bool(lower))
    return A[..., rows, columns]


@_register("maketrian")
def maketrian(A, offset=0, lower=True):  # noqa: N803
    """A matrix of a triangle's elements."""
    count, n = A.shape[-1], 1
    while len(_triangle_places(n, int(offset), bool(lower))[0]) < count:
        n += 1
    rows, columns = _triangle_places(n, int(offset), bool(lower))
    places = _core.Tensor([r * n + c for r, c in zip(rows, columns)], "int64")
    flat = ops.full((*A.shape[:-1], n * n), 0.0, A.dtype, A.device)
    made = ops.scatter(flat, ops.expand(places, A.shape), A, A.ndim - 1)
    return ops.reshape(made, (*A.shape[:-1], n, n))


_NAMES = ("gemm", "gemm2", "potrf", "potri", "trmm", "trsm", "sumlogdiag", "syrk", "gelqf", "syevd",
          "inverse", "det", "slogdet", "extractdiag", "makediag", "extracttrian", "maketrian")
for _name in _NAMES:
    globals()[_name] = op(f"linalg_{_name}")

__all__ = list(_NAMES)
