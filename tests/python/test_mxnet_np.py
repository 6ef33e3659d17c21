# SPDX-License-Identifier: Apache-2.0
import numpy as onp
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, np, npx


def same(made, expected, rtol=1e-4, atol=1e-5):
    if isinstance(expected, (list, tuple)):
        assert len(made) == len(expected)
        for one, other in zip(made, expected):
            same(one, other, rtol, atol)
        return
    assert isinstance(made, np.ndarray), type(made)
    expected = onp.asarray(expected)
    assert made.shape == expected.shape
    kind = made.asnumpy().dtype.kind
    assert kind == expected.dtype.kind or {kind, expected.dtype.kind} <= set("iu"), made.dtype
    onp.testing.assert_allclose(made.asnumpy(), expected, rtol=rtol, atol=atol)


def some_shape(rng, least=0, most=4):
    return tuple(int(e) for e in rng.integers(1, 5, rng.integers(least, most)))


def some_axis(rng, shape):
    choices = [None] + list(range(-len(shape), len(shape)))
    return choices[rng.integers(0, len(choices))]


def floats(rng, shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype("float32")


UNARY = {name: (-2, 2) for name in """abs absolute fabs sign negative exp expm1 exp2 sin cos tan sinh
    cosh tanh arctan arcsinh square floor ceil trunc fix rint cbrt degrees radians rad2deg deg2rad
    isnan isinf isfinite around logical_not""".split()}
UNARY.update({name: (0.1, 4) for name in "sqrt log log2 log10 log1p reciprocal".split()})
UNARY.update({"arcsin": (-1, 1), "arccos": (-1, 1), "arccosh": (1, 3), "arctanh": (-0.9, 0.9)})


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array_are_numpys(name, rng):
    for _ in range(5):
        x = floats(rng, some_shape(rng), *UNARY[name])
        same(getattr(np, name)(np.array(x)), getattr(onp, name)(x))


BINARY = """add subtract multiply divide true_divide maximum minimum arctan2 hypot equal not_equal less
    less_equal greater greater_equal logical_and logical_or logical_xor mod remainder fmod power
    logaddexp copysign fmax fmin floor_divide""".split()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays_broadcast_as_numpys(name, rng):
    for _ in range(5):
        shape = some_shape(rng, 1)
        other = tuple(e if rng.random() < 0.6 else 1 for e in shape)[rng.integers(0, len(shape)):]
        low = 0.2 if name in ("power", "mod", "remainder", "fmod", "floor_divide") else -2
        x, y = floats(rng, shape, low), floats(rng, other, 0.3)
        same(getattr(np, name)(np.array(x), np.array(y)), getattr(onp, name)(x, y), atol=1e-4)
        same(getattr(np, name)(np.array(x), 1.5), getattr(onp, name)(x, onp.float32(1.5)), atol=1e-4)


REDUCTIONS = "sum mean prod max min amax amin std var all any argmax argmin cumsum median".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys(name, rng):
    for _ in range(8):
        shape = some_shape(rng, 1)
        x, axis = floats(rng, shape), some_axis(rng, shape)
        same(getattr(np, name)(np.array(x), axis=axis), getattr(onp, name)(x, axis=axis))
        if name not in ("argmax", "argmin", "cumsum"):
            same(getattr(np, name)(np.array(x), axis=axis, keepdims=True),
                 getattr(onp, name)(x, axis=axis, keepdims=True))
        if hasattr(onp.ndarray, name):
            same(getattr(np.array(x), name)(axis=axis), getattr(x, name)(axis=axis))
    whole = rng.integers(0, 5, (3, 4))
    if name in ("sum", "prod", "mean"):
        made = getattr(np, name)(np.array(whole, dtype="int32"), axis=1)
        assert made.dtype == (onp.float32 if name == "mean" else onp.int64)
        onp.testing.assert_allclose(made.asnumpy(), getattr(onp, name)(whole, axis=1))


SHAPING = {
    "expand_dims": lambda m, x: m.expand_dims(x, -1), "squeeze": lambda m, x: m.squeeze(x),
    "reshape": lambda m, x: m.reshape(x, (-1, 2)), "ravel": lambda m, x: m.ravel(x),
    "transpose": lambda m, x: m.transpose(x), "moved": lambda m, x: m.moveaxis(x, 0, -1),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, -1), "flip": lambda m, x: m.flip(x, 0),
    "flip all": lambda m, x: m.flip(x), "roll": lambda m, x: m.roll(x, 3),
    "roll axis": lambda m, x: m.roll(x, 1, 0), "tile": lambda m, x: m.tile(x, (2, 1, 1, 2)),
    "tile one": lambda m, x: m.tile(x, 2), "repeat": lambda m, x: m.repeat(x, 2, axis=1),
    "repeat all": lambda m, x: m.repeat(x, 3), "concatenate": lambda m, x: m.concatenate([x, x], 1),
    "stack": lambda m, x: m.stack([x, x], axis=1), "vstack": lambda m, x: m.vstack([x, x]),
    "hstack": lambda m, x: m.hstack([x, x]), "dstack": lambda m, x: m.dstack([x, x]),
    "split": lambda m, x: m.split(x, 2, axis=-1), "split at": lambda m, x: m.split(x, [1, 3], axis=-1),
    "array_split": lambda m, x: m.array_split(x, 3, axis=-1), "pad": lambda m, x: m.pad(
        x, ((1, 0),) * x.ndim), "tril": lambda m, x: m.tril(x), "triu": lambda m, x: m.triu(x, 1),
    "diff": lambda m, x: m.diff(x, axis=-1), "trace": lambda m, x: m.trace(x, 0, 0, -1),
    "broadcast": lambda m, x: m.broadcast_to(x, (2,) + x.shape), "rot90": lambda m, x: m.rot90(x),
    "rot270": lambda m, x: m.rot90(x, 3), "sort": lambda m, x: m.sort(x, axis=-1),
    "argsort": lambda m, x: m.argsort(x, axis=-1), "clip": lambda m, x: m.clip(x, -0.5, 0.5),
    "where": lambda m, x: m.where(x > 0, x, -x), "nonzero": lambda m, x: m.nonzero(x > 0),
    "append": lambda m, x: m.append(x, x, axis=0), "diagonal": lambda m, x: m.diagonal(x),
    "atleast": lambda m, x: m.atleast_3d(x), "flatnonzero": lambda m, x: m.flatnonzero(x > 0),
    "column_stack": lambda m, x: m.column_stack([x, x]), "nan_to_num": lambda m, x: m.nan_to_num(x),
    "ones_like": lambda m, x: m.ones_like(x), "zeros_like": lambda m, x: m.zeros_like(x),
    "full_like": lambda m, x: m.full_like(x, 3), "average": lambda m, x: m.average(x, axis=0),
    "cumprod": lambda m, x: m.cumprod(x, axis=0), "ptp": lambda m, x: m.ptp(x, axis=1),
    "percentile": lambda m, x: m.percentile(x, 30, axis=0), "resize": lambda m, x: m.resize(x, (3, 5)),
}


@pytest.mark.parametrize("name", SHAPING)
def test_functions_of_shapes_are_numpys(name, rng):
    for _ in range(4):
        shape = some_shape(rng, 2)[:2] + (2 * int(rng.integers(2, 4)),)
        if name in ("trace", "diagonal", "column_stack"):
            shape = shape[-2:]
        x = floats(rng, shape)
        same(SHAPING[name](np, np.array(x)), SHAPING[name](onp, x))


def test_products_are_numpys(rng):
    for _ in range(5):
        n, m, k, b = rng.integers(1, 5, 4)
        x, y, v = floats(rng, (n, m)), floats(rng, (m, k)), floats(rng, (m,))
        s, t = floats(rng, (b, n, m)), floats(rng, (b, m, k))
        pairs = [(x, y), (x, v), (v, y), (v, v), (s, y), (s, t)]
        for p, q in pairs:
            same(np.matmul(np.array(p), np.array(q)), onp.matmul(p, q))
            same(np.array(p) @ np.array(q), p @ q)
            same(np.dot(np.array(p), np.array(q)), onp.dot(p, q))
        same(np.tensordot(np.array(s), np.array(t), ((0, 2), (0, 1))),
             onp.tensordot(s, t, ((0, 2), (0, 1))))
        same(np.inner(np.array(x), np.array(v)), onp.inner(x, v))
        same(np.outer(np.array(x), np.array(v)), onp.outer(x, v))
        same(np.kron(np.array(x), np.array(y)), onp.kron(x, y))
        same(np.einsum("bnm,bmk->nk", np.array(s), np.array(t)), onp.einsum("bnm,bmk->nk", s, t))
        same(np.vdot(np.array(v), np.array(v)), onp.vdot(v, v))
        same(np.cross(np.array(floats(rng, (n, 3))) * 0 + 1, np.array([1.0, 2.0, 3.0])),
             onp.cross(onp.ones((n, 3), "float32"), onp.float32([1, 2, 3])))


def test_linear_algebra_is_numpys(rng):
    for _ in range(3):
        a = floats(rng, (4, 4)) + 4 * onp.eye(4, dtype="float32")
        b = floats(rng, (4, 2))
        for name in ("inv", "det", "slogdet"):
            same(getattr(np.linalg, name)(np.array(a)), getattr(onp.linalg, name)(a), rtol=1e-3)
        same(np.linalg.solve(np.array(a), np.array(b)), onp.linalg.solve(a, b), rtol=1e-3)
        same(np.linalg.solve(np.array(a), np.array(b[:, 0])), onp.linalg.solve(a, b[:, 0]), rtol=1e-3)
        spd = a @ a.T
        same(np.linalg.cholesky(np.array(spd)), onp.linalg.cholesky(spd), rtol=1e-3, atol=1e-3)
        same(np.linalg.eigvalsh(np.array(spd)), onp.linalg.eigvalsh(spd), rtol=1e-3, atol=1e-3)
        u, s, v = np.linalg.svd(np.array(b.T))
        same((u * s) @ v, b.T, rtol=1e-3, atol=1e-4)
        same(np.linalg.pinv(np.array(b)), onp.linalg.pinv(b), rtol=1e-2, atol=1e-3)
        for order in (None, 1, 2, onp.inf, "fro", "nuc"):
            same(np.linalg.norm(np.array(a), order), onp.linalg.norm(a, order), rtol=1e-3)
        for order in (None, 1, 2, 3, onp.inf, 0):
            same(np.linalg.norm(np.array(b), order, axis=0), onp.linalg.norm(b, order, axis=0))
        same(np.linalg.norm(np.array(b), axis=1, keepdims=True),
             onp.linalg.norm(b, axis=1, keepdims=True))


def test_new_arrays_are_float32_unless_told():
    assert np.array([1, 2]).dtype == onp.float32 and np.array(3).shape == ()
    assert np.array(onp.arange(3)).dtype == onp.int64
    assert np.array([True, False], dtype=bool).dtype == onp.bool_
    assert np.zeros((2,), dtype=np.int32).dtype == onp.int32
    same(np.arange(2, 8, 1.5), onp.arange(2, 8, 1.5, "float32"))
    same(np.arange(5), onp.arange(5, dtype="float32"))
    same(np.linspace(0, 1, 7), onp.linspace(0, 1, 7, dtype="float32"))
    same(np.full((2, 3), 7), onp.full((2, 3), 7.0, "float32"))
    same(np.eye(3, 4, 1), onp.eye(3, 4, 1, "float32"))
    for made, other in zip(np.meshgrid(np.arange(3), np.arange(2)), onp.meshgrid(
            onp.arange(3.0), onp.arange(2.0))):
        same(made, other.astype("float32"))
    assert np.pi == onp.pi and np.float32 is onp.float32 and np.newaxis is None
    with pytest.raises(ValueError, match="as_np_ndarray"):
        np.array(mx.nd.ones((2,)))
    assert type(mx.nd.ones((2,)).as_np_ndarray()) is np.ndarray
    assert type(np.ones(2).as_nd_ndarray()) is mx.nd.NDArray


def test_operators_and_indices_are_numpys(rng):
    x, y = floats(rng, (3, 4), 0.5), floats(rng, (4,), 0.5)
    a, b = np.array(x), np.array(y)
    for function in (lambda p, q: p + q, lambda p, q: p - q, lambda p, q: q / p, lambda p, q: p ** 2,
                     lambda p, q: 2 - p, lambda p, q: 1 / p, lambda p, q: p % q, lambda p, q: p // q,
                     lambda p, q: -p, lambda p, q: abs(-p), lambda p, q: p > q, lambda p, q: p == p,
                     lambda p, q: (p > 1) & (q > 1), lambda p, q: ~(p > 1), lambda p, q: p[1],
                     lambda p, q: p[1, 2], lambda p, q: p[..., None], lambda p, q: p[p > 1],
                     lambda p, q: p[:, ::2], lambda p, q: p[[0, 2]], lambda p, q: p.T @ p,
                     lambda p, q: p.reshape(2, -1), lambda p, q: p.flatten(), lambda p, q: p[-1, -1]):
        same(function(a, b), function(x, y))
    whole = np.array([1, 2, 3], dtype="int32")
    assert (whole / 2).dtype == onp.float32 and (whole + 1).dtype == onp.int32
    assert (whole * 0.5).asnumpy().tolist() == [0.5, 1.0, 1.5]
    a[0] = 5
    a[1, :2] = np.array([7.0, 8.0])
    a += 1
    assert a[0].asnumpy().tolist() == [6] * 4 and a[1, 1].item() == 9
    assert float(a[1, 1]) == 9 and int(whole[2]) == 3 and [1, 2, 3][whole[0]] == 2
    assert repr(np.array([1.0, 2.0])) == "array([1., 2.])" and f"{np.array(1.5):.2f}" == "1.50"
    assert len(whole) == 3 and [int(v) for v in whole] == [1, 2, 3]
    with pytest.raises(AttributeError, match="item"):
        whole[0].asscalar()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(whole)
    assert isinstance(onp.mean(a), np.ndarray)


def test_gradients_flow_through_functions_of_numpys_names(rng):
    x = floats(rng, (3, 4), 0.5)
    for function, slope in (
            (lambda m, p: m.sum(m.exp(p)), onp.exp(x)), (lambda m, p: m.log(p).mean(), 1 / x / 12),
            (lambda m, p: m.sqrt(p).sum(), 0.5 / onp.sqrt(x)),
            (lambda m, p: (m.dot(p, m.ones((4, 2)))).sum(), onp.full((3, 4), 2.0)),
            (lambda m, p: m.concatenate([p, 2 * p], axis=1).sum(), onp.full((3, 4), 3.0)),
            (lambda m, p: m.linalg.norm(p), x / onp.linalg.norm(x)),
            (lambda m, p: m.where(p > 1, p * p, p).sum(), onp.where(x > 1, 2 * x, 1)),
            (lambda m, p: p.max(), (x == x.max()) * 1.0), (lambda m, p: p[1].sum(), onp.eye(3)[1][
                :, None] * onp.ones((3, 4)))):
        a = np.array(x)
        a.attach_grad()
        with autograd.record():
            y = function(np, a)
        y.backward()
        same(a.grad, slope.astype("float32"))


def test_random_arrays_have_their_distributions_and_their_seed():
    draws = {
        "uniform": (lambda n: np.random.uniform(-1, 3, n), 1, 16 / 12),
        "normal": (lambda n: np.random.normal(2, 3, n), 2, 9),
        "exponential": (lambda n: np.random.exponential(2, n), 2, 4),
        "gamma": (lambda n: np.random.gamma(3, 2, n), 6, 12),
        "laplace": (lambda n: np.random.laplace(1, 2, n), 1, 8),
        "gumbel": (lambda n: np.random.gumbel(0, 1, n), 0.5772, 1.6449),
        "randint": (lambda n: np.random.randint(0, 4, n), 1.5, 1.25),
        "rand": (lambda n: np.random.rand(n), 0.5, 1 / 12),
        "beta": (lambda n: np.random.beta(2, 2, n), 0.5, 0.05),
        "rayleigh": (lambda n: np.random.rayleigh(1, n), 1.2533, 0.4292),
    }
    for name, (draw, mean, var) in draws.items():
        np.random.seed(7)
        x = draw(40000).asnumpy().astype("float64")
        assert abs(x.mean() - mean) < 0.05 * max(1, var), name
        assert abs(x.var() - var) < 0.08 * max(1, var), name
        np.random.seed(7)
        assert (draw(40000).asnumpy() == x.astype("float32")).all(), name
    assert np.random.multinomial(10, [0.2, 0.3, 0.5]).sum().item() == 10
    assert np.random.normal().shape == () and np.random.uniform(size=(2, 3)).dtype == onp.float32
    x = np.arange(50)
    np.random.shuffle(x)
    assert sorted(x.asnumpy().tolist()) == list(range(50)) and x.asnumpy().tolist() != list(range(50))
    assert sorted(np.random.permutation(9).asnumpy().tolist()) == list(range(9))
    assert set(np.random.choice(np.array([3, 5]), 20).asnumpy().tolist()) <= {3.0, 5.0}


def test_npx_has_what_nets_need(rng):
    x = floats(rng, (2, 3))
    soft = onp.exp(x) / onp.exp(x).sum(1, keepdims=True)
    same(npx.softmax(np.array(x)), soft)
    same(npx.log_softmax(np.array(x)), onp.log(soft))
    same(npx.relu(np.array(x)), onp.maximum(x, 0))
    same(npx.sigmoid(np.array(x)), 1 / (1 + onp.exp(-x)))
    same(npx.one_hot(np.array([0, 2]), 3), onp.eye(3, dtype="float32")[[0, 2]])
    same(npx.pick(np.array(x), np.array([2, 0])), x[[0, 1], [2, 0]])
    a, b = floats(rng, (2, 3, 4)), floats(rng, (2, 4, 5))
    same(npx.batch_dot(np.array(a), np.array(b)), a @ b)
    top = npx.topk(np.array(x), k=2, ret_typ="value")
    same(top, -onp.sort(-x, axis=1)[:, :2])
    image = floats(rng, (1, 2, 6, 6))
    made = npx.convolution(np.array(image), np.array(floats(rng, (3, 2, 3, 3))), kernel=(3, 3),
                           num_filter=3, no_bias=True)
    assert made.shape == (1, 3, 4, 4) and isinstance(made, np.ndarray)
    pooled = npx.pooling(np.array(image), kernel=(2, 2), stride=(2, 2), pool_type="max")
    same(pooled, image.reshape(1, 2, 3, 2, 3, 2).max((3, 5)))
    masked = npx.sequence_mask(np.array(a), np.array([1, 2, 1]), use_sequence_length=True, value=-1)
    assert isinstance(masked, np.ndarray) and (masked[1, 0].asnumpy() == -1).all()
    assert npx.num_gpus() == mx.context.num_gpus() and npx.cpu() == mx.cpu()


def test_npx_switches_numpys_semantics_on_and_off():
    assert not npx.is_np_array()
    npx.set_np()
    try:
        assert npx.is_np_array() and npx.is_np_shape()
    finally:
        npx.reset_np()
    assert not npx.is_np_array()

    @mx.util.use_np
    def inside():
        return npx.is_np_array()

    assert inside() and not npx.is_np_array()


def test_arrays_of_np_are_saved_and_loaded(tmp_path, rng):
    path = str(tmp_path / "x.params")
    x = np.array(floats(rng, (2, 3)))
    npx.save(path, {"a": x, "scalar": np.array(2.0)})
    loaded = npx.load(path)
    same(loaded["a"], x.asnumpy())
    assert loaded["scalar"].shape == () and loaded["scalar"].item() == 2
    npx.save(path, [x])
    same(npx.load(path), [x.asnumpy()])


def test_what_np_has_not_says_so():
    with pytest.raises(AttributeError, match="concatenate"):
        np.concatenat
    with pytest.raises(AttributeError, match="mx.contrib.amp"):
        npx.amp


@pytest.mark.parametrize("option", [{"where": False}, {"subok": False}, {"dtype": "int8"},
                                    {"casting": "safe"}, {"order": "C"}])
def test_options_that_mean_something_else_are_refused(option):
    x = np.ones((2,))
    for call in (lambda: np.exp(x, **option), lambda: np.add(x, x, **option)):
        with pytest.raises(NotImplementedError, match=next(iter(option))):
            call()
    with pytest.raises(TypeError):
        np.exp(x, casting="whatever")


def test_shape_codes_of_npx_are_not_those_of_nd():
    for own, wanted, reverse, made in (
            ((2, 3, 5, 5), (-2, -1), False, (2, 75)), ((2, 1, 4), (-2, -3, -2), False, (2, 4)),
            ((2, 3, 5, 6), (6, 1, -4), False, (6, 1, 5, 6)), ((2, 3, 5), (-5, -2), False, (6, 5)),
            ((64, 2), (-6, 16, -1, -4), False, (16, 4, 2)),
            ((8, 5, 4, 6), (-4, -1, 3, -6), True, (8, 5, 4, 2, 3))):
        x = np.arange(int(onp.prod(own))).reshape(own)
        same(npx.reshape(x, wanted, reverse), x.asnumpy().reshape(made))
    with pytest.raises(mx.MXNetError, match="-3"):
        npx.reshape(np.ones((2, 3)), (-3, -2))


def test_functions_of_numpys_work_inside_hybridized_blocks(rng):
    class Unique(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.np.unique(x)

    block = Unique()
    block.hybridize()
    x = np.array([3, 1, 3, 2])
    for _ in range(2):
        same(block(x), onp.array([1.0, 2.0, 3.0]))


def test_edges_are_numpys(rng):
    x = np.array(floats(rng, (3, 4)))
    same(np.var(x, axis=()), onp.zeros((3, 4)))
    same(np.tril(np.ones((3,))), onp.tril(onp.ones((3,))))
    same(np.roll(x, (1, 2), axis=None), onp.roll(x.asnumpy(), 3))
    same(x.clip(min=0.1, max=0.2), x.asnumpy().clip(0.1, 0.2))
    same(np.squeeze(np.array(2.0), 0), onp.array(2.0))
    same(np.linspace(0, 5, 4, dtype="int32"), onp.linspace(0, 5, 4, dtype="int32"))
    whole = np.array(onp.full((4,), 100), dtype="int8")
    same(np.sum(whole, dtype="int8"), onp.sum(whole.asnumpy(), dtype="int8"))
    matrix = floats(rng, (4, 4))
    for side in "LU":
        onp.testing.assert_allclose(np.linalg.eigvalsh(np.array(matrix), UPLO=side).asnumpy(),
                                    onp.linalg.eigvalsh(matrix, side), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="lognormal"):
        np.random.lognormal(sigma=-1)
    with pytest.raises(mx.MXNetError, match="eye"):
        np.eye(-1)
    with pytest.raises(ValueError, match="too dark"):
        npx.constraint_check(np.array([True, False], dtype="bool"), "too dark")


def test_tensors_are_inverted_and_solved(rng):
    a, b = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3))
    onp.testing.assert_allclose(
        np.linalg.tensorsolve(np.array(a, dtype="float64"), np.array(b, dtype="float64")).asnumpy(),
        onp.linalg.tensorsolve(a, b), rtol=1e-8)
    onp.testing.assert_allclose(np.linalg.tensorinv(np.array(a, dtype="float64")).asnumpy(),
                                onp.linalg.tensorinv(a), rtol=1e-8)


@pytest.mark.parametrize("hybridized", [False, True])
def test_the_determinant_of_a_singular_matrix_has_a_gradient(hybridized):
    class Det(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.np.linalg.det(x)

    net = Det()
    if hybridized:
        net.hybridize()
    x = np.array([[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[0, 0, 0], [0, 2, 0], [0, 0, 3]]])
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    want = [[[-3, 6, -3], [6, -12, 6], [-3, 6, -3]], [[6, 0, 0], [0, 0, 0], [0, 0, 0]]]
    onp.testing.assert_allclose(x.grad.asnumpy(), want, atol=1e-4)
