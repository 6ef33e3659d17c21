# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import lockstep as ls
from lockstep import nn, optim


def samples(count=128, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 6)).astype("float32")
    return x, (x[:, 0] > x[:, 1]).astype("int64")


class Net(nn.Block):
    def __init__(self):
        super().__init__()
        self.hidden = nn.dense(16, activation="relu")
        self.out = nn.dense(2)

    def forward(self, x):
        return self.out(self.hidden(x))


def trainer(net=None, loss=None, **options):
    options = {"global_batch": 32, "shards": 4, "seed": 3, **options}
    return ls.Trainer(net or Net(), loss or nn.SoftmaxCrossEntropyLoss(),
                      optim.sgd(learning_rate=0.2, momentum=0.9), **options)


def test_a_net_of_python_learns_and_its_bits_depend_on_no_thread():
    sums = set()
    for threads in (1, 2):
        t = trainer(threads=threads)
        result = t.fit(samples(), epochs=10)
        sums.add(result.params_sha256)
        assert t.evaluate(samples(64, seed=1)).accuracy > 0.85
    assert len(sums) == 1 and result.steps == 40 and result.epochs == 10


def test_losses_of_python_are_traced_into_the_step():
    def loss(scores, labels):
        return ls.softmax_cross_entropy(scores, labels)

    own = trainer(loss=loss).fit(samples(), epochs=2)
    engine = trainer().fit(samples(), epochs=2)
    assert own.params_sha256 == engine.params_sha256

    def classes(scores, labels):
        return scores.argmax(-1), labels

    counted = trainer(loss=loss, classes=classes)
    counted.fit(samples(), epochs=5)
    assert counted.evaluate(samples()).accuracy > 0.8


class Uncertainty(nn.Block):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter((1,), init=nn.init.zero())

    def forward(self, output, label):
        loss = ls.softmax_cross_entropy(output, label)
        return loss * (-self.scale.data()).exp() + self.scale.data()


def test_a_loss_that_is_a_block_learns():
    loss = Uncertainty()
    trainer(loss=loss).fit(samples(), epochs=2)
    assert loss.scale.data().item() != 0


def test_schedules_samplers_transforms_and_data_of_python():
    class Set:
        def __len__(self):
            return 64

        def __getitem__(self, i):
            x, y = samples(64)
            return x[i] * 2, y[i]

    def fit(data, transform, schedule):
        return trainer().fit(data, epochs=2, transform=transform, schedule=schedule).params_sha256

    x, y = samples(64)
    engine = fit((x, y), None, optim.cosine(0.2, steps=4))
    python = fit(Set(), lambda x: x.numpy() / 2, lambda step: optim.cosine(0.2, steps=4)(step))
    assert engine == python


def test_callbacks_are_told_and_may_stop():
    told = []

    class Watch(ls.train.Callback):
        def on_train_begin(self, context):
            told.append(("begin", context.total_steps))

        def on_step_end(self, context, event):
            assert event.loss > 0 and context.step == event.step
            if event.step == 3:
                context.request_stop("enough")

        def on_train_end(self, context, result):
            told.append(("end", result.steps))

    result = trainer().fit(samples(), epochs=5, callbacks=[Watch()])
    assert told == [("begin", 20), ("end", 3)] and result.stopped
    assert result.stop_reason == "enough"
    seen = []
    trainer().fit(samples(), epochs=2, validation=samples(32, 1), metrics=["accuracy"],
                  callbacks=[ls.train.on_evaluation(lambda c, e: seen.append(e.loss)),
                             ls.train.on_epoch(lambda c, e: seen.append(e.epoch)),
                             ls.train.early_stopping("loss", maximize=False)])
    assert seen[0] == 0 and len(seen) == 4

    def fail(context, event):
        raise RuntimeError("from a callback")

    with pytest.raises(RuntimeError, match="from a callback"):
        trainer().fit(samples(), callbacks=[ls.train.on_step(fail)])


def test_metrics_are_recorded_in_a_folder(tmp_path):
    trainer().fit(samples(), epochs=1, callbacks=[ls.train.record_metrics(str(tmp_path / "run"))])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 4 and json.loads(lines[0])["step"] == 1


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    whole = trainer().fit(samples(), epochs=4)
    folder = str(tmp_path / "checkpoints")

    def stop(context, event):
        if event.step == 7:
            context.request_stop("later")

    part = trainer().fit(samples(), epochs=4, checkpoints=folder,
                         callbacks=[ls.train.on_step(stop)])
    assert part.steps == 7
    rest = trainer().fit(samples(), epochs=4, checkpoints=folder, resume=True)
    assert rest.resumed_from == 7 and rest.params_sha256 == whole.params_sha256


def test_predictions_evaluations_and_metrics():
    t = trainer()
    t.fit(samples(), epochs=2)
    x, y = samples(50, seed=2)
    predictions = t.predict((x, y))
    assert predictions.shape == (50, 2)
    seen = t.evaluate((x, y), keep_predictions=True, metrics=["cross_entropy"])
    assert seen.predictions == predictions.argmax(-1).tolist() and seen.labels == y.tolist()
    assert seen.metrics["cross_entropy"] == pytest.approx(seen.loss, rel=1e-5)
    assert "accuracy" in repr(seen)


def test_notebooks_show_a_runs_curves():
    result = trainer().fit(samples(), epochs=3, validation=samples(32, 1))
    assert len(result.history) == 3
    page = result._repr_html_()
    assert page.count("<svg") == 2 and "accuracy" in page and "loss" in page


def test_mistakes_are_told():
    with pytest.raises(TypeError, match="unexpected|no option"):
        trainer().fit(samples(), epoch=3)
    with pytest.raises(ValueError, match="role"):
        trainer(fields=["inputs"])
    with pytest.raises(TypeError, match="loss"):
        trainer(loss=3)
    bad = trainer(loss=lambda scores, labels: scores.log() * float("nan"))
    with pytest.raises(ls.Diverged):
        bad.fit(samples())


def test_several_inputs_and_labels():
    class Both(nn.Block):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.dense(2), nn.dense(2)

        def forward(self, a, b):
            return self.left(a), self.right(b)

    def loss(left, right, label):
        return ls.softmax_cross_entropy(left + right, label)

    x, y = samples()
    t = ls.Trainer(Both(), loss, optim.adam(learning_rate=0.01), global_batch=32,
                   fields=["input:a", "input:b", "label"])
    result = t.fit((x, x[:, ::-1].copy(), y), epochs=2)
    assert np.isfinite(result.train_loss)


LENET = os.path.join(os.path.dirname(__file__), "lenet.py")


def recipe_sum(program, tmp_path, steps, name):
    out = subprocess.run(
        [program, "train", "mnist-lenet", "--data", "synthetic", "--steps", str(steps), "--seed",
         "0", "--workers", "1", "--threads", "1", "--out", str(tmp_path / name), "--json"],
        capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout.splitlines()[-1])["params_sha256"]


def run_lenet(command, steps, threads=1):
    out = subprocess.run([*command, sys.executable, LENET, str(steps), str(threads)],
                         capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, out.stderr
    lines = [line.split()[-1] for line in out.stdout.splitlines() if len(line.split()[-1]) == 64]
    assert len(lines) == 1, out.stdout
    return lines[0]


def test_a_python_lenet_has_the_recipes_bits_on_any_number_of_workers(program, tmp_path):
    steps = 6
    recipe = recipe_sum(program, tmp_path, steps, "run")
    assert run_lenet([], steps) == recipe
    assert run_lenet([program, "launch", "-n", "2", "--"], steps) == recipe
    assert run_lenet([program, "launch", "-n", "4", "--"], steps) == recipe
    assert run_lenet([program, "launch", "-n", "2", "-s", "2", "--"], steps) == recipe


def test_a_run_folder_is_loaded(program, tmp_path):
    recipe_sum(program, tmp_path, 3, "run")
    model = ls.load(tmp_path / "run")
    assert model.step == 3 and model.config["recipe"] == "mnist-lenet"
    assert len(model.classes) == 10
    x = np.random.default_rng(0).normal(size=(5, 1, 28, 28)).astype("float32")
    probabilities = model.predict(x)
    assert probabilities.shape == (5, 10)
    np.testing.assert_allclose(probabilities.sum(1).numpy(), np.ones(5), rtol=1e-5)
    assert model.predict(np.zeros((28, 28, 1), "uint8")).shape == (1, 10)


def test_stores_add_what_is_pushed():
    store = ls.kvstore.create("local")
    assert (store.type, store.rank, store.num_workers) == ("local", 0, 1)
    store.init(3, ls.ones(2))
    store.set_optimizer(optim.sgd(learning_rate=0.5))
    store.push(3, ls.ones(2))
    assert store.pull(3).tolist() == [0.5, 0.5]
    with pytest.raises(LookupError):
        store.pull("none")
