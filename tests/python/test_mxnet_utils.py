# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: checks that can fail, and what tests of MXNet code expect of the rest."""

import os

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd, test_utils
from lockstep.mxnet.gluon import nn, rnn


def test_tolerances_are_those_of_the_dtypes():
    test_utils.assert_almost_equal(np.float32([1.0]), np.float32([1.00005]))
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(np.float32([1.0]), np.float32([1.01]))
    test_utils.assert_almost_equal(np.float16([1.0]), np.float16([1.05]))
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(nd.array([1, 2], dtype="int32"), np.int32([1, 3]))
    with pytest.raises(AssertionError, match="is \\(2,\\)"):
        test_utils.assert_almost_equal(np.ones(2), np.ones((1, 2)), use_broadcast=False)


def test_differences_tell_a_wrong_gradient(rng):
    x = mx.sym.Variable("x")
    at = [rng.uniform(0.5, 1.5, (3, 4))]
    test_utils.check_numeric_gradient(mx.sym.square(x), at, rtol=1e-2, atol=1e-2)
    with pytest.raises(AssertionError):
        test_utils.check_numeric_gradient(mx.sym.square(mx.sym.BlockGrad(x)) + x, at, rtol=1e-2,
                                          atol=1e-2)


def test_symbols_are_compared_with_what_is_expected(rng):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    x, y = rng.normal(size=(2, 3)).astype("float32"), rng.normal(size=(2, 3)).astype("float32")
    test_utils.check_symbolic_forward(a * b, [x, y], [x * y])
    test_utils.check_symbolic_backward(a * b, {"a": x, "b": y}, [np.ones((2, 3))], [y, x])
    test_utils.check_symbolic_backward(a * b, [x, y], [np.ones((2, 3))], [y, x], grad_req="add")
    with pytest.raises(AssertionError):
        test_utils.check_symbolic_forward(a * b, [x, y], [x + y])
    with pytest.raises(AssertionError):
        test_utils.check_symbolic_backward(a * b, [x, y], [np.ones((2, 3))], [x, y + 1])


def test_generators_of_another_distribution_are_found(rng):
    buckets, chances = test_utils.gen_buckets_probs_with_ppf(lambda q: q, 5)
    right = test_utils.verify_generator(rng.random, buckets, chances, nsamples=20000)
    assert len(right) == 5 and all(0 <= p <= 1 for p in right)
    with pytest.raises(AssertionError, match="chi-square"):
        test_utils.verify_generator(lambda n: rng.random(n) ** 1.2, buckets, chances,
                                    nsamples=20000)
    # Of a statistic equal to its degrees of freedom, from tables.
    p, _, _ = test_utils.chi_square_check(lambda n: np.repeat([0, 1], [6, 4]), [0, 1], [0.5, 0.5],
                                          nsamples=10)
    assert abs(p - 0.5270892568655380) < 1e-9


def test_the_environment_is_restored():
    os.environ.pop("LOCKSTEP_TEST_ONE", None)
    with test_utils.environment("LOCKSTEP_TEST_ONE", "1"):
        assert os.environ["LOCKSTEP_TEST_ONE"] == "1"
        with test_utils.environment({"LOCKSTEP_TEST_ONE": None}):
            assert "LOCKSTEP_TEST_ONE" not in os.environ
        assert os.environ["LOCKSTEP_TEST_ONE"] == "1"
    assert "LOCKSTEP_TEST_ONE" not in os.environ


def test_lazy_rules_leave_rows_alone_that_the_gradient_does_not_name(rng):
    weight = nd.array(rng.normal(size=(4, 3)))
    gradient = np.zeros((4, 3), dtype="float32")
    gradient[1] = 1
    for lazy, changed in ((True, [False, True, False, False]), (False, [True] * 4)):
        rule = mx.optimizer.Adam(wd=0.1, lazy_update=lazy)
        after = weight.copy()
        rule.update(0, after, nd.array(gradient).tostype("row_sparse"),
                    rule.create_state(0, weight))
        assert list((after.asnumpy() != weight.asnumpy()).any(axis=1)) == changed


def test_another_storage_is_another_memory():
    dense = nd.ones((2, 2))
    rows = dense.tostype("row_sparse")
    dense[:] = 5
    assert (rows.asnumpy() == 1).all()


def test_arguments_of_hybridized_blocks_are_checked():
    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b=None):
            return a if b is None else a + b

    block = Sum()
    assert block(nd.ones((2,)), 1).asnumpy().tolist() == [2, 2]
    block.hybridize()
    with pytest.raises(ValueError, match="takes arrays, got 1"):
        block(nd.ones((2,)), 1)
    with pytest.raises(ValueError, match="not mixed"):
        block(nd.ones((2,)), mx.sym.var("b"))
    with pytest.raises(ValueError, match="several contexts"):
        block(nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,), ctx=mx.cpu(2)))
    block.hybridize()
    block(nd.ones((2,)))
    assert block(nd.ones((2,)), None).asnumpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="hybridized with"):
        block(nd.ones((2,)), nd.ones((2,)))


def test_symbols_are_named_after_the_blocks_that_made_them():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    outputs = net(mx.sym.var("data")).get_internals().list_outputs()
    assert [o for o in outputs if o.endswith("_output")] == [
        "net_dense0_fwd_output", "net_dense0_relu_fwd_output", "net_dense1_fwd_output"]
    cell = rnn.LSTMCell(3, prefix="lstm_")
    made, _ = cell.unroll(2, [mx.sym.var("a"), mx.sym.var("b")])
    assert mx.sym.Group(made).list_outputs() == ["lstm_t0_out_output", "lstm_t1_out_output"]


def test_blocks_in_lists_and_of_another_kind_are_noticed():
    class Lists(gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(1)]

    with pytest.warns(UserWarning, match="unregistered container"):
        Lists().collect_params()
    block = gluon.Block()
    block.part = nn.Dense(1)
    with pytest.raises(TypeError, match="Changing attribute type"):
        block.part = (2,)


def test_parts_of_a_batch_differ_by_one_at_most():
    parts = gluon.utils.split_data(nd.arange(8), 3, even_split=False)
    assert [p.shape[0] for p in parts] == [3, 3, 2]


@pytest.mark.parametrize("length", [1, 3])
def test_cells_from_both_ends_stop_at_the_valid_length(length, rng):
    cell = rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.LSTMCell(4))
    cell.initialize()
    x = nd.array(rng.normal(size=(2, length, 5)))
    made, _ = cell.unroll(length, x, valid_length=nd.array([1, length]), merge_outputs=True)
    assert made.shape == (2, length, 8)
    assert (made[0, 1:].asnumpy() == 0).all() and (made[1].asnumpy() != 0).any(axis=1).all()


def test_a_layer_and_its_cells_have_the_same_outputs(rng):
    layer = rnn.GRU(4, num_layers=2, bidirectional=True, input_size=3)
    layer.initialize()
    cells = layer.unfuse()
    x = nd.array(rng.normal(size=(5, 2, 3)))
    made, _ = cells.unroll(5, x, layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(made.asnumpy(), layer(x).asnumpy(), rtol=1e-5, atol=1e-6)
    assert set(cells.collect_params()) == set(layer.collect_params())


def test_residual_cells_add_nothing_behind_the_end(rng):
    cell = rnn.ResidualCell(rnn.GRUCell(3, input_size=3))
    cell.initialize()
    x = nd.array(rng.normal(size=(2, 4, 3)))
    made, _ = cell.unroll(4, x, valid_length=nd.array([2, 4]), merge_outputs=True)
    assert (made[0, 2:].asnumpy() == 0).all()
    assert isinstance(cell.unroll(4, [x[:, i] for i in range(4)])[0], list)


def test_cells_that_remember_steps_can_be_hybridized(rng):
    cell = rnn.ZoneoutCell(rnn.LSTMCell(3, input_size=3), zoneout_outputs=0.5, zoneout_states=0.5)
    cell.initialize()
    x = nd.array(rng.normal(size=(2, 4, 3)))
    x.attach_grad()
    cell.hybridize()
    for _ in range(2):
        with autograd.record():
            made, _ = cell.unroll(4, x, merge_outputs=True)
        made.backward()
    assert made.shape == (2, 4, 3) and (x.grad.asnumpy() != 0).any()


def test_gradients_of_constants_are_zero():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(x * 3, x, create_graph=True)
        (second,) = autograd.grad(first, x, create_graph=True)
    assert first.asnumpy().tolist() == [3, 3] and second.asnumpy().tolist() == [0, 0]
    with autograd.record():
        loose = nd.ones((2,)) * 2
    with pytest.raises(mx.MXNetError, match="record"):
        loose.backward()


def test_integers_have_gradients():
    x = nd.array([[1, 2], [3, 4]], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = x[1] * 2
    y.backward()
    assert x.dtype == np.int32 and x.asnumpy().dtype == np.int32
    assert x.grad.asnumpy().tolist() == [[0, 0], [2, 2]]


def test_arrays_in_other_shapes_are_copies_unless_told(rng):
    x = nd.array(rng.normal(size=(2, 1, 3)))
    copies = [x.flatten(), x.squeeze(), x.expand_dims(0)]
    views = [x.flatten(inplace=True), x.squeeze(inplace=True), x.expand_dims(0, inplace=True)]
    x[:] = 7
    assert not any((c.asnumpy() == 7).any() for c in copies)
    assert all((v.asnumpy() == 7).all() for v in views)


def test_axes_that_are_not_there_are_value_errors():
    x = nd.zeros((1, 2, 3))
    for source, place in ((3, 0), (0, 5), ([0, 0], [0, 1]), ([0, 1], [0])):
        with pytest.raises(ValueError, match="moveaxis"):
            nd.moveaxis(x, source, place)


def test_memory_that_is_shared_with_numpy_is_written_from_one_side():
    source = np.zeros((2, 2), dtype="float32")
    shared = nd.from_numpy(source)
    with pytest.raises(ValueError, match="read-only"):
        source[0, 0] = 1
    shared[1, 1] = 5
    assert source[1, 1] == 5
    with pytest.raises(ValueError, match="C-contiguous"):
        nd.from_numpy(np.zeros((2, 3), dtype="float32").T)


def test_rules_as_ops_change_weight_and_states(rng):
    w, g = nd.array(rng.normal(size=(3,))), nd.array(rng.normal(size=(3,)))
    for name, states, options in (("ftml_update", 3, {"t": 1}), ("ftrl_update", 2, {}),
                                  ("rmspropalex_update", 3, {})):
        kept = [nd.zeros((3,)) for _ in range(states)]
        rule = {"ftml_update": mx.optimizer.FTML(learning_rate=0.1),
                "ftrl_update": mx.optimizer.Ftrl(learning_rate=0.1),
                "rmspropalex_update": mx.optimizer.RMSProp(0.1, gamma1=0.95, gamma2=0.9,
                                                           centered=True)}[name]
        expected = w.copy()
        rule.update(0, expected, g, rule.create_state(0, w))
        made = getattr(nd, name)(w, g, *kept, lr=0.1, **options)
        np.testing.assert_allclose(made.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5,
                                   err_msg=name)
        assert all((k.asnumpy() != 0).any() for k in kept[:1])


def test_local_numbers_of_a_correlation_begin_anew_beside_the_global_ones():
    local, whole = mx.metric.PCC(), mx.metric.PCC()
    batches = [(nd.array([0, 1, 1, 0]), nd.array([[.9, .1], [.2, .8], [.6, .4], [.7, .3]])),
               (nd.array([0, 0, 1, 1]), nd.array([[.9, .1], [.2, .8], [.6, .4], [.7, .3]]))]
    for label, guess in batches:
        local.reset_local()
        local.update([label], [guess])
        whole.update([label], [guess])
    last = mx.metric.PCC()
    last.update([batches[1][0]], [batches[1][1]])
    assert local.get() == last.get() and local.get_global() == whole.get() != last.get()


def test_batch_norm_tells_what_it_multiplied_by(rng):
    x = nd.array(rng.normal(size=(8, 3, 2, 2)) * 3)
    with autograd.record():
        _, mean, factor = nd.BatchNorm(x, nd.ones((3,)), nd.zeros((3,)), nd.zeros((3,)),
                                       nd.ones((3,)), eps=1e-3, output_mean_var=True)
    contents = x.asnumpy()
    np.testing.assert_allclose(mean.asnumpy(), contents.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(factor.asnumpy(), 1 / np.sqrt(contents.var((0, 2, 3)) + 1e-3),
                               rtol=1e-4)


def test_methods_that_never_were_say_what_to_write():
    net = nn.Dense(2)
    for thing, name, hint in (
            (net, "to", "reset_ctx"), (net, "train", "autograd.record"), (net, "layers", "net[i]"),
            (net.collect_params(), "copy", "waitall"),
            (net.weight, "has_uninitialized", "list_data"),
            (nd.ones((2,)), "shuffle", "nd.shuffle"),
            (mx.np.ones(2), "asscalar", "item()"), (mx.metric.Accuracy(), "value", "get()"),
            (mx.optimizer.SGD(), "step", "gluon.Trainer"), (mx.io, "MXDataBatch", "DataLoader"),
            (mx.metric, "LossMetric", "mx.metric.Loss"), (mx.npx, "frontend", "broadcast")):
        with pytest.raises(AttributeError, match="does not exist in MXNet: .*" + hint.replace(
                "(", r"\(").replace(")", r"\)").replace("[", r"\[").replace("]", r"\]")):
            getattr(thing, name)
        assert not hasattr(thing, "nothing_of_the_kind")
    for array in (nd.ones((2,)), mx.np.ones(2)):
        assert "shuffle" not in dir(array) and "reshape" in dir(array)
    net.initialize()
    with pytest.raises(TypeError, match="set_data"):
        net.weight[:] = 0

    class Broken(gluon.Block):
        @property
        def out(self):
            return self.weight.typo

    with pytest.raises(AttributeError, match="weight"):
        Broken().out
    with pytest.raises(TypeError, match="autograd.record"):
        net(nd.ones((1, 3)), is_train=True)
    with pytest.raises(TypeError, match="transform_first"):
        gluon.data.DataLoader([1, 2], 1, transform=abs)
    with pytest.raises(TypeError, match="takes no activation"):
        rnn.LSTM(3, activation="tanh")
