# SPDX-License-Identifier: Apache-2.0
"""sym.np and sym.npx: symbols that compute as mx.np's arrays do."""

import json

import numpy as onp
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import gluon, np, npx
from lockstep.mxnet.gluon import nn


@pytest.fixture
def np_mode():
    npx.set_np()
    yield
    npx.reset_np()


def var(name):
    return mx.sym.var(name).as_np_ndarray()


def value(*shape, seed=0):
    return np.array(onp.random.default_rng(seed).normal(size=shape).astype("float32"))


S = mx.sym.np
CASES = {
    "operators": (lambda F, a, b: (a + b * 2 - 1) / (3 + abs(b)) ** 2, [(2, 3), (3,)]),
    "reversed": (lambda F, a: 1 - a + 2 / (a * a + 1) + 2 ** a, [(2, 3)]),
    "comparison": (lambda F, a, b: F.np.where(a > b, a, 0.5), [(2, 3), (2, 3)]),
    "matmul": (lambda F, a, b: a @ b, [(4, 2, 3), (3, 5)]),
    "dot": (lambda F, a, b: F.np.dot(a, b), [(2, 3), (3, 5)]),
    "einsum": (lambda F, a, b: F.np.einsum("ij,kj->ik", a, b), [(2, 3), (4, 3)]),
    "concatenate": (lambda F, a, b: F.np.concatenate([a, b * 2], axis=1), [(2, 3), (2, 1)]),
    "stack": (lambda F, a, b: F.np.stack((a, b), axis=-1), [(2, 3), (2, 3)]),
    "split": (lambda F, a: F.np.split(a, 3, axis=1)[2] * 2, [(2, 6)]),
    "split_one": (lambda F, a: F.np.split(a, 1)[0], [(2, 6)]),
    "split_places": (lambda F, a: F.np.split(a, [1, 4], axis=1)[1], [(2, 6)]),
    "sums": (lambda F, a: a.sum(axis=(0, 2)) + F.np.mean(a, axis=0, keepdims=True).max(), [(2, 3, 4)]),
    "tensordot": (lambda F, a, b: F.np.tensordot(a, b, axes=([1], [0])), [(2, 3), (3, 4)]),
    "index": (lambda F, a: a[0, 1:, ::2] + a[:, None][1, 0, :-1, ::2], [(2, 3, 4)]),
    "index_behind": (lambda F, a: a[..., -1] + a[..., 0:1, 1], [(2, 1, 4)]),
    "shapes": (lambda F, a: a.reshape(3, -1).T.transpose(1, 0).flatten(), [(2, 3, 4)]),
    "linalg": (lambda F, a: F.np.linalg.svd(a)[1] + F.np.linalg.norm(a), [(2, 3)]),
    "dtype": (lambda F, a: (a > 0).astype("int32") + F.np.ones((3,), dtype="int32"), [(2, 3)]),
    "clip": (lambda F, a: F.np.clip(a, -0.5, 0.5).tanh(), [(2, 3)]),
    "roll": (lambda F, a: F.np.roll(a, shift=(1, -1), axis=(0, 1)), [(2, 3)]),
    "npx": (lambda F, a: F.npx.softmax(F.npx.relu(a), axis=0) + F.npx.sigmoid(a), [(2, 3)]),
    "npx_reshape": (lambda F, a: F.npx.reshape(a, (-2, -5)), [(2, 3, 4)]),
    "one_hot": (lambda F, a: F.npx.one_hot(F.np.argmax(a, axis=1), 3), [(2, 3)]),
    "pick": (lambda F, a: F.npx.pick(a, F.np.zeros((2,))), [(2, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_symbol_computes_what_arrays_do(name, np_mode):
    function, sizes = CASES[name]
    arrays = [value(*size, seed=i) for i, size in enumerate(sizes)]
    want = function(mx.nd, *arrays)
    names = ["a", "b"][:len(arrays)]
    symbol = function(mx.sym, *[var(n) for n in names])
    assert type(symbol) is mx.sym.np._Symbol and symbol.list_arguments() == names
    for one in (symbol, mx.sym.load_json(symbol.tojson())):
        assert one.infer_shape(**dict(zip(names, sizes)))[1] == [want.shape]
        got = one.bind(mx.cpu(), dict(zip(names, arrays))).forward()[0]
        onp.testing.assert_array_equal(got.asnumpy(), want.asnumpy())


def test_ops_have_mxnets_names_in_files():
    a, b = var("a"), var("b")
    symbol = S.concatenate([a + b, 2 - a * 3], axis=1).sum(axis=0)
    ops = [node["op"] for node in json.loads(symbol.tojson())["nodes"]]
    assert ops == ["null", "null", "_npi_add", "_npi_multiply_scalar", "_npi_rsubtract_scalar",
                   "_npi_concatenate", "_np_sum"]


def test_a_file_of_mxnets_own_with_np_ops_is_run():
    text = json.dumps({"nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "_npi_add_scalar", "name": "a", "attrs": {"scalar": "1.5", "is_int": "False"},
         "inputs": [[0, 0, 0]]},
        {"op": "_np_sum", "name": "s", "attrs": {"axis": "(1,)", "keepdims": "True"},
         "inputs": [[1, 0, 0]]},
        {"op": "_npx_relu", "name": "r", "inputs": [[2, 0, 0]]}],
        "arg_nodes": [0], "heads": [[3, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901], "is_np_shape": ["int", 1]}})
    out = mx.sym.load_json(text).bind(mx.cpu(), {"x": mx.nd.array([[1, 2], [-9, 3]])}).forward()[0]
    assert out.asnumpy().tolist() == [[6], [0]]


def test_gradients_of_np_symbols_are_those_of_arrays():
    a, b = value(2, 3), value(3, seed=1)
    a.attach_grad(), b.attach_grad()
    with mx.autograd.record():
        loss = (np.exp(a) * b).sum()
    loss.backward()
    symbol = (S.exp(var("a")) * var("b")).sum()
    bound = symbol.simple_bind(mx.cpu(), a=(2, 3), b=(3,))
    bound.forward(is_train=True, a=a, b=b)
    bound.backward(np.ones(()))
    onp.testing.assert_allclose(bound.grad_dict["b"].asnumpy(), b.grad.asnumpy(), rtol=1e-6)
    onp.testing.assert_allclose(bound.grad_dict["a"].asnumpy(), a.grad.asnumpy(), rtol=1e-6)


def test_the_two_kinds_of_symbols_become_each_other():
    a = var("a")
    assert type(a.as_nd_ndarray()) is mx.sym.Symbol and type(mx.sym.var("a") + 1) is mx.sym.Symbol
    assert type(mx.sym.FullyConnected(a, num_hidden=3)) is mx.sym.np._Symbol
    assert type(mx.sym.Group([a, a + 1])) is mx.sym.np._Symbol
    assert (a > 1).tojson() != (a.as_nd_ndarray() > 1).tojson()


def test_what_cannot_stand_in_a_symbol_is_named():
    with pytest.raises(TypeError, match="ndarray cannot stand in a symbol"):
        S.dot(var("a"), onp.ones(3))
    with pytest.raises(TypeError, match="np.take"):
        var("a")[var("b")]
    with pytest.raises(AttributeError, match="nearest"):
        S.concatenat
    with pytest.raises(mx.MXNetError, match="names input 7"):
        broken = S.stack([var("a"), var("b")]).tojson().replace("$1", "$7")
        mx.sym.load_json(broken).infer_shape(a=(2,), b=(2,))


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense, self.norm = nn.Dense(4), nn.BatchNorm()
            self.w = self.params.get("w", shape=(0, 5), allow_deferred_init=True)

    def hybrid_forward(self, F, x, w):
        y = self.norm(F.npx.relu(self.dense(x)))
        z = F.np.dot(y, w) + x.mean(axis=1, keepdims=True)
        return F.npx.softmax(z[:, 1:]) * (z[:, 1:] > 0)


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_block_of_np_ops_is_exported_and_read_back(hybridized, np_mode, tmp_path):
    net = Net()
    net.initialize()
    if hybridized:
        net.hybridize()
    x = value(3, 6)
    want = net(x)
    assert net.w.shape == (4, 5)
    net.export(str(tmp_path / "net"))
    back = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                     str(tmp_path / "net-0000.params"))
    got = back(x)
    assert type(got) is np.ndarray
    onp.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
    assert "is_np_shape" in json.loads((tmp_path / "net-symbol.json").read_text())["attrs"]
