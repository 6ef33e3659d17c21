# SPDX-License-Identifier: Apache-2.0
"""mx.nd beside NumPy, over random shapes; conftest prints the seed."""

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, nd


def random_shape(rng, axes=None):
    return tuple(int(n) for n in rng.integers(1, 6, axes or int(rng.integers(1, 5))))


def random_array(rng, shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype("float32")


def assert_same(made, wanted, rtol=1e-4, atol=1e-5):
    wanted = np.asarray(wanted)
    assert made.shape == (wanted.shape or (1,)), (made.shape, wanted.shape)
    np.testing.assert_allclose(made.asnumpy().reshape(wanted.shape), wanted, rtol=rtol, atol=atol)


UNARY = {
    "abs": np.abs, "sign": np.sign, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
    "fix": np.fix, "square": np.square, "exp": np.exp, "expm1": np.expm1, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "arctan": np.arctan, "arcsinh": np.arcsinh, "negative": np.negative, "degrees": np.degrees,
    "radians": np.radians, "cbrt": np.cbrt, "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softsign": lambda x: x / (1 + np.abs(x)),
}
POSITIVE = {"log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
            "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
            "arccosh": lambda x: np.arccosh(x + 1)}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_functions_of_one_array_are_numpys(name, rng):
    x = random_array(rng, random_shape(rng))
    assert_same(getattr(nd, name)(nd.array(x)), UNARY[name](x))


@pytest.mark.parametrize("name", sorted(POSITIVE))
def test_functions_of_positive_numbers_are_numpys(name, rng):
    x = random_array(rng, random_shape(rng), 0.1, 3.0)
    given = x + 1 if name == "arccosh" else x
    assert_same(getattr(nd, name)(nd.array(given)), POSITIVE[name](x))


BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
          "maximum": np.maximum, "minimum": np.minimum, "modulo": np.mod,
          "broadcast_hypot": np.hypot, "broadcast_add": np.add, "broadcast_mul": np.multiply}
COMPARED = {"equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
            "lesser": np.less, "greater_equal": np.greater_equal, "lesser_equal": np.less_equal,
            "logical_and": np.logical_and, "logical_or": np.logical_or,
            "logical_xor": np.logical_xor}


def broadcasting_pair(rng):
    shape = random_shape(rng)
    other = tuple(1 if rng.random() < 0.4 else n for n in shape)
    return random_array(rng, shape), random_array(rng, other) + 3.0


@pytest.mark.parametrize("name", sorted(BINARY))
def test_functions_of_two_arrays_broadcast(name, rng):
    a, b = broadcasting_pair(rng)
    assert_same(getattr(nd, name)(nd.array(a), nd.array(b)), BINARY[name](a, b))


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_comparisons_give_numbers_of_the_arrays_dtype(name, rng):
    a = np.round(random_array(rng, (3, 4)))
    b = np.round(random_array(rng, (3, 4)))
    made = getattr(nd, name)(nd.array(a), nd.array(b))
    assert made.dtype == np.float32
    assert_same(made, COMPARED[name](a, b))


def test_operators_take_numbers_on_both_sides(rng):
    x = random_array(rng, (2, 3), 0.5, 2.0)
    y = nd.array(x)
    for made, wanted in ((y + 1, x + 1), (1 - y, 1 - x), (2 * y, 2 * x), (1 / y, 1 / x),
                         (y ** 2, x ** 2), (2 ** y, 2 ** x), (-y, -x), (y % 0.3, x % 0.3),
                         (abs(-y), x), (y > 1, x > 1), (y == y, x == x)):
        assert_same(made, wanted)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_reductions_take_axes_keepdims_and_exclude(name, rng):
    x = random_array(rng, random_shape(rng, 3))
    y, wanted = nd.array(x), getattr(np, name)
    assert_same(getattr(nd, name)(y), wanted(x))
    assert_same(getattr(y, name)(axis=1), wanted(x, axis=1))
    assert_same(getattr(nd, name)(y, axis=(0, 2), keepdims=True), wanted(x, (0, 2), keepdims=True))
    assert_same(getattr(nd, name)(y, axis=1, exclude=True), wanted(x, (0, 2)))


def test_an_array_of_one_number_has_one_axis():
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum().shape == x[0, 1].shape == x.norm().shape == (1,)
    assert x.sum().asscalar() == 10 and float(x[1, 0]) == 3
    with pytest.raises(ValueError):
        x.asscalar()


@pytest.mark.parametrize("own, wanted, reverse, made", [
    ((2, 3, 4), (4, 0, 2), False, (4, 3, 2)), ((2, 3, 4), (6, 1, -1), False, (6, 1, 4)),
    ((2, 3, 4), (-2,), False, (2, 3, 4)), ((2, 3, 4), (2, -2), False, (2, 3, 4)),
    ((2, 3, 4), (-3, 4), False, (6, 4)), ((2, 3, 4, 5), (-3, -3), False, (6, 20)),
    ((2, 3, 4), (-4, 1, 2, -2), False, (1, 2, 3, 4)), ((2, 3, 4), (2, -4, -1, 3, -2), False,
                                                       (2, 1, 3, 4)),
    ((10, 5, 4), (-1, 0), True, (50, 4)), ((10, 5, 4), (-1, 0), False, (40, 5))])
def test_reshape_knows_mxnets_codes(own, wanted, reverse, made):
    assert nd.zeros(own).reshape(wanted, reverse=reverse).shape == made
    assert nd.reshape(nd.zeros(own), shape=wanted, reverse=reverse).shape == made


def test_reshape_refuses_another_number_of_elements():
    with pytest.raises(mx.MXNetError, match="elements"):
        nd.zeros((2, 3)).reshape((0, 4))


def test_parts_and_places_are_numpys(rng):
    x = random_array(rng, (4, 6))
    y = nd.array(x)
    assert_same(nd.slice(y, begin=(1, None), end=(3, None), step=(1, 2)), x[1:3, ::2])
    assert_same(nd.slice_axis(y, axis=1, begin=-3, end=None), x[:, -3:])
    for part, wanted in zip(nd.split(y, num_outputs=3, axis=1), np.split(x, 3, 1)):
        assert_same(part, wanted)
    assert_same(nd.concat(y, y, dim=0), np.concatenate([x, x]))
    assert_same(nd.stack(y, y, axis=1), np.stack([x, x], 1))
    assert_same(nd.tile(y, reps=(2, 1, 2)), np.tile(x, (2, 1, 2)))
    assert_same(nd.repeat(y, repeats=2, axis=1), np.repeat(x, 2, 1))
    assert_same(nd.flip(y, axis=1), x[:, ::-1])
    assert_same(nd.transpose(y), x.T)
    assert_same(y.swapaxes(0, 1), x.T)
    assert_same(nd.expand_dims(y, 1), x[:, None])
    assert_same(nd.where(y > 0, y, -y), np.abs(x))
    assert_same(nd.clip(y, -0.5, 0.5), np.clip(x, -0.5, 0.5))
    assert_same(nd.diag(y), np.diag(x))
    assert_same(nd.pad(y.reshape((1, 1, 4, 6)), mode="edge",
                       pad_width=(0, 0, 0, 0, 1, 2, 0, 1))[0, 0],
                np.pad(x, ((1, 2), (0, 1)), "edge"))


def test_rows_are_taken_by_numbers_of_any_dtype(rng):
    x = random_array(rng, (5, 3))
    y, rows = nd.array(x), np.array([0, 4, 2])
    assert_same(nd.take(y, nd.array(rows)), x[rows])
    assert_same(nd.take(y, nd.array([7, -1])), x[[4, 0]])
    assert_same(nd.take(y, nd.array([7, -1]), mode="wrap"), x[[2, 4]])
    assert_same(nd.pick(y, nd.array([0, 1, 2, 1, 0])), x[np.arange(5), [0, 1, 2, 1, 0]])
    assert_same(nd.one_hot(nd.array([1, 5, 0]), 3), np.eye(3)[[1, 0, 0]] * [[1], [0], [1]])
    assert_same(nd.gather_nd(y, nd.array([[0, 4], [1, 2]])), x[[0, 4], [1, 2]])
    assert_same(nd.scatter_nd(nd.array([1.0, 2, 3]), nd.array([[0, 1, 0], [0, 1, 0]]), (2, 2)),
                [[4, 0], [0, 2]])
    assert_same(nd.Embedding(nd.array([1, 1]), y), x[[1, 1]])


def test_order_is_told_in_floats(rng):
    x = random_array(rng, (3, 7))
    y = nd.array(x)
    assert nd.argmax(y, axis=1).dtype == nd.argsort(y).dtype == np.float32
    assert_same(nd.argmax(y, axis=1), x.argmax(1))
    assert_same(nd.argmin(y), x.argmin())
    assert_same(nd.sort(y, axis=0), np.sort(x, 0))
    assert_same(nd.argsort(y, is_ascend=False), np.argsort(-x, kind="stable"))
    values, places = nd.topk(y, k=2, ret_typ="both")
    assert_same(values, -np.sort(-x)[:, :2])
    assert_same(places, np.argsort(-x, kind="stable")[:, :2])
    assert nd.topk(y, k=2, ret_typ="mask").sum().asscalar() == 6


def test_products_of_matrices(rng):
    a, b = random_array(rng, (3, 4)), random_array(rng, (4, 5))
    assert_same(nd.dot(nd.array(a), nd.array(b)), a @ b)
    assert_same(nd.dot(nd.array(a.T), nd.array(b), transpose_a=True), a @ b)
    c, d = random_array(rng, (2, 3, 4)), random_array(rng, (4, 2, 2))
    assert_same(nd.dot(nd.array(c), nd.array(d)), np.tensordot(c, d, 1))
    e, f = random_array(rng, (2, 3, 4)), random_array(rng, (2, 5, 4))
    assert_same(nd.batch_dot(nd.array(e), nd.array(f), transpose_b=True), e @ f.swapaxes(1, 2))
    assert_same(nd.linalg_gemm2(nd.array(e), nd.array(f), transpose_b=True, alpha=2.0),
                2 * e @ f.swapaxes(1, 2), 1e-4, 1e-4)


def test_triangular_systems_are_solved(rng):
    a = np.tril(random_array(rng, (3, 3))) + 3 * np.eye(3, dtype="float32")
    b = random_array(rng, (3, 2))
    x = nd.linalg_trsm(nd.array(a), nd.array(b))
    assert_same(nd.dot(nd.array(a), x), b, 1e-3, 1e-4)
    right = nd.linalg.trsm(nd.array(a), nd.array(b.T.copy()), rightside=True)
    assert_same(nd.dot(right, nd.array(a)), b.T, 1e-3, 1e-4)


def test_indices_read_and_write_as_numpys(rng):
    x = random_array(rng, (4, 5, 3))
    y = nd.array(x)
    for key in (1, slice(1, 3), (slice(None), 2), (Ellipsis, 1), (1, slice(None, None, 2)),
                (None, 2), ([0, 2],), (np.array([1, 3]), slice(1, 2)), (slice(None), [0, 1], 2)):
        assert_same(y[key], x[key])
        z, w = y.copy(), x.copy()
        z[key], w[key] = 7.0, 7.0
        assert_same(z, w)
    z, w = y.copy(), x.copy()
    z[1:3] = nd.array(x[:2])
    w[1:3] = x[:2]
    assert_same(z, w)
    assert_same(y[nd.array([0, 3])], x[[0, 3]])
    part = y[1]
    part[:] = 5
    assert (y[1].asnumpy() == 5).all()


def test_a_while_loop_gives_arrays_or_lists_as_its_function_does():
    def count(i, total):
        return i * 2, (i + 1, total + i)

    out, last = nd.contrib.while_loop(lambda i, total: i < 3, count,
                                      (nd.array([0]), nd.array([0])), max_iterations=5)
    assert out[:3].asnumpy().tolist() == [[0], [2], [4]] and out.shape == (5, 1)
    assert [x.asscalar() for x in last] == [3, 3]
    out, last = nd.contrib.while_loop(lambda i: i < 2, lambda i: ([i, -i], i + 1), nd.array([0]), 2)
    assert [x.asnumpy().tolist() for x in out] == [[[0], [1]], [[0], [-1]]] and last.asscalar() == 2
    out, last = nd.contrib.while_loop(lambda i: i < 2, lambda i: (None, i + 1), nd.array([0]), 4)
    assert out == [] and last.asscalar() == 2
    with pytest.raises(ValueError, match="max_iterations"):
        nd.contrib.while_loop(lambda i: i < 2, lambda i: (i, i + 1), nd.array([0]))


def test_arrays_are_float32_unless_told():
    assert nd.array(np.arange(3)).dtype == nd.array([1, 2]).dtype == np.float32
    assert nd.array([1, 2], dtype="int32").dtype == np.int32
    assert nd.array([1.5]).astype("uint8").dtype == np.uint8
    assert nd.arange(3).dtype == nd.zeros((2,)).dtype == np.float32
    assert (nd.array([7], dtype="int32") / 2).asscalar() == 3
    with pytest.raises(TypeError, match="mx.nd.array"):
        nd.zeros((1,)).astype(mx.nd.NDArray)


def test_out_writes_into_an_array(rng):
    x, out = nd.array(random_array(rng, (2, 2))), nd.zeros((2, 2))
    same = out
    nd.exp(x, out=out)
    nd.elemwise_add(out, x, out=out)
    assert same is out
    assert_same(out, np.exp(x.asnumpy()) + x.asnumpy())
    out += 1
    assert same is out
    with pytest.raises(mx.MXNetError, match="shape"):
        nd.exp(x, out=nd.zeros((3,)))


def test_sequences_are_masked_turned_and_ended(rng):
    x = random_array(rng, (4, 3, 2))
    lengths = np.array([1, 4, 2])
    y, ends = nd.array(x), nd.array(lengths)
    masked = nd.SequenceMask(y, ends, use_sequence_length=True, value=-1).asnumpy()
    last = nd.SequenceLast(y, ends, use_sequence_length=True).asnumpy()
    turned = nd.SequenceReverse(y, ends, use_sequence_length=True).asnumpy()
    for i, n in enumerate(lengths):
        assert (masked[:n, i] == x[:n, i]).all() and (masked[n:, i] == -1).all()
        assert (last[i] == x[n - 1, i]).all()
        assert (turned[:n, i] == x[:n, i][::-1]).all() and (turned[n:, i] == x[n:, i]).all()


def test_a_seed_repeats_what_is_drawn():
    mx.random.seed(3)
    first = [nd.random.normal(shape=(3,)).asnumpy(), nd.random.uniform(shape=(2,)).asnumpy()]
    second = nd.random.normal(shape=(3,)).asnumpy()
    mx.random.seed(3)
    again = [nd.random.normal(shape=(3,)).asnumpy(), nd.random.uniform(shape=(2,)).asnumpy()]
    assert all((a == b).all() for a, b in zip(first, again)) and (second != first[0]).any()


def test_draws_have_their_distributions_moments():
    mx.random.seed(0)
    assert abs(nd.random.normal(2, 3, shape=(20000,)).mean().asscalar() - 2) < 0.1
    assert abs(nd.random.uniform(1, 3, shape=(20000,)).mean().asscalar() - 2) < 0.05
    assert abs(nd.random.gamma(4, 0.5, shape=(20000,)).mean().asscalar() - 2) < 0.05
    assert abs(nd.random.poisson(2, shape=(20000,)).mean().asscalar() - 2) < 0.05
    drawn = nd.sample_multinomial(nd.array([[0.2, 0.8], [1.0, 0.0]]), shape=2000).asnumpy()
    assert abs(drawn[0].mean() - 0.8) < 0.05 and (drawn[1] == 0).all()


def test_files_keep_names_and_bits(tmp_path, rng):
    x = random_array(rng, (3, 2))
    nd.save(str(tmp_path / "d"), {"a": nd.array(x), "b": nd.array([1], dtype="int32")})
    loaded = nd.load(str(tmp_path / "d"))
    assert (loaded["a"].asnumpy() == x).all() and loaded["b"].dtype == np.int32
    nd.save(str(tmp_path / "l"), [nd.array(x)])
    assert (nd.load(str(tmp_path / "l"))[0].asnumpy() == x).all()


def test_names_that_are_not_here_say_what_to_write():
    for name, hint in (("num_gpus", "mx.context.num_gpus"), ("distributed", "kv.create"),
                       ("optim", "mx.optimizer")):
        with pytest.raises(AttributeError, match=hint):
            getattr(mx, name)
    with pytest.raises(AttributeError, match="nearest name is 'Convolution'"):
        nd.Convolutoin
    with pytest.raises(AttributeError, match="Activation"):
        mx.gluon.nn.ReLU
    with pytest.raises(AttributeError, match="dtype='uint8'"):
        nd.uint8


def test_gpus_are_devices_of_the_host_where_that_is_wanted(monkeypatch):
    monkeypatch.delenv("LOCKSTEP_GPU_AS_CPU", raising=False)
    assert mx.context.num_gpus() == 0
    with pytest.raises(mx.MXNetError, match="LOCKSTEP_GPU_AS_CPU"):
        nd.zeros((1,), ctx=mx.gpu())
    monkeypatch.setenv("LOCKSTEP_GPU_AS_CPU", "1")
    x = nd.ones((2,), ctx=mx.gpu(1))
    assert x.context == mx.gpu(1) and x.as_in_context(mx.cpu()).context == mx.cpu()
    with pytest.raises(mx.MXNetError):
        x + nd.ones((2,))
    with mx.gpu(2):
        assert nd.zeros((1,)).context == mx.gpu(2)


_COPIES = {
    "reshape": lambda x: nd.reshape(x, shape=(-1,)), "flatten": nd.flatten,
    "reshape_like": lambda x: nd.reshape_like(x, x), "transpose": nd.transpose,
    "T": lambda x: x.T, "expand_dims": lambda x: nd.expand_dims(x, axis=0),
    "squeeze": nd.squeeze, "swapaxes": lambda x: nd.swapaxes(x, dim1=0, dim2=1),
    "slice": lambda x: nd.slice(x, begin=(0, 0), end=(1, 2)),
    "slice_axis": lambda x: nd.slice_axis(x, axis=0, begin=0, end=1),
    "slice_like": lambda x: nd.slice_like(x, nd.zeros((1, 2))),
    "flip": lambda x: nd.flip(x, axis=0),
    "split_v2": lambda x: nd.split_v2(x, (1,))[0], "diag": nd.diag,
    "broadcast_to": lambda x: x.broadcast_to((2, 2)), "Dropout": nd.Dropout,
    "stop_gradient": nd.stop_gradient, "BlockGrad": nd.BlockGrad, "column": lambda x: x[:, 0],
    "steps": lambda x: x[::-1], "np.T": lambda x: x.as_np_ndarray().T,
    "np.reshape": lambda x: x.as_np_ndarray().reshape(-1),
    "np.ravel": lambda x: mx.np.ravel(x.as_np_ndarray()),
    "np.expand_dims": lambda x: mx.np.expand_dims(x.as_np_ndarray(), 0),
    "np.column": lambda x: x.as_np_ndarray()[:, 1],
}
_WINDOWS = {
    "row": lambda x: x[1], "slice": lambda x: x[:1], "part of a row": lambda x: x[0, 1:],
    "all": lambda x: x[:], "reshape": lambda x: x.reshape((4,)), "detach": lambda x: x.detach(),
    "expand_dims": lambda x: x.expand_dims(0, inplace=True),
    "np.row": lambda x: x.as_np_ndarray()[0],
    "np.reshape_view": lambda x: x.as_np_ndarray().reshape_view((4,)),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", _COPIES)
def test_what_an_op_gives_and_what_it_was_given_are_written_apart(name, recorded):
    x = nd.array([[1, 2], [3, 4]])
    if recorded:
        x.attach_grad()
        with autograd.record():
            made = _COPIES[name](x)
    else:
        made = _COPIES[name](x)
    before = made.asnumpy()
    x[:] = 5
    assert (made.asnumpy() == before).all()
    made *= 9
    made[:] = 8
    assert (x.asnumpy() == 5).all()


@pytest.mark.parametrize("name", _WINDOWS)
def test_rows_contiguous_slices_and_reshape_share_memory(name):
    x = nd.array([[1, 2], [3, 4]])
    made = _WINDOWS[name](x)
    made[:] = 9
    assert (x.asnumpy() == 9).sum() == made.size
    x[:] = 5
    assert (made.asnumpy() == 5).all()


def test_columns_are_exchanged_by_way_of_a_third():
    x = nd.array([[1, 2], [3, 4]])
    kept = x[:, 0]
    x[:, 0] = x[:, 1]
    x[:, 1] = kept
    assert x.asnumpy().tolist() == [[2, 1], [4, 3]]


def test_a_row_of_pictures_with_channels_last_is_written_in_place():
    x = nd.Convolution(nd.ones((2, 3, 3, 2)), nd.ones((4, 1, 1, 2)), no_bias=True, kernel=(1, 1),
                       num_filter=4, layout="NHWC")
    x[0][:] = 7
    assert x.asnumpy()[0].min() == 7 and x.asnumpy()[1].max() == 2


def test_gradients_flow_through_copies_and_their_signs_of_zero_stay():
    x = nd.array([[-0.0, 2], [3, 4]])
    x.attach_grad()
    with autograd.record():
        y = x[:, 0] * nd.flatten(x.T)[1]
        signs = np.signbit(nd.transpose(x).asnumpy())
    y.backward()
    assert signs.tolist() == [[True, False], [False, False]]
    assert x.grad.asnumpy().tolist() == [[2, 0], [4, 3]]


def test_a_transposed_factor_of_dot_is_turned_by_one_axis(rng):
    a, b = random_array(rng, (4, 2, 3)), random_array(rng, (4, 5))
    assert_same(nd.dot(nd.array(a), nd.array(b), transpose_a=True), np.einsum("kij,kl->ijl", a, b))
    a, b = random_array(rng, (2, 4)), random_array(rng, (3, 5, 4))
    wanted = np.einsum("ik,mnk->imn", a, b)
    assert_same(nd.dot(nd.array(a), nd.array(b), transpose_b=True), wanted)
    product = mx.sym.dot(mx.sym.var("a"), mx.sym.var("b"), transpose_b=True)
    assert_same(product.eval(a=nd.array(a), b=nd.array(b))[0], wanted)


def test_sums_of_windows_that_reach_beyond_are_sums():
    pool = dict(kernel=(3, 3), stride=(2, 2), pool_type="sum", pooling_convention="full")
    made = nd.Pooling(nd.ones((1, 1, 4, 4)), **pool).asnumpy()
    assert np.allclose(made, [[[[9, 6], [6, 4]]]])
    made = nd.Pooling(nd.ones((1, 1, 4, 4)), pad=(1, 1), **pool).asnumpy()
    assert np.allclose(made, [[[[4, 6, 2], [6, 9, 3], [2, 3, 1]]]])
    made = nd.Pooling(nd.ones((1, 1, 4, 4)), **dict(pool, pool_type="lp", p_value=2)).asnumpy()
    assert np.allclose(made, np.sqrt([[[[9, 6], [6, 4]]]]))


def test_pictures_of_several_sizes_are_sampled_up_to_one():
    large, small = nd.ones((1, 2, 4, 4)), nd.array([[[[1, 2], [3, 4]]]])
    made = nd.UpSampling(large, small, scale=2, sample_type="nearest", num_args=2).asnumpy()
    assert made.shape == (1, 3, 8, 8) and (made[:, :2] == 1).all()
    assert (made[0, 2] == np.kron([[1, 2], [3, 4]], np.ones((4, 4)))).all()
    added = nd.UpSampling(small, small, scale=2, sample_type="nearest", num_args=2,
                          multi_input_mode="sum").asnumpy()
    assert (added[0, 0] == 2 * np.kron([[1, 2], [3, 4]], np.ones((2, 2)))).all()
    together = mx.sym.UpSampling(mx.sym.var("a"), mx.sym.var("b"), scale=2, sample_type="nearest",
                                 num_args=2)
    assert (together.eval(a=large, b=small)[0].asnumpy() == made).all()


def test_exponential_ops_take_a_rate():
    rates = nd.array([0.5, 4.0])
    made = nd.sample_exponential(rates, shape=(4000,)).asnumpy()
    assert np.allclose(made.mean(1), [2, 0.25], rtol=0.15)
    assert 0.2 < nd.random_exponential(4.0, shape=(4000,)).asnumpy().mean() < 0.3
    assert 3.5 < nd.random.exponential(4.0, shape=(4000,)).asnumpy().mean() < 4.5


def test_a_deconvolution_is_as_large_as_its_target(rng):
    x, w = (nd.array(random_array(rng, shape)) for shape in ((1, 2, 4, 4), (2, 3, 3, 3)))
    options = dict(kernel=(3, 3), stride=(2, 2), num_filter=3)
    made = nd.Deconvolution(x, w, target_shape=(8, 8), **options)
    assert_same(made, nd.Deconvolution(x, w, pad=(1, 1), adj=(1, 1), **options).asnumpy())
    assert nd.Deconvolution(x, w, target_shape=(7, 9), **options).shape == (1, 3, 7, 9)
    node = mx.sym.Deconvolution(mx.sym.var("x"), mx.sym.var("w"), target_shape=(8, 8), **options)
    assert_same(node.eval(x=x, w=w)[0], made.asnumpy())
    with pytest.raises(mx.MXNetError, match="too large"):
        nd.Deconvolution(x, w, target_shape=(10, 10), **options)


def test_of_equal_numbers_the_first_one_has_the_gradient_of_the_larger():
    x, y = nd.array([-1, 0, 1]), nd.array([0, 0, 0])
    for one, ahead in ((nd.maximum, [0, 1, 1]), (nd.minimum, [1, 1, 0])):
        for other in (0, 0.0, y):
            x.attach_grad()
            y.attach_grad()
            with autograd.record():
                made = one(x, other)
            made.backward()
            assert x.grad.asnumpy().tolist() == ahead
        assert y.grad.asnumpy().tolist() == [1 - slope for slope in ahead]
    x, y = nd.array([np.nan, 1, 1]), nd.array([1, np.nan, 1])
    for made in (nd.maximum(x, y), nd.minimum(x, y),
                 mx.np.maximum(x.as_np_ndarray(), y.as_np_ndarray())):
        assert np.isnan(made.asnumpy()).tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_sums_and_products_of_integers_have_their_dtype(dtype):
    x = nd.array([[100, 2], [100, 1]], dtype=dtype)
    for made, wanted in ((x.sum(), 203), (x.prod(), 20000), (nd.nansum(x), 203)):
        assert made.dtype == np.dtype(dtype).type
        assert made.asscalar() == np.array(wanted).astype(dtype)
    assert x.sum(axis=1).dtype == np.dtype(dtype).type
