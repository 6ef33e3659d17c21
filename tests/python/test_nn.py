# SPDX-License-Identifier: Apache-2.0
import gc
import threading
import weakref

import numpy as np
import pytest

import lockstep as ls
from lockstep import autograd, nn


class LeNet(nn.Block):
    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.conv2d(width, 3, padding=1)
        self.conv2 = nn.conv2d(2 * width, 3, padding=1)
        self.fc = nn.dense(10)

    def forward(self, x):
        y = ls.max_pool(ls.relu(self.conv1(x)), 2)
        y = ls.max_pool(ls.relu(self.conv2(y)), 2)
        return self.fc(y)


class Scaled(nn.Block):
    """With parameters of its own."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter((width,), init=nn.init.constant(2.0))
        self.count = nn.Parameter((1,), init=nn.init.zero(), trainable=False)

    def forward(self, x):
        if autograd.is_training():
            self.count.update(self.count.data() + 1)
        return x * self.scale


def test_blocks_of_python_have_names_shapes_and_gradients():
    net = LeNet()
    assert list(net.parameters()) == ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "fc.weight", "fc.bias"]
    net.initialize(seed=3)
    x = ls.ones((2, 1, 8, 8))
    assert net(x).shape == (2, 10)
    assert net.parameter("fc.weight").shape == (10, 64)
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    assert net.parameter("conv1.weight").grad().shape == (8, 1, 3, 3)
    assert "LeNet" in repr(net) and "(conv1)" in repr(net)
    table = net.summary((2, 1, 8, 8))
    assert "conv1" in table and "<pre" in table._repr_html_()


def test_a_hybridized_block_computes_the_same():
    net = LeNet()
    net.initialize(seed=1)
    x = ls.tensor(np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype("float32"))
    eager = net(x).numpy().copy()
    calls = []
    net.register_forward_hook(lambda block, inputs, outputs: calls.append(1))
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net(x).numpy(), eager, rtol=1e-4, atol=1e-5)
    net.parameter("fc.bias").set_data(ls.ones(10))
    np.testing.assert_allclose(net(x).numpy(), eager + 1, rtol=1e-4, atol=1e-5)


def test_own_parameters_statistics_and_updates():
    net = Scaled(3)
    net.initialize()
    assert net(ls.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    with autograd.record():
        y = net(ls.ones((2, 3))).sum()
    y.backward()
    assert net.scale.grad().tolist() == [2.0] * 3
    assert net.count.data().item() == 1
    assert not net.count.trainable and net.scale.trainable
    updater = ls.optim.Updater(net.parameters(), ls.optim.sgd(learning_rate=0.5))
    updater.step(2)
    assert net.scale.data().tolist() == [1.5] * 3
    assert (net.scale * ls.ones(3)).tolist() == [1.5] * 3


class Nested(nn.Block):
    def forward(self, x, states, scale=1.0, mask=None):
        a, b = states
        y = x * scale + a
        return y, [a + 1, b if mask is None else b * mask]


def test_arguments_and_results_may_be_nested():
    net = Nested()
    x, a, b = ls.ones(2), ls.zeros(2), ls.ones(2)
    y, states = net(x, [a, b], scale=3.0)
    assert y.tolist() == [3, 3] and isinstance(states, list) and states[0].tolist() == [1, 1]
    y, (_, c) = net(x, (a, b), mask=ls.tensor([0.0, 1.0]))
    assert c.tolist() == [0, 1]


def test_blocks_in_sequences_keep_their_python_side():
    net = nn.sequential(nn.dense(4), Scaled(4))
    gc.collect()
    net.initialize()
    assert net(ls.ones((1, 2))).shape == (1, 4)
    assert isinstance(net[1], Scaled) and len(net) == 2 and len(list(net)) == 2
    assert net[-1] is net[1]
    with pytest.raises(IndexError):
        net[2]


def test_dropped_nets_leave_nothing():
    def make():
        net = nn.Sequential(LeNet(), Scaled(10))
        net.initialize()
        net(ls.ones((1, 1, 8, 8)))
        return weakref.ref(net[0])

    gc.collect()
    make()
    before = ls.memory_stats()["live_bytes"]
    seen = [make() for _ in range(20)]
    gc.collect()
    assert all(ref() is None for ref in seen)
    assert ls.memory_stats()["live_bytes"] <= before


def test_children_are_replaced_and_shared():
    net = LeNet()
    net.initialize()
    net(ls.ones((1, 1, 8, 8)))
    net.fc = nn.dense(3)
    net.initialize()
    assert net(ls.ones((1, 1, 8, 8))).shape == (1, 3)
    other = LeNet()
    other.initialize(seed=9)
    other(ls.ones((1, 1, 8, 8)))
    net.conv1.share_parameters(other.conv1)
    assert net.parameter("conv1.weight").same_as(other.parameter("conv1.weight"))


def test_parameters_are_saved_and_loaded(tmp_path):
    net, other = LeNet(), LeNet()
    x = ls.ones((1, 1, 8, 8))
    for seed, block in ((1, net), (2, other)):
        block.initialize(seed=seed)
        block(x)
    path = str(tmp_path / "net.params")
    net.save(path)
    assert net(x).tolist() != other(x).tolist()
    other.load(path)
    assert net(x).tolist() == other(x).tolist()


def test_a_block_without_forward_or_init_says_so():
    class Nothing(nn.Block):
        pass

    with pytest.raises(ValueError, match="Nothing.*no method forward"):
        Nothing()(ls.ones(1))

    class Late(nn.Block):
        def __init__(self):
            self.fc = nn.dense(1)

    with pytest.raises(TypeError, match="super"):
        Late()

    class Wrong(nn.Block):
        def forward(self, x):
            raise RuntimeError("from forward")

    with pytest.raises(RuntimeError, match="from forward"):
        Wrong()(ls.ones(1))


LAYERS = [
    (lambda: nn.dense(3, activation="tanh"), (2, 5), (2, 3)),
    (lambda: nn.conv1d(3, 3, padding=1), (2, 4, 7), (2, 3, 7)),
    (lambda: nn.conv2d_transpose(3, 2, stride=2), (1, 4, 3, 3), (1, 3, 6, 6)),
    (lambda: nn.max_pool2d(2), (1, 2, 4, 4), (1, 2, 2, 2)),
    (lambda: nn.avg_pool1d(2, stride=1), (1, 2, 4), (1, 2, 3)),
    (lambda: nn.global_avg_pool2d(), (1, 2, 4, 4), (1, 2, 1, 1)),
    (lambda: nn.adaptive_avg_pool2d(2), (1, 2, 5, 5), (1, 2, 2, 2)),
    (lambda: nn.batch_norm(), (4, 3), (4, 3)),
    (lambda: nn.layer_norm(), (4, 3), (4, 3)),
    (lambda: nn.group_norm(2), (1, 4, 3), (1, 4, 3)),
    (lambda: nn.instance_norm(), (2, 4, 3), (2, 4, 3)),
    (lambda: nn.dropout(0.5), (4, 3), (4, 3)),
    (lambda: nn.flatten(), (4, 3, 2), (4, 6)),
    (lambda: nn.lstm(5), (7, 2, 3), (7, 2, 5)),
    (lambda: nn.gru(5, bidirectional=True), (7, 2, 3), (7, 2, 10)),
    (lambda: nn.rnn(5, activation="relu"), (7, 2, 3), (7, 2, 5)),
    (lambda: nn.lstm_cell(5), (2, 3), (2, 5)),
    (lambda: nn.multi_head_attention(8, 2), (2, 5, 8), (2, 5, 8)),
    (lambda: nn.transformer_encoder_block(8, 2), (2, 5, 8), (2, 5, 8)),
    (lambda: nn.pad2d(1), (1, 2, 3, 3), (1, 2, 5, 5)),
    (lambda: nn.upsample(scale=2.0), (1, 2, 3, 3), (1, 2, 6, 6)),
    (lambda: nn.pixel_shuffle(2), (1, 4, 3, 3), (1, 1, 6, 6)),
    (lambda: nn.prelu(), (2, 3), (2, 3)),
    (lambda: nn.activation("gelu"), (2, 3), (2, 3)),
    (lambda: nn.lambda_(lambda x: x * 2), (2, 3), (2, 3)),
    (lambda: nn.spectral_norm(nn.dense(3)), (2, 3), (2, 3)),
    (lambda: nn.models.mlp(), (2, 4), (2, 10)),
]


@pytest.mark.parametrize("make, before, after", LAYERS)
def test_layers_have_their_shapes(make, before, after):
    layer = make()
    layer.initialize()
    assert layer(ls.ones(before)).shape == after


def test_layers_of_several_inputs():
    lstm = nn.lstm(4)
    lstm.initialize()
    x = ls.ones((3, 2, 5))
    y, h, c = lstm(x, ls.zeros((1, 2, 4)), ls.zeros((1, 2, 4)))
    assert (y.shape, h.shape, c.shape) == ((3, 2, 4), (1, 2, 4), (1, 2, 4))
    table = nn.embedding(7, 3)
    table.initialize()
    assert table(ls.tensor([[1, 2]])).shape == (1, 2, 3)
    cell = nn.lstm_cell(4)
    cell.initialize()
    outputs = cell.unroll(x)
    assert outputs[0].shape == (3, 2, 4)


LOSSES = ["L1Loss", "L2Loss", "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss",
          "SigmoidBinaryCrossEntropyLoss", "PoissonNLLLoss", "KLDivLoss"]


@pytest.mark.parametrize("name", LOSSES)
def test_losses_give_one_value_a_sample(name):
    loss = getattr(nn, name)()
    assert loss(ls.ones((4, 3)), ls.zeros((4, 3))).shape == (4,)
    assert loss(ls.ones((4, 3)), ls.zeros((4, 3)), ls.zeros((4, 1))).tolist() == [0] * 4


def test_cross_entropy_is_torchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(5, 4)).astype("float32"), rng.integers(0, 4, 5)
    ours = nn.SoftmaxCrossEntropyLoss()(scores, labels)
    theirs = torch.nn.functional.cross_entropy(torch.tensor(scores), torch.tensor(labels),
                                               reduction="none")
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_initialisers_are_functions_of_shapes_in_python_too():
    layer = nn.dense(2, inputs=3, weight_init=lambda shape: np.full(shape, 0.5, "float32"))
    layer.initialize()
    assert layer(ls.ones((1, 3))).tolist() == [[1.5, 1.5]]
    xavier = nn.dense(2, inputs=3)
    xavier.initialize(nn.init.xavier(), seed=1)
    assert xavier.parameter("weight").data().abs().max().item() > 0


def test_a_parameter_computes_as_its_contents_do():
    class Block(nn.Block):
        def __init__(self, call):
            super().__init__()
            self.w = nn.Parameter((2, 2), init=nn.init.constant(3.0))
            self.call = call

        def forward(self, x):
            return self.call(self.w, x)

    calls = [lambda w, x: w * w, lambda w, x: 2 * w - w / 2 + 1 - w, lambda w, x: -w @ x,
             lambda w, x: w ** 2, lambda w, x: w[0] + abs(w)[1], lambda w, x: w.T.sum(axis=0),
             lambda w, x: w.reshape((4,)).exp(), lambda w, x: (w > 2) * x]
    for call in calls:
        net = Block(call)
        net.initialize()
        x = ls.tensor([[1.0, 2.0], [3.0, 4.0]])
        want = call(ls.full((2, 2), 3.0), x).numpy()
        assert np.array_equal(net(x).numpy(), want)
        net.hybridize()
        assert np.allclose(net(x).numpy(), want)
    with pytest.raises(AttributeError, match="no attribute 'summ'"):
        net.w.summ


def test_how_a_net_begins_is_kept_by_whoever_trains_it():
    """Parameters whose shapes the first batch tells wait for it."""
    data = np.zeros((8, 6), "float32"), np.zeros(8, "int64")
    net = nn.sequential(nn.dense(3))
    net.initialize(nn.init.constant(0.25), seed=7)
    ls.Trainer(net, nn.SoftmaxCrossEntropyLoss(), ls.optim.sgd(learning_rate=1e-30),
               global_batch=8, shards=1, seed=1).fit(data, steps=1)
    assert np.all(net.parameter("0.weight").data().numpy() == 0.25)


def test_a_callback_evaluates_what_is_learned_so_far():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 6)).astype("float32")
    data = x, (x[:, 0] > 0).astype("int64")
    net = nn.sequential(nn.dense(2, inputs=6))
    net.initialize(seed=1)
    trainer = ls.Trainer(net, nn.SoftmaxCrossEntropyLoss(), ls.optim.sgd(learning_rate=0.5),
                         global_batch=64, seed=1)
    losses = []
    watch = ls.train.on_step(lambda run, event: losses.append(trainer.evaluate(data).loss))
    trainer.fit(data, epochs=3, callbacks=[watch])
    assert losses[0] > losses[1] > losses[2] == trainer.evaluate(data).loss


@pytest.mark.parametrize("loss", [lambda p, y: ls.square(p[:, 0] - y)[:3],
                                  lambda p, y: ls.square(p[:, 0] - y)[:0]])
def test_a_loss_that_is_not_of_every_sample_is_refused(loss):
    data = np.ones((16, 6), "float32"), np.ones(16, "float32")
    trainer = ls.Trainer(nn.sequential(nn.dense(1)), loss, ls.optim.sgd(), global_batch=16,
                         shards=1)
    with pytest.raises(ValueError, match="expected their mean, or as many for each sample"):
        trainer.fit(data, steps=1)


def test_rules_have_the_names_of_the_reference_and_mxnets():
    for rule, names, mxnets in [(ls.optim.rmsprop, {"rho": 0.8, "momentum": 0.7},
                                 {"gamma1": 0.8, "gamma2": 0.7}),
                                (ls.optim.ftrl, {"lambda1": 0.2}, {"lamda1": 0.2}),
                                (ls.optim.signum, {"decoupled_decay": 0.1}, {"wd_lh": 0.1})]:
        assert repr(rule(**names)) == repr(rule(**mxnets))


def test_a_schedule_that_gives_no_number_is_named():
    def nothing(step):
        return None

    data = np.ones((4, 2), "float32"), np.ones(4, "int64")
    trainer = ls.Trainer(nn.sequential(nn.dense(2)), nn.SoftmaxCrossEntropyLoss(),
                         ls.optim.sgd(), global_batch=4, shards=1)
    with pytest.raises(ValueError, match="schedule nothing: gave None for step 0"):
        trainer.fit(data, steps=1, schedule=nothing)


@pytest.mark.parametrize("name,slope", [("asinh", lambda x: 1 / np.sqrt(x * x + 1)),
                                        ("acosh", lambda x: 1 / np.sqrt(x * x - 1)),
                                        ("atan", lambda x: 1 / (x * x + 1))])
def test_gradients_of_halves_do_not_overflow_on_the_way(name, slope):
    values = np.array([1.5, 100.0, 300.0, 700.0])
    x = ls.tensor(values).cast("float16").attach_grad()
    with autograd.record():
        y = getattr(ls, name)(x).sum()
    y.backward()
    assert np.allclose(x.grad.numpy().astype("float64"), slope(values), rtol=4e-3, atol=1e-7)


class Arranged(nn.Block):
    """What it computes and gives depends on what stands beside its tensors."""

    def forward(self, x, flag=True, k=2, more=None):
        y = x * k if flag else x * -k
        if more is None:
            return y
        return {"sum": y + more["x"], "list": [y, (x,)]} if flag else (y + more["x"], None, "no")


def values(result):
    if isinstance(result, ls.Tensor):
        return result.tolist()
    if isinstance(result, dict):
        return {name: values(item) for name, item in result.items()}
    if isinstance(result, (list, tuple)):
        return [values(item) for item in result]
    return result


def test_a_compiled_call_is_of_what_stands_beside_its_tensors():
    x = ls.tensor([1.0, 2.0])
    calls = [((), {}), ((False,), {}), ((True,), {}), ((), {"k": 5}), ((), {"k": 5.5}),
             ((False, 5), {}), ((), {"k": x * 7}), ((True, 2, {"x": x}), {}),
             ((False,), {"more": {"x": x}}), ((), {"more": {"x": x * 3}}), ((), {"k": True})]
    plain, compiled = Arranged(), Arranged()
    compiled.hybridize()
    for _ in range(2):
        for args, kwargs in calls:
            assert values(compiled(x, *args, **kwargs)) == values(plain(x, *args, **kwargs))


def test_threads_that_call_one_block_have_arguments_and_results_of_their_own():
    block = Arranged()
    block.hybridize()
    x, wrong = ls.tensor([1.0, 2.0]), []

    def work(k):
        for _ in range(50):
            got = values(block(x, k % 2 == 0, k, more={"x": x * k}))
            if got != values(Arranged()(x, k % 2 == 0, k, more={"x": x * k})):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_compiled_block_keeps_what_it_was_called_with_no_longer_than_itself():
    class Held:
        pass

    block, held = Arranged(), Held()
    block.hybridize()
    held.block = block
    x = ls.ones((2,))
    assert block(x, flag=held).tolist() == block(x).tolist()
    seen = weakref.ref(held)
    for k in range(300):
        block(x, k=k)
    del block, held
    gc.collect()
    assert seen() is None
