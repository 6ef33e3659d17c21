# SPDX-License-Identifier: Apache-2.0
"""What the ops of math_calls.py mean, in PyTorch."""

import torch

UNARY = {
    name: getattr(torch, name)
    for name in (
        "exp2", "log2", "log10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh", "erfinv", "trunc", "isnan", "isinf", "isfinite",
    )  # fmt: skip
}


def logaddexp(a, b):
    """PyTorch's own makes NaN of the gradient at equal infinities."""
    same = torch.isinf(a) & (a == b)
    rest = torch.logaddexp(a.masked_fill(same, 0), b.masked_fill(same, 0))
    return torch.where(same, (a + b) / 2, rest)


BINARY = {"atan2": torch.atan2, "fmod": torch.fmod, "hypot": torch.hypot, "logaddexp": logaddexp}


def truth(function):
    def meaning(a, x):
        for axis in sorted(a["axes"], reverse=True):
            x = function(x, axis, keepdim=a["keepdims"])
        return x

    return meaning


def stddev(a, x):
    return torch.std(x, a["axes"], unbiased=a["ddof"] == 1, keepdim=a["keepdims"])


def cumprod(a, x):
    axis = a["axis"]
    return x.flip(axis).cumprod(axis).flip(axis) if a["reverse"] else x.cumprod(axis)


def linear_scan(a, x, y):
    axis = a["axis"]
    rows = list(zip(x.unbind(axis), y.unbind(axis)))
    state, states = None, []
    for factor, added in rows[::-1] if a["reverse"] else rows:
        state = added if state is None else factor * state + added
        states.append(state)
    return torch.stack(states[::-1] if a["reverse"] else states, axis)


def diagonal(a, x):
    return torch.diagonal(x, a["offset"], a["axis1"], a["axis2"])


def diagonal_backward(a, x):
    zeros = torch.zeros(a["shape"], dtype=x.dtype)
    return torch.diagonal_scatter(zeros, x, a["offset"], a["axis1"], a["axis2"])


def roll(a, x):
    return torch.roll(x, a["shifts"], a["axes"]) if a["axes"] else torch.roll(x, a["shifts"][0])


def scatter(a, x, index, updates):
    return x.scatter(a["axis"], index, updates)


def einsum(a, *operands):
    return torch.einsum(a["equation"], *operands)


def symmetric(x):
    return (x + x.mT) / 2


def signs(vectors):
    """1 or -1 for each column, by the element of the largest magnitude."""
    largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True))
    return torch.where(largest < 0, -1.0, 1.0).to(vectors.dtype).detach()


def svd(a, x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    turn = signs(u)
    return [u * turn, s, vh * turn.mT]


def qr(a, x):
    q, r = torch.linalg.qr(x)
    turn = torch.where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(x.dtype).detach()
    return [q * turn.unsqueeze(-2), r * turn.unsqueeze(-1)]


def eigh(a, x):
    values, vectors = torch.linalg.eigh(symmetric(x))
    return [values, vectors * signs(vectors)]


def solve(a, x, y):
    """Of one axis less than x, torch's own takes y for vectors."""
    while y.dim() < x.dim():
        y = y.unsqueeze(0)
    return torch.linalg.solve(x, y)


def solve_triangular(a, x, y):
    x = x.triu() if a["upper"] else x.tril()
    upper = a["upper"] != a["transpose"]
    return torch.linalg.solve_triangular(x.mT if a["transpose"] else x, y, upper=upper)


def math_meanings():
    table = {name: (lambda a, x, f=f: f(x)) for name, f in UNARY.items()}
    table.update({name: (lambda a, x, y, f=f: f(x, y)) for name, f in BINARY.items()})
    table.update({
        "any": truth(torch.any),
        "all": truth(torch.all),
        "tril": lambda a, x: torch.tril(x, a["diagonal"]),
        "triu": lambda a, x: torch.triu(x, a["diagonal"]),
        "cholesky": lambda a, x: torch.linalg.cholesky(symmetric(x)),
        "inverse": lambda a, x: torch.linalg.inv(x),
        "det": lambda a, x: torch.linalg.det(x),
        "cofactors": lambda a, x: torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT,
        "slogdet": lambda a, x: list(torch.linalg.slogdet(x)),
    })  # fmt: skip
    for function in (
        stddev, cumprod, linear_scan, diagonal, diagonal_backward, roll, scatter, einsum, svd, qr,
        eigh, solve, solve_triangular,
    ):  # fmt: skip
        table[function.__name__] = function
    return table
