# SPDX-License-Identifier: Apache-2.0
"""Random calls of mathematical functions, scans, parts of matrices, einsum and linear algebra."""

from calls import Call, along_axis, key

UNARY = {
    "exp2": (-3, 3),
    "log2": (0.1, 5),
    "log10": (0.1, 5),
    "tan": (-1.2, 1.2),
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "atan": (-5, 5),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "asinh": (-5, 5),
    "acosh": (1.1, 5),
    "atanh": (-0.9, 0.9),
    "erfinv": (-0.9, 0.9),
    "trunc": (-5, 5),
    "isnan": (-2, 2),
    "isinf": (-2, 2),
    "isfinite": (-2, 2),
}
BINARY = {
    "atan2": ((-2, 2), (0.3, 2)),
    "fmod": ((-9, 9), (0.5, 3)),
    "hypot": ((-2, 2), (0.3, 2)),
    "logaddexp": ((-4, 4), (-4, 4)),
}


def unary(name):
    return lambda d: Call(name, {}, [d.tensor(d.shape(), *UNARY[name])])


def binary(name):
    def make(d):
        shape = d.shape()
        shapes = [shape, d.broadcast(shape)]
        d.random.shuffle(shapes)
        return Call(name, {}, [d.tensor(s, *r) for s, r in zip(shapes, BINARY[name])])

    return make


def truth(name):
    def make(d):
        shape = d.shape(1, 4)
        return Call(name, {"axes": d.axes(shape), "keepdims": d.flag()}, [d.mask(shape)])

    return make


def stddev(d):
    shape = [max(s, 2) for s in d.shape(1, 4)]
    attrs = {"axes": d.axes(shape), "keepdims": d.flag(), "ddof": d.size(0, 1)}
    return Call("stddev", attrs, [d.tensor(shape, 0.2, 2)])


def cumprod(d):
    x = d.tensor(d.shape(1, 3, 5), 0.5, 1.5)
    return Call("cumprod", {"axis": d.axis(x.shape), "reverse": d.flag()}, [x])


def linear_scan(d):
    a = d.tensor(d.shape(1, 3, 5), -1, 1)
    attrs = {"axis": d.axis(a.shape), "reverse": d.flag()}
    return Call("linear_scan", attrs, [a, d.tensor(a.shape)])


def triangle(name):
    def make(d):
        return Call(name, {"diagonal": d.size(-3, 3)}, [d.tensor(d.shape(2, 4))])

    return make


def diagonal_attrs(d, shape):
    axis1, axis2 = d.random.sample(range(len(shape)), 2)
    return {"offset": d.size(-2, 2), "axis1": axis1, "axis2": axis2}


def diagonal(d):
    x = d.tensor([max(s, 3) for s in d.shape(2, 4)])
    return Call("diagonal", diagonal_attrs(d, x.shape), [x])


def diagonal_backward(d):
    shape = [max(s, 3) for s in d.shape(2, 3)]
    attrs = diagonal_attrs(d, shape)
    rows, columns = shape[attrs["axis1"]], shape[attrs["axis2"]]
    length = min(rows + min(attrs["offset"], 0), columns - max(attrs["offset"], 0))
    rest = [s for i, s in enumerate(shape) if i not in (attrs["axis1"], attrs["axis2"])]
    return Call("diagonal_backward", attrs | {"shape": shape}, [d.tensor(rest + [length])])


def roll(d):
    x = d.tensor(d.shape(1, 4))
    axes = d.axes(x.shape) if d.flag() else []
    shifts = [d.size(-7, 7) for _ in axes or [0]]
    return Call("roll", {"shifts": shifts, "axes": axes}, [x])


def scatter(d):
    """No place is named twice: which update stays there is not torch's to say."""
    x, axis, shape = along_axis(d)
    axis %= len(shape)
    shape[axis] = d.size(1, x.shape[axis])
    index = d.tensor(shape, axis, x.shape[axis], "distinct")
    return Call("scatter", {"axis": axis}, [x, index, d.tensor(shape)])


def categorical(d):
    logits = d.tensor(d.shape(0, 2) + [d.size(2, 9)])
    again = d.flag()
    count = d.size(1, 20) if again else d.size(1, logits.shape[-1])
    return Call("categorical", {"count": count, "replacement": again, "use": d.size()}, [logits, key(d)])


EQUATIONS = [
    "ij,jk->ik", "bij,bjk->bik", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ij,j->i", "j,ij->i",
    "i,j->ij", "i,i->", "ij->ji", "ij->j", "ii->i", "ii", "bii->b", "iji->j", "ij,kj", "ab,bc,cd->ad",
    "abc,cd,bd->a", "...ij,...jk->...ik", "...i,i->...", "i...->...", "ab...,b...c->ac...",
    "bi,bi->b", "abcd,cdef->abef", "cdab,efcd->abef", "ij,ij->ij", "a,b,c->cab", "ab,cd->", "ibj,bj->i",
]  # fmt: skip


def einsum(d):
    equation = d.random.choice(EQUATIONS)
    sizes = {}
    dots = d.shape(1, 2, 4)
    inputs = []
    for term in equation.split("->")[0].split(","):
        shape = []
        for part in term.replace("...", "."):
            if part == ".":
                shape += d.broadcast(dots)
            else:
                shape.append(sizes.setdefault(part, d.size(1, 6)))
        inputs.append(d.tensor(shape))
    return Call("einsum", {"equation": equation}, inputs, tolerance=4)


def square(d, kind):
    return d.tensor(d.shape(0, 2, 3)[:2] + [d.size(1, 6)] * 2, kind=kind)


def of_square(name, kind):
    return lambda d: Call(name, {}, [square(d, kind)], tolerance=50)


def of_matrix(name):
    """Of qr the gradient of wide matrices is not defined."""

    def make(d):
        m, n = d.size(1, 6), d.size(1, 6)
        if name == "qr":
            m, n = max(m, n), min(m, n)
        return Call(name, {}, [d.tensor(d.shape(0, 1, 3)[:1] + [m, n], kind="spaced")], tolerance=50)

    return make


def system(d):
    n, lead = d.size(1, 6), d.shape(0, 2, 3)[:2]
    a = d.tensor(lead + [n, n], kind="regular")
    return a, d.tensor(d.broadcast(lead) + [n, d.size(1, 4)])


def solve(d):
    return Call("solve", {}, list(system(d)), tolerance=50)


def solve_triangular(d):
    attrs = {"upper": d.flag(), "transpose": d.flag()}
    return Call("solve_triangular", attrs, list(system(d)), tolerance=50)


def math_calls():
    table = {name: unary(name) for name in UNARY}
    table.update({name: binary(name) for name in BINARY})
    table.update({name: truth(name) for name in ("any", "all")})
    table.update({name: triangle(name) for name in ("tril", "triu")})
    regular = ("inverse", "det", "cofactors", "slogdet")
    table.update({name: of_square(name, "regular") for name in regular})
    table.update({name: of_matrix(name) for name in ("svd", "qr")})
    table["cholesky"] = of_square("cholesky", "positive")
    table["eigh"] = of_square("eigh", "spectrum")
    for function in (
        stddev, cumprod, linear_scan, diagonal, diagonal_backward, roll, scatter, categorical,
        einsum, solve, solve_triangular,
    ):  # fmt: skip
        table[function.__name__] = function
    return table
