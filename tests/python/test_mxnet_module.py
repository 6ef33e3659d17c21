# SPDX-License-Identifier: Apache-2.0
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep import errors
from lockstep.mxnet import nd, sym


def blobs(rng, count=600, features=10, classes=4):
    centres = rng.normal(0, 3, (classes, features))
    label = rng.integers(0, classes, count)
    data = centres[label] + rng.normal(size=(count, features))
    return data.astype("float32"), label.astype("float32")


def bars(rng, count=400):
    """Pictures of 12 x 12 with one bar, and which of four it is."""
    label = rng.integers(0, 4, count)
    data = rng.normal(0, 0.3, (count, 1, 12, 12))
    for i, kind in enumerate(label):
        place = rng.integers(2, 10)
        if kind == 0:
            data[i, 0, place] += 2
        elif kind == 1:
            data[i, 0, :, place] += 2
        elif kind == 2:
            data[i, 0, np.arange(12), np.arange(12)] += 2
        else:
            data[i, 0, np.arange(12), 11 - np.arange(12)] += 2
    return data.astype("float32"), label.astype("float32")


def mlp(classes=4):
    hidden = sym.FullyConnected(sym.var("data"), num_hidden=32, name="fc1")
    hidden = sym.Activation(hidden, act_type="relu")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=classes, name="fc2"),
                             name="softmax")


def lenet():
    net = sym.var("data")
    for i, filters in enumerate((8, 16)):
        net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{i}")
        net = sym.BatchNorm(net, name=f"bn{i}")
        net = sym.Activation(net, act_type="relu")
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=32, name="fc0")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=4, name="fc1")
    return sym.SoftmaxOutput(net, name="softmax")


def fitted(net, data, label, epochs=5, optimizer="sgd", batch=50, **options):
    options = options or {"learning_rate": 0.1, "momentum": 0.9}
    module = mx.mod.Module(net, context=mx.cpu())
    module.fit(mx.io.NDArrayIter(data, label, batch, shuffle=True), num_epoch=epochs,
               optimizer=optimizer, optimizer_params=options, initializer=mx.init.Xavier())
    return module


def accuracy(module, data, label, batch=50):
    return dict(module.score(mx.io.NDArrayIter(data, label, batch), "acc"))["accuracy"]


def test_fit_trains_an_mlp():
    rng = np.random.default_rng(1)
    np.random.seed(1), mx.random.seed(1)
    data, label = blobs(rng)
    module = fitted(mlp(), data, label)
    assert accuracy(module, data, label) > 0.97
    predicted = module.predict(mx.io.NDArrayIter(data, label, 64)).asnumpy()
    assert predicted.shape == (600, 4)
    assert (predicted.argmax(1) == label).mean() > 0.97


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "nag"])
def test_fit_trains_with_other_rules(optimizer):
    rng = np.random.default_rng(1)
    np.random.seed(1), mx.random.seed(1)
    data, label = blobs(rng)
    module = fitted(mlp(), data, label, optimizer=optimizer, learning_rate=0.01)
    assert accuracy(module, data, label) > 0.95


def test_fit_trains_a_lenet_with_batch_norm_and_calls_back(caplog):
    rng = np.random.default_rng(2)
    np.random.seed(2), mx.random.seed(2)
    data, label = bars(rng)
    seen = []
    module = mx.mod.Module(lenet())
    with caplog.at_level(logging.INFO):
        module.fit(mx.io.NDArrayIter(data, label, 40, shuffle=True),
                   eval_data=mx.io.NDArrayIter(data, label, 40), num_epoch=6,
                   optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
                   initializer=mx.init.Xavier(),
                   batch_end_callback=[mx.callback.Speedometer(40, 5), lambda p: seen.append(
                       (p.epoch, p.nbatch))],
                   epoch_end_callback=lambda epoch, symbol, args, states: seen.append(
                       sorted(states)))
    assert accuracy(module, data, label, 40) > 0.95
    assert (5, 9) in seen and ["bn0_moving_mean", "bn0_moving_var", "bn1_moving_mean",
                               "bn1_moving_var"] in seen
    assert "Speed" in caplog.text and "Epoch[5] Validation-accuracy" in caplog.text


def test_what_a_module_computes_is_what_the_same_steps_by_hand_do():
    rng = np.random.default_rng(3)
    data, label = blobs(rng, 8)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc"),
                            name="softmax")
    module = mx.mod.Module(net)
    module.bind([("data", (8, 10))], [("softmax_label", (8,))])
    weight = rng.normal(size=(4, 10)).astype("float32")
    module.init_params(arg_params={"fc_weight": nd.array(weight), "fc_bias": nd.zeros((4,))})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    batch = mx.io.DataBatch([nd.array(data)], [nd.array(label)])
    expected = weight.astype("float64")
    bias = np.zeros(4)
    for _ in range(3):
        module.forward_backward(batch)
        module.update()
        scores = data @ expected.T + bias
        scores = np.exp(scores - scores.max(1, keepdims=True))
        slope = scores / scores.sum(1, keepdims=True) - np.eye(4)[label.astype(int)]
        expected = expected - 0.5 * slope.T @ data / 8
        bias = bias - 0.5 * slope.sum(0) / 8
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), expected, rtol=1e-4,
                               atol=1e-5)


def test_a_checkpoint_is_bit_equal_and_training_goes_on_from_it(tmp_path):
    rng = np.random.default_rng(4)
    data, label = bars(rng, 80)
    np.random.seed(4), mx.random.seed(4)
    module = fitted(lenet(), data, label, epochs=1, batch=20)
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 1, save_optimizer_states=True)
    symbol, args, states = mx.model.load_checkpoint(prefix, 1)
    assert symbol.tojson() == module.symbol.tojson()
    own = module.get_params()
    for saved, kept in zip((args, states), own):
        assert sorted(saved) == sorted(kept)
        for name, array in saved.items():
            assert (array.asnumpy() == kept[name].asnumpy()).all(), name
    loaded = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
    loaded.bind([("data", (20, 1, 12, 12))], [("softmax_label", (20,))])
    loaded.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    batch = mx.io.DataBatch([nd.array(data[:20])], [nd.array(label[:20])])
    for one in (module, loaded):
        for _ in range(2):
            one.forward_backward(batch)
            one.update()
    after = loaded.get_params()
    for part, other in zip(module.get_params(), after):
        for name, array in part.items():
            assert (array.asnumpy() == other[name].asnumpy()).all(), name


def test_do_checkpoint_and_params_files(tmp_path):
    rng = np.random.default_rng(5)
    data, label = blobs(rng, 100)
    prefix = str(tmp_path / "net")
    module = mx.mod.Module(mlp())
    module.fit(mx.io.NDArrayIter(data, label, 50), num_epoch=2,
               epoch_end_callback=mx.callback.do_checkpoint(prefix))
    args, _ = mx.model.load_params(prefix, 2)
    assert (args["fc1_weight"].asnumpy() == module.get_params()[0]["fc1_weight"].asnumpy()).all()
    module.save_params(str(tmp_path / "x.params"))
    other = mx.mod.Module(mlp())
    other.bind([("data", (50, 10))], [("softmax_label", (50,))])
    other.load_params(str(tmp_path / "x.params"))
    assert (other.get_params()[0]["fc2_bias"].asnumpy() == args["fc2_bias"].asnumpy()).all()
    with pytest.raises(errors.Corrupt, match="neither arg: nor aux:"):
        nd.save(str(tmp_path / "bad.params"), {"weight": nd.ones((1,))})
        other.load_params(str(tmp_path / "bad.params"))


def test_batches_of_other_sizes_are_taken_as_they_come():
    module = mx.mod.Module(mlp())
    module.bind([("data", (8, 10))], [("softmax_label", (8,))])
    module.init_params()
    for count in (8, 3, 8):
        module.forward(mx.io.DataBatch([nd.ones((count, 10))], [nd.zeros((count,))]))
        assert module.get_outputs()[0].shape == (count, 4)


def test_fixed_parameters_stay_and_gradients_of_inputs_are_given():
    module = mx.mod.Module(mlp(), fixed_param_names=["fc1_weight"])
    module.bind([("data", (4, 10))], [("softmax_label", (4,))], inputs_need_grad=True)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    before = module.get_params()[0]
    module.forward_backward(mx.io.DataBatch([nd.ones((4, 10))], [nd.zeros((4,))]))
    module.update()
    after = module.get_params()[0]
    assert (before["fc1_weight"].asnumpy() == after["fc1_weight"].asnumpy()).all()
    assert (before["fc2_weight"].asnumpy() != after["fc2_weight"].asnumpy()).any()
    assert np.abs(module.get_input_grads()[0].asnumpy()).sum() > 0


def test_parameters_that_are_not_given_are_drawn():
    shapes = {"data_shapes": [("data", (2, 10))], "label_shapes": [("softmax_label", (2,))]}
    given = {"fc1_weight": nd.ones((32, 10)), "fc1_bias": nd.ones((32,))}
    bucketed = mx.mod.BucketingModule(lambda key: (mlp(), ["data"], ["softmax_label"]), 10)
    chained = mx.mod.SequentialModule().add(mx.mod.Module(mlp()), take_labels=True)
    for module in (mx.mod.Module(mlp()), bucketed, chained):
        module.bind(**shapes)
        module.init_params(arg_params=given, allow_missing=True)
        drawn = module.get_params()[0]["fc2_weight"].asnumpy()
        assert 0 < abs(drawn).max() <= 0.01 and np.unique(drawn).size > 100
        assert (module.get_params()[0]["fc1_weight"].asnumpy() == 1).all()
        assert (module.get_params()[0]["fc2_bias"].asnumpy() == 0).all()
    module = mx.mod.Module(mlp())
    data, label = blobs(np.random.default_rng(1), 20)
    module.fit(mx.io.NDArrayIter(data, label, 10), num_epoch=1, arg_params=given,
               allow_missing=True, optimizer_params={"learning_rate": 0.0})
    drawn = module.get_params()[0]["fc2_weight"].asnumpy()
    assert 0 < abs(drawn).max() <= 0.01
    module.set_params(given, {}, allow_missing=True)
    assert (module.get_params()[0]["fc2_weight"].asnumpy() == drawn).all()
    with pytest.raises(RuntimeError, match="fc2_bias is not presented"):
        module.init_params(arg_params=given, force_init=True)


@pytest.mark.parametrize("contexts", [1, 2])
def test_what_a_script_adds_to_a_modules_gradients_is_in_its_update(contexts):
    module = mx.mod.Module(mlp(), context=[mx.cpu(i) for i in range(contexts)])
    module.bind([("data", (4, 10))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "rescale_grad": 1.0})
    before = module.get_params()[0]
    module.forward_backward(mx.io.DataBatch([nd.ones((4, 10))], [nd.zeros(4)]))
    group, expected = module._exec_group, {}
    for name, [gradient] in zip(group.param_names, group.grad_arrays, strict=True):
        gradient += 1
        expected[name] = before[name].asnumpy() - 0.5 * gradient.asnumpy()
    module.update()
    for name, [value] in zip(group.param_names, module._exec_group.param_arrays, strict=True):
        np.testing.assert_allclose(value.asnumpy(), expected[name], rtol=1e-5, atol=1e-6)


def test_a_module_that_is_not_ready_says_what_is_missing():
    module = mx.mod.Module(mlp())
    with pytest.raises(AssertionError, match="bind\\(\\) and init_params\\(\\)"):
        module.forward(mx.io.DataBatch([nd.ones((4, 10))]))
    with pytest.raises(ValueError, match="Did you mean"):
        mx.mod.Module(mlp(), data_names=["image"])
    with pytest.warns(UserWarning, match="target"):
        mx.mod.Module(mlp(), label_names=["target"])
    module.bind([("data", (4, 10))], [("softmax_label", (4,))])
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.init_params(arg_params={"fc1_weight": nd.ones((32, 10))})
    with pytest.raises(errors.InvalidArgument, match="'fc1_bias' has shape"):
        module.init_params(arg_params={"fc1_bias": nd.ones((3,))}, allow_missing=True)


def sentences(rng, count=400):
    """Words that count up by 1, modulo 8, in sentences of 5 or 9."""
    made = []
    for _ in range(count):
        begin, size = rng.integers(0, 8), (5, 9)[rng.integers(0, 2)]
        made.append([1 + (begin + i) % 8 for i in range(size)])
    return made


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_bucketing_module_trains_a_recurrent_net(cell):
    np.random.seed(6), mx.random.seed(6)
    data = mx.rnn.BucketSentenceIter(sentences(np.random.default_rng(6)), 20, buckets=[5, 9],
                                     invalid_label=0)
    stack = mx.rnn.SequentialRNNCell()
    stack.add(getattr(mx.rnn, cell)(24, prefix="l0_"))

    def sym_gen(length):
        words, label = sym.Variable("data"), sym.Variable("softmax_label")
        vectors = sym.Embedding(words, input_dim=9, output_dim=12, name="embed")
        stack.reset()
        outputs, _ = stack.unroll(length, inputs=vectors, merge_outputs=True)
        scores = sym.FullyConnected(sym.Reshape(outputs, shape=(-1, 24)), num_hidden=9, name="pred")
        label = sym.Reshape(label, shape=(-1,))
        return (sym.SoftmaxOutput(scores, label, name="softmax", use_ignore=True, ignore_label=0),
                ("data",), ("softmax_label",))

    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=data.default_bucket_key)
    metric = mx.metric.Perplexity(0)
    module.fit(data, eval_metric=metric, num_epoch=8, optimizer="adam",
               optimizer_params={"learning_rate": 0.02}, initializer=mx.init.Xavier())
    data.reset()
    perplexity = dict(module.score(data, mx.metric.Perplexity(0)))["perplexity"]
    assert perplexity < 1.2
    assert sorted(module._buckets) == [5, 9]
    weights = {id(m._exec.arg_dict["pred_weight"]) for m in module._buckets.values()}
    assert len(weights) == 1


@pytest.mark.parametrize("mode, ways", [("lstm", False), ("gru", True), ("rnn_tanh", False)])
def test_a_fused_recurrent_net_is_the_same_as_its_cells(mode, ways):
    rng = np.random.default_rng(8)
    fused = mx.rnn.FusedRNNCell(5, num_layers=2, mode=mode, bidirectional=ways, prefix="f_")
    x = nd.array(rng.normal(size=(3, 4, 6)).astype("float32"))
    outputs = []
    args = None
    for cell in (fused, fused.unfuse()):
        net, _ = cell.unroll(4, sym.var("data"), layout="NTC", merge_outputs=True)
        executor = net.simple_bind(mx.cpu(), data=(3, 4, 6))
        if args is None:
            whole = rng.normal(size=executor.arg_dict["f_parameters"].shape) * 0.5
            executor.copy_params_from({"f_parameters": nd.array(whole)})
            args = {"f_parameters": nd.array(whole)}
        else:
            executor.copy_params_from(cell.pack_weights(fused.unpack_weights(args)))
        outputs.append(executor.forward(data=x)[0].asnumpy())
    assert outputs[0].shape == (3, 4, 10 if ways else 5)
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    packed = fused.pack_weights(fused.unpack_weights(args))["f_parameters"]
    assert (packed.asnumpy() == args["f_parameters"].asnumpy()).all()


def test_a_module_is_bound_to_predict_by_the_label_shapes_it_has_not_yet():
    module = mx.mod.Module(mlp(), label_names=None)
    module.bind(for_training=False, data_shapes=[("data", (1, 10))],
                label_shapes=module._label_shapes)
    parameters = {f"fc{i}_{name}": nd.ones(shape) for i, name, shape in (
        (1, "weight", (32, 10)), (1, "bias", (32,)), (2, "weight", (4, 32)), (2, "bias", (4,)))}
    module.set_params(parameters, {}, allow_missing=True)
    module.forward(mx.io.DataBatch([nd.ones((1, 10))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[0.25] * 4]


def test_a_fused_recurrent_net_starts_piece_by_piece_by_the_modules_initializer():
    cell = mx.rnn.FusedRNNCell(4, num_layers=2, mode="lstm", bidirectional=True, forget_bias=2.5,
                               prefix="f_")
    net, _ = cell.unroll(3, sym.var("data"), layout="NTC", merge_outputs=True)
    module = mx.mod.Module(net, label_names=[])
    module.bind([("data", (2, 3, 6))])
    for given in (mx.init.Orthogonal(1.0), mx.init.Mixed([".*"], [mx.init.Orthogonal(1.0)])):
        module.init_params(given, force_init=True)
        pieces = cell.unpack_weights(module.get_params()[0])
        assert len(pieces) == 2 * 2 * 2 * 4 * 2
        for name, value in pieces.items():
            value = value.asnumpy()
            if name.endswith("weight"):
                np.testing.assert_allclose(value @ value.T, np.eye(4), atol=1e-5)
            else:
                assert (value == (2.5 if name.endswith("_f_bias") else 0)).all()


def test_the_initializer_of_fused_recurrent_nets_fills_each_gate():
    cell = mx.rnn.FusedRNNCell(4, mode="lstm", prefix="")
    array = nd.zeros((4 * 4 * (5 + 4 + 2),))
    start = mx.init.FusedRNN(mx.init.Constant(0.5), 4, 1, "lstm", forget_bias=3.0)
    mx.init.create(start.dumps())("parameters", array)
    for name, value in cell.unpack_weights({"parameters": array}).items():
        expected = 0.5 if name.endswith("weight") else 3 if name.endswith("_f_bias") else 0
        assert (value.asnumpy() == expected).all(), name
    array = nd.zeros((3 * 4 * (5 + 4 + 2),))
    mx.init.FusedRNN(mx.init.Xavier(), 4, 1, "gru")("parameters", array)
    assert np.abs(array.asnumpy()[:3 * 4 * 5]).max() <= np.sqrt(3 / 4.5)
    assert (array.asnumpy()[-3 * 4 * 2:] == 0).all()


def test_monitors_see_every_node(caplog):
    seen = mx.mon.Monitor(1, pattern=".*fc.*", sort=True)
    module = mx.mod.Module(mlp())
    module.bind([("data", (4, 10))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    module.install_monitor(seen)
    seen.tic()
    module.forward_backward(mx.io.DataBatch([nd.ones((4, 10))], [nd.zeros((4,))]))
    names = [name for _, name, _ in seen.toc()]
    assert names == ["fc1_bias", "fc1_bias_grad", "fc1_output", "fc1_weight", "fc1_weight_grad",
                     "fc2_bias", "fc2_bias_grad", "fc2_output", "fc2_weight", "fc2_weight_grad"]


def test_monitors_see_a_parameter_once_after_batches_of_several_sizes():
    module, monitor = mx.mod.Module(mlp()), mx.mon.Monitor(1, pattern="fc1_weight$")
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params()
    module.install_monitor(monitor)
    for size in (4, 2, 4, 3):
        monitor.tic()
        module.forward(mx.io.DataBatch([nd.ones((size, 3))], [nd.zeros(size)]), is_train=True)
        assert [name for _, name, _ in monitor.toc()] == ["fc1_weight"]


def test_a_block_of_a_symbol_is_trained_by_gluon_and_a_block_is_exported(tmp_path):
    rng = np.random.default_rng(7)
    mx.random.seed(7)
    data, label = bars(rng, 120)
    features = lenet().get_internals()["fc1_output"]
    net = mx.gluon.SymbolBlock(features, sym.var("data"))
    assert isinstance(net, mx.gluon.SymbolBlock)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = nd.array(data), nd.array(label)
    losses = []
    for _ in range(25):
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(len(data))
        losses.append(float(loss.mean().asscalar()))
    assert losses[-1] < 0.2 * losses[0]
    before = net(x).asnumpy()
    net.export(str(tmp_path / "net"), epoch=3)
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                          str(tmp_path / "net-0003.params"), ctx=mx.cpu())
    np.testing.assert_allclose(loaded(x).asnumpy(), before, rtol=1e-5, atol=1e-5)


def test_a_hybrid_net_is_exported_and_read_by_a_module(tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.BatchNorm(),
            mx.gluon.nn.MaxPool2D(), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.normal(shape=(2, 1, 8, 8))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    symbol, args, states = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (2, 1, 8, 8))], for_training=False)
    module.set_params(args, states)
    module.forward(mx.io.DataBatch([x]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-5, atol=1e-5)


def lines_of(command):
    script = os.path.join(os.path.dirname(__file__), "mxnet_scripts", "module_workers.py")
    out = subprocess.run([*command, sys.executable, "-m", "lockstep.mxnet", script],
                         capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    found = {}
    for line in (out.stdout + out.stderr).splitlines():
        words = line.split()
        words = words[1:] if words and words[0].startswith("[") else words
        if words and words[0] in ("module", "horovod"):
            found[words[0], int(words[1])] = words[2:]
    return found


def test_workers_of_a_module_and_of_horovod_end_with_the_same_parameters(program):
    alone = lines_of([])
    both = lines_of([program, "launch", "-n", "2", "--"])
    assert len(alone) == 2 and len(both) == 4
    for kind in ("module", "horovod"):
        assert both[kind, 0] == both[kind, 1] and both[kind, 0][0] == "2"
    assert float(both["module", 0][2]) > 0.95 and float(alone["module", 0][2]) > 0.95
    assert float(both["horovod", 0][2]) < 0.3


def test_a_metric_of_several_numbers_with_a_reset_of_its_own_is_taken():
    class Errors(mx.metric.EvalMetric):
        def __init__(self):
            super().__init__("errors")

        def reset(self):
            self.counts = [0, 0]

        reset_local = reset

        def update(self, labels, preds):
            wrong = preds[0].asnumpy().argmax(1) != labels[0].asnumpy()
            self.counts = [self.counts[0] + wrong.sum(), self.counts[1] + len(wrong)]

        def get(self):
            return ["wrong", "seen"], self.counts

    metric = Errors()
    metric.update([mx.nd.array([0, 1])], [mx.nd.array([[1, 0], [1, 0]])])
    assert metric.get_global_name_value() == [("wrong", 1), ("seen", 2)]
    assert metric.get_name_value() == metric.get_global_name_value()
    Errors.get_name_value = lambda self: [("both", tuple(self.counts))]
    assert metric.get_global_name_value() == [("both", (1, 2))]


def contexts_net():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
    net = mx.sym.Activation(net, act_type="tanh", name="act")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc2"),
                                name="softmax")


def fitted_on(contexts, batch=20, net=None):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 4)).astype("float32")
    y = rng.integers(0, 3, 60).astype("float32")
    mx.random.seed(7)
    module = mx.mod.Module(net or contexts_net(), context=contexts)
    module.fit(mx.io.NDArrayIter(x, y, batch), num_epoch=3, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.3, "momentum": 0.9})
    return module, x, y


def test_contexts_share_a_batch_and_train_as_one():
    one, x, y = fitted_on(mx.cpu())
    two, _, _ = fitted_on([mx.cpu(0), mx.cpu(1)])
    for name, value in one.get_params()[0].items():
        np.testing.assert_allclose(two.get_params()[0][name].asnumpy(), value.asnumpy(), rtol=1e-4,
                                   atol=1e-6)
    batch = mx.io.DataBatch([mx.nd.array(x[:20])], [mx.nd.array(y[:20])])
    two.forward(batch, is_train=True)
    (parts,) = two.get_outputs(merge_multi_context=False)
    assert [part.shape for part in parts] == [(10, 3), (10, 3)]
    assert [part.context.device_id for part in parts] == [0, 1]
    (whole,) = two.get_outputs()
    np.testing.assert_array_equal(whole.asnumpy(),
                                  np.concatenate([part.asnumpy() for part in parts]))
    # A last batch that is smaller, and parts that are not equal.
    two.forward(mx.io.DataBatch([mx.nd.array(x[:7])], [mx.nd.array(y[:7])]), is_train=False)
    assert two.get_outputs()[0].shape == (7, 3)
    one.forward(mx.io.DataBatch([mx.nd.array(x[:7])], [mx.nd.array(y[:7])]), is_train=False)
    np.testing.assert_allclose(two.get_outputs()[0].asnumpy(), one.get_outputs()[0].asnumpy(),
                               rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="Too many slices"):
        fitted_on([mx.cpu(i) for i in range(3)], batch=2)


def test_states_are_the_mean_over_contexts_and_inputs_have_gradients():
    net = mx.sym.BatchNorm(mx.sym.var("data"), name="bn", momentum=0.5, fix_gamma=False)
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("softmax_label"), name="out")
    module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 2))], [("softmax_label", (4, 2))], inputs_need_grad=True,
                grad_req="add")
    module.init_params(mx.init.One())
    x = np.arange(8, dtype="float32").reshape(4, 2)
    before = module.get_params()[1]["bn_moving_mean"].asnumpy()
    batch = mx.io.DataBatch([mx.nd.array(x)], [mx.nd.zeros((4, 2))])
    module.forward(batch, is_train=True)
    module.backward()
    first = module._exec.grad_dict["bn_beta"].asnumpy().copy()
    means = module.get_params()[1]["bn_moving_mean"].asnumpy()
    np.testing.assert_allclose(means, 0.5 * before + 0.5 * x.mean(axis=0), rtol=1e-5)
    assert module.get_input_grads()[0].shape == (4, 2)
    module.forward(batch, is_train=True)
    module.backward()
    np.testing.assert_allclose(module._exec.grad_dict["bn_beta"].asnumpy(), 2 * first, rtol=1e-4,
                               atol=1e-5)
