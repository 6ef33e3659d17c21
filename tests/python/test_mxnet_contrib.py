# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib and mx.contrib, and modules by the names of MXNet's files."""

import os
import subprocess
import sys

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd

_contrib = gluon.contrib.rnn


def test_cells_on_pictures_are_their_dense_kin_for_a_kernel_of_one(rng):
    x = nd.array(rng.normal(size=(2, 3, 5)))
    for kind in ("RNN", "LSTM", "GRU"):
        cell = getattr(_contrib, f"Conv1D{kind}Cell")((3, 5), 4, 1, 1)
        dense = getattr(gluon.rnn, f"{kind}Cell")(4, input_size=3)
        for each in (cell, dense):
            each.initialize(mx.init.Normal(0.5))
        for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
            theirs = getattr(cell, name).data()
            getattr(dense, name).set_data(theirs.reshape(getattr(dense, name).shape))
        states = [nd.array(rng.normal(size=s["shape"])) for s in cell.state_info(2)]
        output, after = cell(x, states)

        def pixels(array):
            return array.transpose((0, 2, 1)).reshape((-1, array.shape[1]))

        expected, others = dense(pixels(x), [pixels(s) for s in states])
        for one, other in zip([output, *after], [expected, *others]):
            np.testing.assert_allclose(pixels(one).asnumpy(), other.asnumpy(), atol=1e-5)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_cells_on_pictures_keep_the_states_extents(dims):
    cell = getattr(_contrib, f"Conv{dims}DLSTMCell")((0,) + (8,) * dims, 6, 3, 5, i2h_dilate=2)
    cell.initialize()
    assert cell.prefix.startswith("conv_lstm")
    steps = nd.random.normal(shape=(2, 3, 2) + (8,) * dims)
    with autograd.record():
        outputs, states = cell.unroll(3, steps, layout="NTC" + "DHW"[-dims:], merge_outputs=True)
        outputs.sum().backward()
    assert outputs.shape == (2, 3, 6) + (4,) * dims
    assert [s.shape for s in states] == [(2, 6) + (4,) * dims] * 2
    assert cell.i2h_weight.shape == (24, 2) + (3,) * dims
    assert float(cell.h2h_weight.grad().abs().sum().asscalar()) > 0
    with pytest.raises(AssertionError, match="odd"):
        getattr(_contrib, f"Conv{dims}DRNNCell")((2,) + (8,) * dims, 6, 3, 2)


def test_a_cell_is_unrolled_as_far_as_its_inputs_go():
    cell = gluon.rnn.GRUCell(4, input_size=3)
    cell.initialize()
    x, lengths = nd.random.normal(shape=(5, 2, 3)), nd.array([2, 5])
    outputs, states = _contrib.dynamic_unroll(cell, x, cell.begin_state(2), valid_length=lengths)
    expected, others = cell.unroll(5, x, cell.begin_state(2), "TNC", True, lengths)
    assert outputs.shape == (5, 2, 4) and (outputs == expected).asnumpy().all()
    assert (states[0] == others[0]).asnumpy().all()
    with autograd.record():
        dropped, _ = _contrib.dynamic_unroll(cell, x, cell.begin_state(2), drop_outputs=0.5)
    gone = (dropped == 0).asnumpy()
    assert gone.any() and (gone == gone[:1]).all()


def test_modules_are_imported_by_the_names_of_mxnets_files():
    script = """
import mxnet as mx
from mxnet.io.io import DataDesc
from mxnet.image.detection import ImageDetIter
from mxnet.module.base_module import BaseModule
from mxnet.gluon.contrib.rnn.conv_rnn_cell import Conv2DLSTMCell
from mxnet.gluon.contrib.nn.basic_layers import SyncBatchNorm
from mxnet.gluon.contrib.data.sampler import IntervalSampler
from mxnet.gluon.model_zoo.vision.vgg import vgg11
from mxnet.kvstore.base import KVStoreBase
from mxnet.optimizer.optimizer import SGD, Optimizer
from mxnet.ndarray.utils import load, save
import mxnet.rnn.io
assert mx.rnn.io.encode_sentences is mx.rnn.encode_sentences and DataDesc is mx.io.DataDesc
try:
    import mxnet.io.none
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-m", "lockstep.mxnet", "-c", script],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "mxnet.io.none" in done.stdout


def halved(dtype):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
            gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    return net


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("hybridized", [False, True])
def test_a_net_of_16_bits_has_norms_of_32(dtype, hybridized, tmp_path):
    net, x = halved(dtype), nd.random.normal(shape=(8, 2, 6, 6))
    net.hybridize(hybridized)
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True})
    loss_fn, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    labels = (x[:, 0].mean(axis=(1, 2)) > 0).astype("float32")
    for _ in range(30):
        with autograd.record():
            loss = loss_fn(net(x.astype(dtype)).astype("float32"), labels)
        loss.backward()
        trainer.step(8)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < 0.5 * losses[0], losses
    assert net[1].gamma.data()._tensor.dtype.name == "float32"
    assert float(net[1].running_mean.data().abs().sum().asscalar()) > 0
    made = net(x.astype(dtype))
    assert made._tensor.dtype.name == dtype
    if hybridized and dtype == "float16":
        net.export(str(tmp_path / "net"))
        read = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                         str(tmp_path / "net-0000.params"))
        np.testing.assert_allclose(read(x.astype(dtype)).asnumpy(), made.asnumpy(), atol=2e-2)


def test_a_module_of_16_bits_has_norms_of_32():
    x = mx.sym.Cast(mx.sym.var("data"), dtype="float16")
    x = mx.sym.BatchNorm(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), name="bn")
    executor = x.simple_bind(mx.cpu(), data=(3, 2))
    held = {**executor.arg_dict, **executor.aux_dict}
    assert held["fc_weight"].dtype == np.float16
    for name in ("bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"):
        assert held[name].dtype == np.float32
    assert executor.forward(is_train=True)[0].dtype == np.float16


def test_a_net_is_converted_to_16_bits_and_takes_inputs_of_32():
    net, x = halved("float32"), nd.random.normal(shape=(2, 2, 6, 6))
    expected = net(x)
    for dtype in ("float16", "bfloat16"):
        converted = mx.contrib.amp.convert_hybrid_block(net, dtype)
        made = converted(x)
        assert made._tensor.dtype.name == dtype and net(x).dtype == np.float32
        np.testing.assert_allclose(made.astype("float32").asnumpy(), expected.asnumpy(), atol=0.05)
        converted.hybridize()
        assert converted(x)._tensor.dtype.name == dtype
    assert list(converted.collect_params()) == list(net.collect_params())


def test_a_converted_net_reads_the_rows_it_is_asked_for_and_keeps_all_parameters(tmp_path):
    for net, x in ((gluon.nn.Embedding(5000, 2), nd.array([4097, 4999])),
                   (gluon.nn.Dense(2, in_units=3), nd.array([[1, 2, 3]]))):
        net.initialize(mx.init.Normal(1))
        converted = mx.contrib.amp.convert_hybrid_block(net, "float16")
        np.testing.assert_allclose(converted(x).astype("float32").asnumpy(), net(x).asnumpy(),
                                   atol=0.02)
        assert converted.name == net.name
        converted.save_parameters(str(tmp_path / "net"))
        assert set(nd.load(str(tmp_path / "net"))) == set(net._collect_params_with_prefix())


def test_what_goes_straight_through_keeps_large_numbers():
    x = nd.array([5e7, -1e10, 2.5, -0.25])
    x.attach_grad()
    with autograd.record():
        signs, rounded = nd.contrib.sign_ste(x), nd.contrib.round_ste(x)
        both = signs + rounded
    both.backward()
    assert signs.asnumpy().tolist() == [1, -1, 1, -1]
    assert rounded.asnumpy().tolist() == [5e7, -1e10, 3, 0]
    assert x.grad.asnumpy().tolist() == [2] * 4


def test_initializers_chosen_by_name_serve_blocks():
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.Mixed([".*bias", ".*"], [mx.init.Zero(), mx.init.Constant(4)]))
    assert net.weight.data().asnumpy().tolist() == [[4] * 3] * 2
    assert net.bias.data().asnumpy().tolist() == [0, 0]


def test_sets_of_vectors_stand_side_by_side(tmp_path):
    text = mx.contrib.text
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\n")
    (tmp_path / "w.txt").write_text("<unk> 9 8\na 5 6\n")
    sets = [text.embedding.CustomEmbedding(str(tmp_path / name)) for name in ("v.txt", "w.txt")]
    counter = text.utils.count_tokens_from_str("b a b c", to_lower=True)
    vocabulary = text.vocab.Vocabulary(counter, unknown_token="a", reserved_tokens=["<pad>"])
    both = text.embedding.CompositeEmbedding(vocabulary, sets)
    assert both.unknown_token == "a" and both.reserved_tokens == ["<pad>"]
    assert both.idx_to_token == ["a", "<pad>", "b", "c"]
    # The first is the unknown one's, whatever it is called.
    assert both.idx_to_vec.asnumpy().tolist() == [[0, 0, 9, 8], [0, 0, 9, 8], [3, 4, 9, 8],
                                                   [0, 0, 9, 8]]


@pytest.mark.parametrize("name", ["round", "sign"])
@pytest.mark.parametrize("hybridized", [False, True])
def test_gradients_go_straight_through_steps(name, hybridized):
    net = gluon.nn.HybridLambda(lambda F, x: getattr(F.contrib, f"{name}_ste")(x) * 3)
    net.hybridize(hybridized)
    x = nd.array([-1.6, 0.2, 1.5, 2.5, -0.5])
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), getattr(nd, name)(x).asnumpy() * 3, atol=1e-6)
    assert x.grad.asnumpy().tolist() == [3] * 5


def test_decoders_attend_to_interleaved_keys_and_values(rng):
    queries, pairs = rng.normal(size=(5, 2, 6)), rng.normal(size=(7, 2, 12))
    scores = nd.contrib.interleaved_matmul_encdec_qk(nd.array(queries), nd.array(pairs), heads=3)
    weights = nd.softmax(scores)
    made = nd.contrib.interleaved_matmul_encdec_valatt(nd.array(pairs), weights, heads=3)
    q, kv = queries.reshape(5, 2, 3, 2), pairs.reshape(7, 2, 3, 2, 2)
    expected = np.einsum("qbhd,kbhd->bhqk", q, kv[:, :, :, 0]).reshape(6, 5, 7) / np.sqrt(2)
    np.testing.assert_allclose(scores.asnumpy(), expected, atol=1e-5)
    expected = np.einsum("bhqk,kbhd->qbhd", weights.asnumpy().reshape(2, 3, 5, 7), kv[:, :, :, 1])
    np.testing.assert_allclose(made.asnumpy(), expected.reshape(5, 2, 6), atol=1e-5)
