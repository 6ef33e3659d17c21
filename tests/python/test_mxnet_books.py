# SPDX-License-Identifier: Apache-2.0
"""What scripts of MXNet's books and examples do, in the small."""

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd


def test_a_state_of_the_last_batch_is_constant_after_backward():
    w = nd.array([2.0])
    w.attach_grad()
    state, seen = nd.array([1.0]), []
    for _ in range(3):
        with autograd.record():
            state = w * state
            loss = state * state
        loss.backward()
        seen.append(w.grad.asscalar())
    # d (w s)^2 / dw = 2 w s^2 with s = 1, 2, 4: nothing of the batches before.
    assert seen == [4.0, 16.0, 64.0]
    with pytest.raises(mx.MXNetError, match="record was used up"):
        loss.backward()
    with autograd.record():
        loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def test_two_losses_of_one_record_need_it_retained():
    w = nd.array([2.0])
    w.attach_grad()
    with autograd.record():
        shared = w * w
        first, second = shared * 2, shared * 3
    first.backward()
    with pytest.raises(mx.MXNetError, match="freed by an earlier backward"):
        second.backward()


def test_reshape_keeps_the_number_of_elements():
    for shape in [(2, 3), (4, 3), (3, -1)]:
        with pytest.raises(ValueError, match="elements"):
            nd.arange(10).reshape(shape)


def test_an_lstm_projects_and_clips():
    layer = gluon.rnn.LSTM(4, projection_size=2, input_size=3, bidirectional=True, num_layers=2)
    layer.initialize(mx.init.Normal(0.5))
    x = nd.random.normal(shape=(5, 2, 3))
    y, (h, c) = layer(x, layer.begin_state(2))
    assert y.shape == (5, 2, 4) and h.shape == (4, 2, 2) and c.shape == (4, 2, 4)
    np.testing.assert_allclose(y.asnumpy()[-1, :, :2], h.asnumpy()[2], rtol=1e-6)
    layer.hybridize()
    np.testing.assert_allclose(layer(x).asnumpy(), y.asnumpy(), rtol=1e-5, atol=1e-6)
    plain = gluon.rnn.LSTM(4, input_size=3)
    plain.initialize(mx.init.Normal(0.5))
    wide = gluon.rnn.LSTM(4, input_size=3, state_clip_min=-9, state_clip_max=9,
                          params=plain.collect_params(), prefix=plain.prefix)
    np.testing.assert_allclose(wide(x).asnumpy(), plain(x).asnumpy(), rtol=1e-5, atol=1e-6)
    narrow = gluon.rnn.LSTM(4, input_size=3, state_clip_min=-0.01, state_clip_max=0.01,
                            params=plain.collect_params(), prefix=plain.prefix)
    assert abs(narrow(x, narrow.begin_state(2))[1][1].asnumpy()).max() <= 0.0101
    symbol = layer(mx.sym.var("data"))
    assert symbol.infer_shape(data=(5, 2, 3))[1] == [(5, 2, 4)]


def test_pools_of_the_same_size():
    x = nd.arange(10).reshape((1, 1, 10))
    made = nd.Pooling(x, kernel=(3,), stride=(2,), pool_type="max", pooling_convention="same")
    assert made.asnumpy().ravel().tolist() == [2, 4, 6, 8, 9]


def test_regions_are_pooled():
    x = nd.arange(16).reshape((1, 1, 4, 4))
    x.attach_grad()
    with autograd.record():
        made = nd.ROIPooling(x, nd.array([[0, 0, 0, 1, 3]]), pooled_size=(2, 2), spatial_scale=1.0)
    made.backward()
    assert made.asnumpy().tolist() == [[[[4, 5], [12, 13]]]]
    assert x.grad.asnumpy().sum() == 4 and x.grad.asnumpy()[0, 0, 3, 1] == 1


def test_modules_follow_one_another():
    data = mx.sym.var("data")
    first = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=8, name="fc1"), act_type="tanh")
    second = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=2, name="fc2"),
                                  name="softmax")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("float32")
    batches = mx.io.NDArrayIter(x, (x[:, 0] > 0).astype("float32"), 20)
    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(first, label_names=[]))
    chain.add(mx.mod.Module(second), take_labels=True, auto_wiring=True)
    mx.random.seed(0)
    chain.fit(batches, num_epoch=6, optimizer_params={"learning_rate": 0.5},
              initializer=mx.init.Xavier())
    assert dict(chain.score(batches, "acc"))["accuracy"] > 0.9
    assert set(chain.get_params()[0]) == {"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"}


def test_a_loss_in_python_ends_a_chain():
    scores = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")

    def gradient(scores, labels):
        wanted = np.eye(2)[labels.asnumpy().astype(int)]
        return nd.softmax(scores).asnumpy() - wanted

    x = np.random.default_rng(1).normal(size=(100, 3)).astype("float32")
    batches = mx.io.NDArrayIter(x, (x[:, 1] > 0).astype("float32"), 20)
    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(scores, label_names=[]))
    chain.add(mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    chain.fit(batches, num_epoch=5, optimizer_params={"learning_rate": 0.5})
    assert dict(chain.score(batches, "acc"))["accuracy"] > 0.9


def test_words_of_a_text_are_samples(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text(" = A = \n\n the cat sat on the mat \n")
    words = gluon.contrib.data.text.WikiText2(str(tmp_path), "train", seq_len=3)
    data, label = words[0]
    assert len(words) == 3 and data.shape == (3,)
    assert data.asnumpy()[1:].tolist() == label.asnumpy()[:-1].tolist()
    assert words.vocabulary.to_tokens(data.asnumpy().tolist()) == ["=", "A", "="]
    assert words.frequencies["the"] == 2


def test_an_op_in_python_makes_arrays_where_its_inputs_are(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_GPU_AS_CPU", "2")

    class Noise(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] + nd.random.uniform(shape=(2,)))

    @mx.operator.register("book_noise")
    class NoiseProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, types):
            return Noise()

    made = nd.Custom(nd.ones((2,), ctx=mx.gpu(1)), op_type="book_noise")
    assert made.context == mx.gpu(1) and (made.asnumpy() >= 1).all()


def test_names_of_contrib_are_modules():
    import lockstep.mxnet.contrib.ndarray as ops

    assert ops.MultiBoxPrior(nd.zeros((1, 3, 4, 4)), sizes=[0.5], ratios=[1]).shape == (1, 16, 4)


def test_text_files_are_arrays(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1\t2\n3\t4\n")
    assert mx.np.genfromtxt(str(path), delimiter="\t").asnumpy().tolist() == [[1, 2], [3, 4]]


def test_a_detectors_boxes():
    priors = nd.contrib.MultiBoxPrior(nd.zeros((1, 3, 2, 2)), sizes=[0.5, 0.2], ratios=[1, 4])
    assert priors.shape == (1, 12, 4)
    np.testing.assert_allclose(priors[0, :3].asnumpy(), [
        [0, 0, 0.5, 0.5], [0.15, 0.15, 0.35, 0.35], [-0.25, 0.125, 0.75, 0.375]], atol=1e-6)
    labels = nd.array([[[1, 0.5, 0.5, 1, 1], [-1, 0, 0, 0, 0]]])
    moves, mask, classes = nd.contrib.MultiBoxTarget(priors, labels, nd.zeros((1, 3, 12)))
    assert classes.asnumpy().tolist() == [[0] * 9 + [2, 0, 0]]
    assert mask.shape == moves.shape == (1, 48) and mask.asnumpy().sum() == 4
    assert abs(moves.asnumpy()).max() < 1e-6
    mined = nd.contrib.MultiBoxTarget(priors, labels, nd.zeros((1, 3, 12)),
                                      negative_mining_ratio=3)[2].asnumpy()
    assert (mined == 0).sum() == 3 and (mined == -1).sum() == 8
    scores = nd.array([[[0.1] * 12, [0.0] * 9 + [0.9, 0.0, 0.8], [0.9] * 9 + [0.0] * 3]])
    found = nd.contrib.MultiBoxDetection(scores, nd.zeros((1, 48)), priors).asnumpy()[0]
    live = found[found[:, 0] >= 0]
    assert found.shape == (12, 6) and live[0, 1] == np.float32(0.9)
    assert set(live[:, 0]) == {0.0, 1.0}


def test_boxes_that_overlap_a_better_one_go():
    rows = nd.array([[0, 0.5, 0.1, 0.1, 0.2, 0.2], [1, 0.4, 0.1, 0.1, 0.2, 0.2],
                     [0, 0.3, 0.1, 0.1, 0.14, 0.14], [2, 0.6, 0.5, 0.5, 0.7, 0.8]])
    kept = nd.contrib.box_nms(rows, overlap_thresh=0.1, coord_start=2, score_index=1, id_index=0,
                              force_suppress=True).asnumpy()
    np.testing.assert_allclose(kept, [[2, 0.6, 0.5, 0.5, 0.7, 0.8], [0, 0.5, 0.1, 0.1, 0.2, 0.2],
                                      [-1] * 6, [-1] * 6])
    by_class = nd.contrib.box_nms(rows, overlap_thresh=0.1, id_index=0).asnumpy()
    assert by_class[:, 0].tolist() == [2, 0, 1, -1]
    iou = nd.contrib.box_iou(nd.array([[0, 0, 1, 1]]), nd.array([[0.5, 0, 1.5, 1]]))
    np.testing.assert_allclose(iou.asnumpy(), [[1 / 3]], rtol=1e-6)
    match = nd.contrib.bipartite_matching(nd.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]),
                                          threshold=1e-12)
    assert [m.asnumpy().tolist() for m in match] == [[1, -1, 0], [2, 0]]


def test_aligned_regions_have_gradients():
    x = nd.random.normal(shape=(2, 3, 6, 6))
    x.attach_grad()
    with autograd.record():
        made = nd.contrib.ROIAlign(x, nd.array([[1, 0, 0, 4, 4]]), pooled_size=(2, 2),
                                   spatial_scale=1.0, sample_ratio=2)
    made.backward()
    grad = x.grad.asnumpy()
    assert made.shape == (1, 3, 2, 2) and grad[0].sum() == 0
    np.testing.assert_allclose(grad[1].sum(), 12, rtol=1e-5)
    flat = nd.contrib.ROIAlign(nd.ones((1, 1, 6, 6)), nd.array([[0, 1, 1, 4, 4]]), (3, 3), 1.0)
    np.testing.assert_allclose(flat.asnumpy(), 1)


def test_a_cell_computes_what_the_projected_layer_does():
    layer = gluon.rnn.LSTM(4, projection_size=2, input_size=3, prefix="lstm_")
    cell = gluon.contrib.rnn.LSTMPCell(4, 2, input_size=3, prefix="lstm_l0_")
    layer.initialize(mx.init.Normal(0.5))
    cell.initialize()
    for name, parameter in cell.collect_params().items():
        parameter.set_data(layer.collect_params()[name].data())
    x = nd.random.normal(shape=(5, 2, 3))
    y, states = cell.unroll(5, x, layout="TNC", merge_outputs=True)
    wanted, last = layer(x, layer.begin_state(2))
    np.testing.assert_allclose(y.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states[1].asnumpy(), last[1].asnumpy()[0], rtol=1e-5, atol=1e-6)


def test_files_of_a_symbols_block_fit_another_net(tmp_path):
    def block():
        body = gluon.nn.HybridSequential()
        with body.name_scope():
            body.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(2, in_units=4))
        net = gluon.nn.HybridSequential()
        data = mx.sym.var("data")
        net.add(gluon.SymbolBlock(body(data), data, params=body.collect_params()))
        return net

    first, second = block(), block()
    first.initialize(mx.init.Normal())
    x, path = nd.ones((1, 3)), str(tmp_path / "net.params")
    first(x)
    first.save_parameters(path)
    second.load_parameters(path)
    np.testing.assert_array_equal(second(x).asnumpy(), first(x).asnumpy())


def test_a_symbols_block_has_the_parameters_of_its_net():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(4), gluon.nn.Dense(2))
    net.initialize()
    data = mx.sym.var("data")
    inner = net(data).get_internals()["net_dense0_fwd_output"]
    features = gluon.SymbolBlock(inner, data, params=net.collect_params())
    x = nd.ones((1, 3))
    made = features(x)
    np.testing.assert_array_equal(made.asnumpy(), net[0](x).asnumpy())
    assert features.collect_params()["net_dense0_weight"] is net[0].weight


@pytest.mark.parametrize("kind, options", [
    (gluon.rnn.GRU, {}), (gluon.rnn.LSTM, {"num_layers": 2}), (gluon.rnn.RNN, {"bidirectional": True})])
@pytest.mark.parametrize("hybridized", [False, True])
def test_a_layers_state_goes_on_to_the_next_batch(kind, options, hybridized):
    layer = kind(3, input_size=2, **options)
    layer.initialize(mx.init.Normal(0.5))
    if hybridized:
        layer.hybridize()
    x = nd.random.normal(shape=(4, 2, 2))
    weight = layer.l0_i2h_weight
    state, kept = layer.begin_state(2), layer.begin_state(2)
    for _ in range(3):
        with autograd.record():
            y, kept = layer(x, [s.detach() for s in kept])
        y.backward()
        wanted = weight.grad().asnumpy()
        with autograd.record():
            y, state = layer(x, state)
        y.backward()
        np.testing.assert_allclose(weight.grad().asnumpy(), wanted, rtol=1e-5, atol=1e-6)
