# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep import _core
from lockstep.mxnet import autograd, gluon, nd


def test_gradients_are_zero_before_and_written_by_backward():
    x = nd.array([1.0, 2.0])
    assert x.grad is None
    x.attach_grad()
    held = x.grad
    assert held.asnumpy().tolist() == [0, 0]
    with autograd.record():
        y = x * x
    y.backward()
    assert held.asnumpy().tolist() == x.grad.asnumpy().tolist() == [2, 4]
    with autograd.record():
        z = (3 * x).sum()
    z.backward()
    assert held.asnumpy().tolist() == [3, 3]


def test_gradients_are_added_and_cleared():
    x = nd.ones((2,))
    x.attach_grad("add")
    for _ in range(3):
        with autograd.record():
            y = 2 * x
        y.backward()
    assert x.grad.asnumpy().tolist() == [6, 6]
    x.grad[:] = 0
    with autograd.record():
        y = 2 * x
    y.backward(nd.array([1.0, 10.0]))
    assert x.grad.asnumpy().tolist() == [2, 20]


def test_modes_are_told_and_restored():
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording() and not autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording() and not autograd.is_training()
    with autograd.train_mode():
        assert autograd.is_training() and not autograd.is_recording()
        assert (nd.Dropout(nd.ones((1000,)), p=0.5).asnumpy() == 0).any()
    assert autograd.set_recording(True) is False and autograd.is_recording()
    assert autograd.set_recording(False) is True and not autograd.is_recording()


def test_a_head_that_was_not_recorded_is_told():
    x = nd.ones((2,))
    with pytest.raises(mx.MXNetError, match="record"):
        (x * 2).backward()


def test_heads_of_integers_take_gradients_of_integers():
    x = nd.array([3, 1, 2], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = nd.topk(x, k=2, ret_typ="value")
    y.backward(nd.array([5, 7], dtype="int32"))
    assert x.grad.asnumpy().tolist() == [5, 0, 7]


def test_gradients_of_gradients():
    x = nd.array([2.0])
    x.attach_grad()
    with autograd.record():
        y = x ** 3
        (first,) = autograd.grad(y, x, create_graph=True)
        (second,) = autograd.grad(first, x)
    assert first.asscalar() == 12 and second.asscalar() == 12


def test_a_function_has_a_gradient_of_its_own():
    class Sigmoid(autograd.Function):
        def forward(self, x):
            y = 1 / (1 + nd.exp(-x))
            self.save_for_backward(y)
            return y

        def backward(self, dy):
            (y,) = self.saved_tensors
            return dy * y * (1 - y) * 100

    x = nd.array([0.0, 1.0])
    x.attach_grad()
    with autograd.record():
        y = Sigmoid()(x)
    y.backward()
    s = 1 / (1 + np.exp(-x.asnumpy()))
    np.testing.assert_allclose(x.grad.asnumpy(), 100 * s * (1 - s), rtol=1e-5)


def test_writing_under_record_is_part_of_what_is_recorded():
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = nd.zeros((3,))
        y[1:] = x[:2] * 2
        z = (y * nd.array([1.0, 10.0, 100.0])).sum()
    z.backward()
    assert x.grad.asnumpy().tolist() == [20, 200, 0]
    with autograd.record(), pytest.raises(mx.MXNetError, match="attach_grad"):
        x += 1


def _slope(function, start=(1.0, 2.0, 3.0)):
    x = nd.array(start)
    x.attach_grad()
    with autograd.record():
        y = function(x)
    y.backward()
    return x.grad.asnumpy().tolist()


@pytest.mark.parametrize("value", [0, np.zeros((1, 2)), [0, 0], np.float64(0), nd.zeros((2,)),
                                   nd.zeros((1, 1))], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("key", [slice(1, None), (slice(1, 3),), [1, 2]], ids=str)
def test_no_gradient_flows_to_what_a_constant_was_written_over(key, value):
    def function(x):
        y = x * 3
        y[key] = value
        return y.sum()

    assert _slope(function) == [3, 0, 0]


def test_what_was_computed_before_a_write_keeps_its_gradient():
    def squares(x):
        y = x * 2
        before = (y * y).sum()
        y[0] = 7
        return before + (y * y).sum()

    assert _slope(squares, (1.0, 2.0)) == [8, 32]
    for everything in (slice(None), Ellipsis):
        def replaced(x):
            y = x * 1
            y[everything] = 0
            return (y + x).sum()

        assert _slope(replaced) == [1, 1, 1]


def test_out_and_copyto_replace_what_is_recorded():
    def by_out(x):
        y = x * x
        nd.zeros_like(nd.ones((3,)), out=y)
        return (y + x).sum()

    def by_copyto(x):
        y = x * 1
        before = y * y
        nd.zeros((3,)).copyto(y)
        return (before + y).sum()

    def by_numpys_out(x):
        y = mx.np.zeros((3,))
        mx.np.square(x.as_np_ndarray(), out=y)
        return y.sum().as_nd_ndarray()

    assert _slope(by_out) == [1, 1, 1]
    assert _slope(by_copyto) == [2, 4, 6]
    assert _slope(by_numpys_out) == [2, 4, 6]


def test_a_constant_written_in_a_hybridized_block_stops_the_gradient():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = x * 3
            y[1:] = 0
            return y

    for hybridized in (False, True):
        net = Net()
        net.hybridize(hybridized)
        assert _slope(net) == [3, 0, 0]


def test_a_hybridized_block_writes_its_input_to_an_array_of_its_own():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.zeros((3,))
            y[1:] = x[:2]
            return y

    net = Net()
    net.hybridize()
    assert net(nd.array([1.0, 2.0, 3.0])).asnumpy().tolist() == [0, 1, 2]
    assert _slope(net) == [1, 1, 0]


def test_gradients_cross_contexts(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_GPU_AS_CPU", "1")
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x.as_in_context(mx.gpu(0)) * 3).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [3, 3] and x.grad.context == mx.cpu()


@pytest.mark.parametrize("name, kwargs", [
    ("softmax", {}), ("log_softmax", {"axis": 0}), ("LayerNorm", {}),
    ("smooth_l1", {"scalar": 1.5}), ("norm", {}), ("L2Normalization", {}), ("gammaln", {}), ("LeakyReLU", {"act_type": "elu"}),
    ("moments", {"axes": (1,)}), ("topk", {"ret_typ": "value", "k": 2})])
def test_slopes_are_those_of_differences(name, kwargs, rng):
    x = rng.uniform(0.3, 2.0, (3, 4))
    weights = nd.array(rng.normal(size=(3, 4)), dtype="float64")

    def function(x):
        extra = (nd.ones((4,), dtype="float64") * 2, nd.zeros((4,), dtype="float64"))
        made = getattr(nd, name)(x, *(extra if name == "LayerNorm" else ()), **kwargs)
        made = made[1] if isinstance(made, list) else made
        return made * weights if made.shape == (3, 4) else made * made

    at = nd.array(x, dtype="float64")
    at.attach_grad()
    with autograd.record():
        total = function(at).sum()
    total.backward()
    differences = np.zeros(x.shape)
    for i in np.ndindex(*x.shape):
        moved = np.zeros(x.shape)
        moved[i] = 1e-3
        ends = [function(nd.array(x + sign * moved, dtype="float64")).sum().asscalar()
                for sign in (1, -1)]
        differences[i] = (ends[0] - ends[1]) / 2e-3
    np.testing.assert_allclose(at.grad.asnumpy(), differences, rtol=1e-2, atol=1e-3)


def test_outputs_of_losses_have_the_losses_gradient(rng):
    data, label = nd.array(rng.normal(size=(4, 3))), nd.array([0, 2, 1, 1])
    data.attach_grad()
    with autograd.record():
        made = nd.SoftmaxOutput(data, label)
    made.backward()
    wanted = made.asnumpy() - np.eye(3)[[0, 2, 1, 1]]
    np.testing.assert_allclose(data.grad.asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    with autograd.record():
        made = nd.LinearRegressionOutput(data, nd.zeros((4, 3)))
    made.backward()
    np.testing.assert_allclose(data.grad.asnumpy(), data.asnumpy() / 3, rtol=1e-5)


def test_ops_written_in_python_are_called_by_name():
    class Scale(mx.operator.CustomOp):
        def __init__(self, factor):
            self.factor = factor

        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * self.factor)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * self.factor * 10)

    @mx.operator.register("scale_by")
    class ScaleProp(mx.operator.CustomOpProp):
        def __init__(self, factor):
            super().__init__()
            self.factor = float(factor)

        def create_operator(self, ctx, shapes, dtypes):
            return Scale(self.factor)

    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, factor=3, op_type="scale_by")
    y.backward()
    assert y.asnumpy().tolist() == [3, 6] and x.grad.asnumpy().tolist() == [30, 30]
    with pytest.raises(mx.MXNetError, match="scale_by"):
        nd.Custom(x, op_type="scale_bi")


def run_history(array, *leaves):
    """The symbol of what was recorded, and what it computes of the leaves, read back from text too.
    """
    symbol = autograd.get_symbol(array)
    names = symbol.list_arguments()
    assert len(names) == len(leaves)
    values = dict(zip(names, leaves))
    again = mx.sym.load_json(symbol.tojson())
    made = [one.bind(mx.cpu(), values).forward()[0].asnumpy() for one in (symbol, again)]
    np.testing.assert_array_equal(made[0], made[1])
    return symbol, made[0]


def test_the_symbol_of_a_history_has_a_variable_for_each_leaf():
    x, z = nd.array([1.0, 2.0]), nd.array([3.0, 4.0])
    x.attach_grad(), z.attach_grad()
    with autograd.record():
        y = x * x + 2 * x - 1
    symbol, value = run_history(y, x)
    np.testing.assert_array_equal(value, y.asnumpy())
    assert symbol.list_arguments() == ["var0"]
    with autograd.record():
        y = (3 - x) / z + nd.array([5.0, 6.0])
    _, value = run_history(y, x, z, nd.array([5.0, 6.0]))
    np.testing.assert_array_equal(value, y.asnumpy())


def test_a_history_has_mxnets_names_and_what_has_no_gradient():
    x, w = nd.array([[1.0, -2.0], [3.0, 4.0]]), nd.array([[1.0, 2.0], [3.0, 5.0]])
    x.attach_grad(), w.attach_grad()
    with autograd.record():
        y = nd.relu(nd.dot(x, w) * (x > 0)).sum(axis=1) + nd.argmax(x, axis=1)
    symbol, value = run_history(y, x, w)
    np.testing.assert_array_equal(value, y.asnumpy())
    text = symbol.tojson()
    for op in ("relu", "_greater_scalar", "broadcast_mul", "sum", "_lockstep_argmax"):
        assert f'"op": "{op}"' in text
    assert symbol.infer_shape(var0=(2, 2), var1=(2, 2))[1] == [(2,)]


@pytest.mark.parametrize("hybridized", [False, True])
def test_the_symbol_of_a_nets_history_computes_what_the_net_did(hybridized):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(3, 3, activation="relu"), gluon.nn.MaxPool2D(), gluon.nn.Flatten(),
            gluon.nn.Dense(4, activation="tanh"), gluon.nn.LayerNorm(), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    x = nd.random.normal(shape=(2, 1, 8, 8))
    x.attach_grad()
    net(x)
    with autograd.record():
        y = net(x)
    symbol = autograd.get_symbol(y)
    # The leaves are found by their shapes, of which no two are the same here but for the norm's.
    leaves = [x] + [p.data() for p in net.collect_params().values()]
    shapes = {n: s for n, s in zip(symbol.list_arguments(), [a.shape for a in leaves])}
    assert symbol.infer_shape(**shapes)[1] == [(2, 2)]
    np.testing.assert_allclose(run_history(y, *leaves)[1], y.asnumpy(), rtol=1e-6)
    assert {"Convolution", "FullyConnected"} <= {line.split(":")[0]
                                                 for line in symbol.debug_str().split("\n")}


def test_a_history_that_is_used_up_or_python_has_no_symbol():
    x = nd.array([1.0])
    x.attach_grad()
    with pytest.raises(mx.MXNetError, match="not computed under"):
        autograd.get_symbol(x * 2)
    with autograd.record():
        y = x * 2
    y.backward()
    with pytest.raises(mx.MXNetError, match="used up"):
        autograd.get_symbol(y)

    class Twice(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g * 2

    with autograd.record():
        y = Twice()(x)
    with pytest.raises(mx.MXNetError, match="CustomOp"):
        autograd.get_symbol(y)


def recorded_leaves(array):
    """The arrays that its history begins with, in the order in which they are read."""
    _, variables, _ = _core._history([array._tensor])
    return [nd.NDArray(v.detach()) for v in variables if v.shape or v.requires_grad]


def draws(*shape, seed=0):
    return nd.array(np.random.default_rng(seed).normal(size=shape))


HISTORIES = {
    "slices": lambda x: x[1:, ::2] + x[0, 1:3] * x[1:2, 0],
    "indices": lambda x: nd.take(x, nd.array([2, 0])) + nd.pick(x, nd.array([1, 0, 2])).sum(),
    "joined": lambda x: nd.concat(x, x * 2, dim=1).swapaxes(0, 1).tile((2, 1)),
    "parts": lambda x: nd.split(x, 2, axis=1)[1] + nd.topk(x, k=2, ret_typ="value"),
    "norms": lambda x: nd.LayerNorm(x, nd.ones((4,)), nd.zeros((4,))) + nd.L2Normalization(x),
    "kinks": lambda x: nd.clip(x, -0.5, 0.5) + nd.where(x > 0, x, -x) + nd.maximum(x, 0),
    "softmax": lambda x: gluon.loss.SoftmaxCrossEntropyLoss()(x, nd.array([1, 0, 2])),
    "statistics": lambda x: (x - x.mean()) / nd.sqrt(((x - x.mean()) ** 2).mean() + 1e-5),
    "products": lambda x: nd.norm(x, axis=1) + nd.dot(x, x, transpose_b=True).sum(axis=0),
    "losses": lambda x: nd.SoftmaxOutput(x, nd.array([1, 0, 2])) + nd.MakeLoss(x * 2),
    "regression": lambda x: nd.LogisticRegressionOutput(x, nd.ones((3, 4)), grad_scale=2.0),
    "custom": lambda x: nd.Custom(x, op_type="history_double") + 1,
    "np": lambda x: (mx.np.einsum("ij,kj->ik", x.as_np_ndarray(), x.as_np_ndarray())
                     @ mx.np.linalg.inv(mx.np.eye(3) * 9)).as_nd_ndarray(),
}


@mx.operator.register("history_double")
class DoubleProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        class Double(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * 2)

        return Double()


@pytest.mark.parametrize("name", HISTORIES)
def test_the_symbol_of_a_history_is_what_was_computed(name):
    x = draws(3, 4)
    x.attach_grad()
    with autograd.record():
        y = HISTORIES[name](x)
    np.testing.assert_allclose(run_history(y, *recorded_leaves(y))[1], y.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("layer", [gluon.rnn.LSTM(5, 2, bidirectional=True), gluon.rnn.GRU(5)])
def test_the_symbol_of_a_recurrent_layers_history_is_what_it_computed(layer):
    layer.initialize()
    x = draws(4, 3, 6)
    layer(x)
    with autograd.record():
        y, states = layer(x, layer.begin_state(3))
    for made in (y, states[0]):
        found = run_history(made, *recorded_leaves(made))[1]
        np.testing.assert_allclose(found, made.asnumpy(), rtol=1e-5)
