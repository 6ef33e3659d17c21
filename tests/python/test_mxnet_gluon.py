# SPDX-License-Identifier: Apache-2.0
import colorsys
import warnings

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd
from lockstep.mxnet.gluon import nn, rnn


def small_net():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(),
            nn.Flatten(), nn.Dense(8, activation="tanh"), nn.Dense(3))
    return net


def test_names_have_prefixes_of_their_scopes():
    net = nn.Sequential(prefix="model_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
    assert list(net.collect_params()) == ["model_dense0_weight", "model_dense0_bias",
                                          "model_dense1_weight", "model_dense1_bias"]
    assert list(net.collect_params(".*weight")) == ["model_dense0_weight", "model_dense1_weight"]
    assert net[0].weight is net.collect_params()["model_dense0_weight"]


def test_shapes_are_told_by_the_first_batch():
    layer = nn.Dense(4)
    layer.initialize()
    with pytest.raises(gluon.DeferredInitializationError):
        layer.weight.data()
    assert layer(nd.ones((2, 5))).shape == (2, 4) and layer.weight.shape == (4, 5)
    other = nn.Dense(4)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        other(nd.ones((2, 5)))


def test_shapes_of_a_blocks_own_parameters_follow_from_its_ops():
    class Scaled(gluon.HybridBlock):
        def __init__(self, units):
            super().__init__()
            self._units = units
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(units, 0), allow_deferred_init=True)
                self.scale = self.params.get("scale", shape=(1, units), init="ones")

        def hybrid_forward(self, F, x, weight, scale):
            made = F.FullyConnected(x, weight, no_bias=True, num_hidden=self._units)
            return F.broadcast_mul(made, scale)

    block = Scaled(3)
    block.initialize()
    assert block(nd.ones((2, 5))).shape == (2, 3) and block.weight.shape == (3, 5)


def test_layers_repeat_numpy(rng):
    x = rng.normal(size=(3, 5)).astype("float32")
    layer = nn.Dense(2, activation="relu", in_units=5)
    layer.initialize(mx.init.Normal(1.0))
    w, b = layer.weight.data().asnumpy(), layer.bias.data().asnumpy()
    np.testing.assert_allclose(layer(nd.array(x)).asnumpy(), np.maximum(x @ w.T + b, 0), rtol=1e-4,
                               atol=1e-5)


def test_batch_norm_moves_its_statistics_while_training_alone(rng):
    layer = nn.BatchNorm(in_channels=2, momentum=0.8)
    layer.initialize()
    x = rng.normal(3, 2, size=(8, 2, 4)).astype("float32")
    layer(nd.array(x))
    assert layer.running_mean.data().asnumpy().tolist() == [0, 0]
    with autograd.record():
        y = layer(nd.array(x))
    np.testing.assert_allclose(layer.running_mean.data().asnumpy(), 0.2 * x.mean((0, 2)), rtol=1e-4)
    np.testing.assert_allclose(layer.running_var.data().asnumpy(), 0.8 + 0.2 * x.var((0, 2)),
                               rtol=1e-4)
    np.testing.assert_allclose(y.asnumpy().mean((0, 2)), 0, atol=1e-5)


def train(net, x, y, steps=5, trainer=None, loss=None):
    trainer = trainer or gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1,
                                                                     "momentum": 0.9})
    loss = loss or gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(steps):
        with autograd.record():
            made = loss(net(x), y)
        made.backward()
        trainer.step(x.shape[0])
        losses.append(made.mean().asscalar())
    return losses


def test_hybridized_nets_learn_as_others_do(rng):
    x = nd.array(rng.normal(size=(6, 1, 8, 8)))
    y = nd.array([0, 1, 2, 0, 1, 2])
    results = []
    for hybrid in (False, True):
        mx.random.seed(5)
        net = small_net()
        net.initialize(mx.init.Xavier())
        net(x)
        if hybrid:
            net.hybridize()
        losses = train(net, x, y)
        results.append((losses, net(x).asnumpy(), net[1].running_mean.data().asnumpy()))
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert results[0][0][-1] < results[0][0][0]


def test_hybridized_dropout_draws_anew_and_backward_draws_the_same():
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5))
    net.hybridize()
    x = nd.ones((200,))
    x.attach_grad()
    masks = []
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        assert (x.grad.asnumpy() == y.asnumpy()).all()
        masks.append(y.asnumpy())
    assert (masks[0] != masks[1]).any() and (net(x).asnumpy() == 1).all()


def test_hybridized_blocks_give_gradients_to_inputs_and_some_outputs(rng):
    class Two(gluon.HybridBlock):
        def hybrid_forward(self, F, x, state):
            return x * 2, [F.sum(state, axis=1), x * state]

    block = Two()
    block.hybridize()
    x, s = nd.array(rng.normal(size=(2, 3))), nd.array(rng.normal(size=(2, 3)))
    x.attach_grad()
    s.attach_grad()
    with autograd.record():
        doubled, (total, product) = block(x, s)
        loss = product.sum()
    loss.backward()
    assert doubled.shape == (2, 3) and total.shape == (2,)
    np.testing.assert_allclose(x.grad.asnumpy(), s.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(s.grad.asnumpy(), x.asnumpy(), rtol=1e-6)


def test_the_engines_update_is_the_rule_on_arrays(rng):
    """Trainer's fused SGD and Adam beside the same rule by update()."""
    for name, options in (("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}),
                          ("adam", {"learning_rate": 0.01, "wd": 0.01}),
                          ("sgd", {"learning_rate": 0.2, "clip_gradient": 0.1})):
        parameter = gluon.Parameter("w", shape=(4,))
        parameter.initialize(mx.init.Normal(1.0))
        weight = parameter.data().copy()
        trainer = gluon.Trainer([parameter], name, options)
        rule = mx.optimizer.create(name, rescale_grad=0.5, **options)
        state = rule.create_state(0, weight)
        for _ in range(4):
            gradient = nd.array(rng.normal(size=(4,)))
            with autograd.record():
                loss = (parameter.data() * gradient).sum()
            loss.backward()
            trainer.step(2)
            rule.update(0, weight, gradient, state)
            np.testing.assert_allclose(parameter.data().asnumpy(), weight.asnumpy(), rtol=1e-4,
                                       atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "adadelta",
                                  "ftrl", "ftml", "adamax", "nadam", "signum", "lars", "lamb",
                                  "dcasgd", "sgld"])
def test_every_rule_finds_a_minimum(name):
    mx.random.seed(0)
    rates = {"adadelta": 1.0, "ftrl": 1.0, "lars": 20.0, "sgld": 1e-3, "adagrad": 0.5}
    parameter = gluon.Parameter("w", shape=(3, 2))
    parameter.initialize(mx.init.Constant(2.0))
    trainer = gluon.Trainer([parameter], name, {"learning_rate": rates.get(name, 0.05)})
    first = last = None
    for _ in range(60):
        with autograd.record():
            loss = ((parameter.data() - 0.5) ** 2).sum()
        loss.backward()
        trainer.step(1)
        first, last = first or loss.asscalar(), loss.asscalar()
    assert last < 0.9 * first, (first, last)


def test_contexts_train_as_one(monkeypatch, rng):
    monkeypatch.setenv("LOCKSTEP_GPU_AS_CPU", "1")
    x = nd.array(rng.normal(size=(8, 4)))
    y = nd.array(rng.integers(0, 3, 8))
    weights = []
    for contexts in ([mx.cpu()], [mx.gpu(0), mx.gpu(1)]):
        mx.random.seed(1)
        net = nn.Dense(3, in_units=4)
        net.initialize(mx.init.Normal(0.5), ctx=contexts)
        trainer = gluon.Trainer(net.collect_params(), "sgd",
                                {"learning_rate": 0.1, "momentum": 0.9})
        loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
        for _ in range(3):
            with autograd.record():
                losses = [loss_fn(net(a), b) for a, b in
                          zip(gluon.utils.split_and_load(x, contexts),
                              gluon.utils.split_and_load(y, contexts))]
            for loss in losses:
                loss.backward()
            trainer.step(8)
        assert net.weight.list_ctx() == contexts
        for array in net.weight.list_data():
            weights.append(array.asnumpy())
    for other in weights[1:]:
        np.testing.assert_allclose(weights[0], other, rtol=1e-4, atol=1e-5)


def test_stale_gradients_are_told_and_skipped():
    a, b = nn.Dense(1, in_units=2), nn.Dense(1, in_units=2)
    for net in (a, b):
        net.initialize()
    parameters = {**a.collect_params()._params, **b.collect_params()._params}
    trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = a(nd.ones((1, 2)))
    loss.backward()
    before = b.weight.data().asnumpy()
    with pytest.raises(UserWarning, match="has not been updated by backward"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert (b.weight.data().asnumpy() == before).all()


def test_trainers_tell_wrong_arguments():
    net = nn.Dense(1, in_units=1)
    with pytest.raises(TypeError, match="dict"):
        gluon.Trainer(net.collect_params(), "adam", 0.001)
    with pytest.raises(ValueError, match="nearest name is 'adam"):
        gluon.Trainer(net.collect_params(), "adma")


def test_learning_rates_follow_schedules():
    net = nn.Dense(1, in_units=1)
    net.initialize()
    schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0,
                                                          "lr_scheduler": schedule})
    rates = []
    for _ in range(6):
        train(net, nd.ones((1, 1)), nd.zeros((1,)), 1, trainer, gluon.loss.L2Loss())
        rates.append(trainer.learning_rate)
    assert rates == [1, 1, 0.5, 0.5, 0.25, 0.25]
    with pytest.raises(UserWarning):
        trainer.set_learning_rate(0.1)


def test_states_are_saved_and_go_on(tmp_path, rng):
    x, y = nd.array(rng.normal(size=(4, 3))), nd.array(rng.normal(size=(4, 1)))
    for rule in ("adam", "rmsprop"):
        nets = []
        for _ in range(2):
            mx.random.seed(2)
            net = nn.Dense(1, in_units=3, prefix="d_")
            net.initialize(mx.init.Normal(0.3))
            nets.append((net, gluon.Trainer(net.collect_params(), rule, {"learning_rate": 0.01})))
        loss = gluon.loss.L2Loss()
        train(nets[0][0], x, y, 3, nets[0][1], loss)
        nets[0][0].save_parameters(str(tmp_path / "p"))
        nets[0][1].save_states(str(tmp_path / "s"))
        nets[1][0].load_parameters(str(tmp_path / "p"))
        nets[1][1].load_states(str(tmp_path / "s"))
        made = [train(net, x, y, 2, trainer, loss) for net, trainer in nets]
        np.testing.assert_allclose(made[0], made[1], rtol=1e-6)


def test_parameters_are_shared_and_saved_once(tmp_path):
    net = nn.Sequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
    shared = nn.Dense(3, in_units=3, params=net[0].params)
    assert shared.weight is net[0].weight
    net.initialize()
    net.save_parameters(str(tmp_path / "p"))
    assert sorted(nd.load(str(tmp_path / "p"))) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    other = nn.Sequential()
    other.add(nn.Dense(3, in_units=3))
    with pytest.raises(ValueError, match="not present"):
        other.load_parameters(str(tmp_path / "p"))
    other.load_parameters(str(tmp_path / "p"), ignore_extra=True)
    assert (other[0].weight.data().asnumpy() == net[0].weight.data().asnumpy()).all()


@pytest.mark.parametrize("kind, cell", [(rnn.LSTM, rnn.LSTMCell), (rnn.GRU, rnn.GRUCell),
                                        (rnn.RNN, rnn.RNNCell)])
def test_layers_and_cells_agree(kind, cell, rng):
    options = {"activation": "tanh"} if kind is rnn.RNN else {}
    layer = kind(4, input_size=3, layout="NTC", **options)
    single = cell(4, input_size=3)
    layer.initialize(mx.init.Normal(0.5))
    single.initialize()
    for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
        getattr(single, name).set_data(getattr(layer, f"l0_{name}").data())
    x = nd.array(rng.normal(size=(2, 5, 3)))
    outputs, states = single.unroll(5, x, merge_outputs=True)
    made, last = layer(x, layer.begin_state(2))
    np.testing.assert_allclose(made.asnumpy(), outputs.asnumpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last[0][0].asnumpy(), states[0].asnumpy(), rtol=1e-4, atol=1e-5)


LAYERS = [lambda **o: rnn.LSTM(4, **o), lambda **o: rnn.GRU(4, **o), lambda **o: rnn.RNN(4, **o),
          lambda **o: rnn.LSTM(4, projection_size=2, **o)]


@pytest.mark.parametrize("kind", LAYERS)
def test_a_recurrent_layer_gives_zeros_behind_a_sequences_end(kind, rng):
    layer = kind(num_layers=2, bidirectional=True, use_sequence_length=True, input_size=3)
    layer.initialize(mx.init.Uniform(0.5))
    x, lengths = nd.array(rng.normal(size=(5, 3, 3))), [5, 2, 1]
    for hybridized in (False, True):
        layer.hybridize(hybridized)
        y = layer(x, sequence_length=nd.array(lengths)).asnumpy()
        for i, length in enumerate(lengths):
            alone = layer(x[:length, i:i + 1], sequence_length=nd.array([length]))
            np.testing.assert_allclose(y[:length, i], alone.asnumpy()[:, 0], rtol=1e-4, atol=1e-6)
            assert (y[length:, i] == 0).all()


class Reader(gluon.HybridBlock):
    def __init__(self, kind, **options):
        super().__init__()
        self.with_lengths = options.get("use_sequence_length", False)
        with self.name_scope():
            self.l = kind(layout="NTC", input_size=3, **options)

    def hybrid_forward(self, F, x, states, *lengths):
        y, last = self.l(x, states, *lengths)
        return y * 2, last


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("with_lengths", [False, True])
def test_a_block_with_a_layers_states_and_lengths_is_exported(kind, with_lengths, rng, tmp_path):
    net = Reader(kind, use_sequence_length=with_lengths, bidirectional=True)
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    states = [nd.array(rng.normal(size=state.shape)) for state in net.l.begin_state(2)]
    arrays = [nd.array(rng.normal(size=(2, 5, 3)))]
    lengths = [nd.array([5, 2])] if with_lengths else []
    y, last = net(*arrays, states, *lengths)
    files = net.export(str(tmp_path / "net"))
    arrays += states + lengths
    names = [f"data{i}" for i in range(len(arrays))]
    made = gluon.SymbolBlock.imports(files[0], names, files[1])(*arrays)
    for ours, theirs in zip([y, *last], made, strict=True):
        np.testing.assert_allclose(theirs.asnumpy(), ours.asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_layer_with_lengths_and_no_states_is_exported(rng, tmp_path):
    net = rnn.GRU(4, use_sequence_length=True, input_size=3)
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    x, lengths = nd.array(rng.normal(size=(5, 2, 3))), nd.array([5, 2])
    y = net(x, None, lengths)
    files = net.export(str(tmp_path / "net"))
    made = gluon.SymbolBlock.imports(files[0], ["data0", "data1"], files[1])(x, lengths)
    np.testing.assert_allclose(made.asnumpy(), y.asnumpy(), rtol=1e-5, atol=1e-6)


def test_bidirectional_layers_and_sequence_lengths(rng):
    layer = rnn.LSTM(3, num_layers=2, bidirectional=True, use_sequence_length=True)
    layer.initialize(mx.init.Normal(0.5))
    x = nd.array(rng.normal(size=(5, 2, 4)))
    y, states = layer(x, layer.begin_state(2), nd.array([5, 2]))
    assert y.shape == (5, 2, 6) and states[0].shape == (4, 2, 3)
    again, _ = layer(x[:2], layer.begin_state(2), nd.array([2, 2]))
    np.testing.assert_allclose(y[:2, 1].asnumpy(), again[:, 1].asnumpy(), rtol=1e-4, atol=1e-5)


def test_losses_are_what_their_formulas_say(rng):
    p, t = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    pred, label = nd.array(p), nd.array(t)
    log_p = p - np.log(np.exp(p).sum(1, keepdims=True))
    positive = (t > 0).astype("float32")
    pairs = [
        (gluon.loss.L2Loss()(pred, label), ((p - t) ** 2).mean(1) / 2),
        (gluon.loss.L1Loss()(pred, label), np.abs(p - t).mean(1)),
        (gluon.loss.SoftmaxCELoss()(pred, nd.array([0, 1, 2, 0])),
         -log_p[np.arange(4), [0, 1, 2, 0]]),
        (gluon.loss.SigmoidBCELoss()(pred, nd.array(positive)),
         (np.log1p(np.exp(-np.abs(p))) + np.maximum(p, 0) - p * positive).mean(1)),
        (gluon.loss.HuberLoss()(pred, label),
         np.where(np.abs(p - t) > 1, np.abs(p - t) - 0.5, 0.5 * (p - t) ** 2).mean(1)),
        (gluon.loss.HingeLoss()(pred, nd.array(2 * positive - 1)),
         np.maximum(0, 1 - p * (2 * positive - 1)).mean(1)),
    ]
    for made, wanted in pairs:
        np.testing.assert_allclose(made.asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    weighted = gluon.loss.SoftmaxCELoss()(pred, nd.array([0, 1, 2, 0]),
                                          nd.array([[0.0], [1], [2], [0]])).asnumpy()
    np.testing.assert_allclose(weighted, pairs[2][1] * [0, 1, 2, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, size", [("resnet18_v1", 32), ("resnet18_v2", 32),
                                        ("mobilenet0.25", 32), ("mobilenetv2_0.25", 32),
                                        ("squeezenet1.1", 64), ("vgg11", 32)])
def test_models_of_the_zoo_run(name, size):
    net = gluon.model_zoo.vision.get_model(name, classes=5)
    net.initialize(mx.init.Xavier())
    assert net(nd.random.normal(shape=(1, 3, size, size))).shape == (1, 5)


def test_loaders_batch_shuffle_and_keep_the_rest():
    data = gluon.data.ArrayDataset(nd.arange(10).reshape((10, 1)), np.arange(10))
    sizes = {last: [x.shape[0] for x, _ in gluon.data.DataLoader(data, 4, last_batch=last)]
             for last in ("keep", "discard", "rollover")}
    assert sizes == {"keep": [4, 4, 2], "discard": [4, 4], "rollover": [4, 4]}
    for workers in (0, 3):
        loader = gluon.data.DataLoader(data, 3, shuffle=True, num_workers=workers)
        seen = np.concatenate([y.asnumpy() for _, y in loader])
        assert sorted(seen) == list(range(10))
    doubled = gluon.data.DataLoader(data.transform_first(lambda x: x * 2), 10)
    assert next(iter(doubled))[0][:, 0].asnumpy().tolist() == list(range(0, 20, 2))
    with pytest.raises(ValueError, match="batch_size"):
        gluon.data.DataLoader(data)


def test_transforms_change_pictures(rng):
    from lockstep.mxnet.gluon.data.vision import transforms

    picture = nd.array(rng.integers(0, 256, (12, 10, 3)), dtype="uint8")
    made = transforms.Compose([
        transforms.Resize((8, 6)), transforms.RandomFlipLeftRight(),
        transforms.RandomCrop(6, pad=1),
        transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1), transforms.RandomLighting(0.1),
        transforms.CenterCrop((4, 5)), transforms.ToTensor(),
        transforms.Normalize([0.1, 0.2, 0.3], [0.5, 0.5, 0.5])])(picture)
    assert made.shape == (3, 5, 4) and made.dtype == np.float32
    plain = transforms.ToTensor()(picture).asnumpy()
    np.testing.assert_allclose(plain, picture.asnumpy().transpose(2, 0, 1) / 255.0, rtol=1e-6)


def test_missing_files_of_a_set_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="root="):
        gluon.data.vision.MNIST(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="resnet18_v1"):
        gluon.model_zoo.vision.resnet18_v1(pretrained=True, root=str(tmp_path))


def test_global_norms_are_clipped(rng):
    arrays = [nd.array(rng.normal(size=(3, 3))) for _ in range(2)]
    norm = np.sqrt(sum((a.asnumpy() ** 2).sum() for a in arrays))
    assert abs(gluon.utils.clip_global_norm(arrays, 0.5) - norm) < 1e-4
    assert abs(np.sqrt(sum((a.asnumpy() ** 2).sum() for a in arrays)) - 0.5) < 1e-4


def test_stores_add_update_and_compress():
    store = mx.kv.create("local")
    store.init(3, nd.ones((2, 2)))
    store.push(3, [nd.ones((2, 2)), nd.ones((2, 2)) * 2])
    out = nd.zeros((2, 2))
    store.pull(3, out=out)
    assert (out.asnumpy() == 3).all()
    store.set_optimizer(mx.optimizer.Test(rescale_grad=0.5))
    store.push(3, nd.ones((2, 2)) * 4)
    store.pull(3, out=out)
    assert (out.asnumpy() == 5).all()
    with pytest.raises(mx.MXNetError, match="init"):
        store.push(4, out)
    with pytest.raises(mx.MXNetError, match="nearest name is 'local'"):
        mx.kv.create("locla")
    half = mx.kvstore._TwoBit(0.5)
    sent = [half("k", nd.array([0.3, -0.9])._tensor).tolist() for _ in range(3)]
    assert sent == [[0, -0.5], [0.5, -0.5], [0, -0.5]]


def test_metrics_are_what_their_formulas_say():
    labels, preds = nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0.2, 0.8], [0.4, 0.6]])
    wanted = {"acc": 2 / 3, "ce": -np.log([0.3, 0.8, 0.6]).mean(), "f1": 0.8,
              "perplexity": np.exp(-np.log([0.3, 0.8, 0.6]).mean())}
    for name, value in wanted.items():
        metric = mx.metric.create(name)
        metric.update([labels], [preds])
        assert abs(metric.get()[1] - value) < 1e-5, name
    both = mx.metric.create(["acc", "mse"])
    both.update([nd.array([1.0, 2.0])], [nd.array([1.0, 4.0])])
    assert both.get() == (["accuracy", "mse"], [0.5, 2.0])
    top = mx.metric.TopKAccuracy(top_k=2)
    top.update([nd.array([2])], [nd.array([[0.5, 0.1, 0.4]])])
    assert top.get() == ("top_k_accuracy_2", 1.0)


def test_initialisers_have_their_spread():
    mx.random.seed(0)
    cases = ((mx.init.Xavier(), lambda w: abs(np.abs(w).max() - np.sqrt(3 / 150)) < 0.01),
             (mx.init.Normal(0.5), lambda w: abs(w.std() - 0.5) < 0.02),
             (mx.init.Constant(3), lambda w: (w == 3).all()),
             (mx.init.Orthogonal(1.0), lambda w: np.allclose(w @ w.T, np.eye(100), atol=1e-4)),
             ("zeros", lambda w: (w == 0).all()))
    for init, check in cases:
        layer = nn.Dense(100, in_units=200, weight_initializer=init)
        layer.initialize()
        assert check(layer.weight.data().asnumpy()), init


def test_warnings_come_once_where_contents_are_kept():
    layer = nn.Dense(1, in_units=1)
    layer.initialize()
    before = layer.weight.data().asnumpy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer.initialize()
    assert any("already initialized" in str(w.message) for w in caught)
    assert (layer.weight.data().asnumpy() == before).all()
    layer.initialize(mx.init.One(), force_reinit=True)
    assert layer.weight.data().asscalar() == 1


def _picture(rng, shape=(6, 8, 3)):
    return nd.array(rng.integers(0, 256, shape), dtype="uint8")


def test_pictures_become_tensors_and_are_normalised(rng):
    for shape in ((6, 8, 3), (2, 6, 8, 3)):
        x = _picture(rng, shape)
        made = nd.image.to_tensor(x)
        wanted = np.moveaxis(x.asnumpy(), -1, -3) / 255.0
        np.testing.assert_allclose(made.asnumpy(), wanted, rtol=1e-5)
        made = nd.image.normalize(made, mean=(0.1, 0.2, 0.3), std=0.5).asnumpy()
        mean = np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)
        np.testing.assert_allclose(made, (wanted - mean) / 0.5, rtol=1e-4, atol=1e-5)


def test_batches_of_pictures_are_cut_turned_and_resized_as_each_is(rng):
    x = _picture(rng, (2, 6, 8, 3))
    changes = [lambda a: nd.image.crop(a, x=1, y=2, width=3, height=4),
               lambda a: nd.image.resize(a, size=(4, 3)),
               lambda a: nd.image.resize(a, size=3, keep_ratio=True),
               nd.image.flip_left_right, nd.image.flip_top_bottom,
               gluon.data.vision.transforms.Resize((4, 3)),
               gluon.data.vision.transforms.Resize(3, keep_ratio=True),
               gluon.data.vision.transforms.CropResize(1, 2, 3, 4, (5, 6))]
    for change in changes:
        made = change(x)
        assert made.dtype == np.uint8
        assert (made.asnumpy() == np.stack([change(one).asnumpy() for one in x])).all()
    plain = x.asnumpy()
    assert (changes[0](x).asnumpy() == plain[:, 2:6, 1:4]).all()
    assert changes[1](x).shape == (2, 3, 4, 3) and changes[2](x).shape == (2, 3, 4, 3)
    assert (changes[3](x).asnumpy() == plain[:, :, ::-1]).all()
    assert (changes[4](x).asnumpy() == plain[:, ::-1]).all()
    with pytest.raises(mx.MXNetError, match="not inside"):
        nd.image.crop(x, 6, 0, 3, 3)


def test_colours_change_by_the_factor_that_is_drawn(rng):
    x = _picture(rng)
    plain = x.asnumpy().astype("float32")
    grey = plain @ np.array([0.299, 0.587, 0.114], "float32")
    for name, wanted in (("brightness", plain * 1.5), ("contrast", plain * 1.5 - grey.mean() * 0.5),
                         ("saturation", plain * 1.5 - grey[..., None] * 0.5)):
        made = getattr(nd.image, f"random_{name}")(x, min_factor=1.5, max_factor=1.5).asnumpy()
        assert made.dtype == np.uint8
        np.testing.assert_allclose(made, np.clip(wanted, 0, 255), atol=1.01)
    made = nd.image.random_hue(x, 0.25, 0.25).asnumpy()
    for before, after in zip(plain.reshape(-1, 3), made.reshape(-1, 3)):
        h, lightness, s = colorsys.rgb_to_hls(*before / 255)
        turned = np.array(colorsys.hls_to_rgb((h + 0.25) % 1, lightness, s)) * 255
        np.testing.assert_allclose(after, turned, atol=1.01)
    floats = nd.array(plain)
    lit = nd.image.adjust_lighting(floats, alpha=(0.1, 0.0, 0.0)).asnumpy() - plain
    np.testing.assert_allclose(lit[0, 0], 5.546 * np.array([-0.5675, -0.5808, -0.5836]), rtol=1e-3)
    assert nd.image.random_lighting(x).shape == x.shape
    assert nd.image.random_color_jitter(x, 0.1, 0.1, 0.1, 0.1).dtype == np.uint8


def test_pictures_are_mirrored_by_chance_in_blocks_and_symbols_too(rng):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.image.to_tensor(F.image.random_flip_top_bottom(x))

    x = _picture(rng, (4, 4, 3))
    plain = nd.image.to_tensor(x).asnumpy()
    for hybridized in (False, True):
        net = Net()
        net.hybridize(hybridized)
        seen = {bool((net(x).asnumpy() == plain).all()) for _ in range(40)}
        assert seen == {True, False}
    node = mx.sym.image.to_tensor(mx.sym.var("x"))
    assert (node.eval(x=x)[0].asnumpy() == plain).all()
    with pytest.raises(AttributeError, match="random_hue"):
        nd.image.random_hues
