# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.estimator."""

import logging
import warnings

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import gluon, nd
from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.contrib.estimator import (BatchEnd, BatchProcessor, CheckpointHandler,
                                                    EarlyStoppingHandler, EpochEnd, Estimator,
                                                    GradientUpdateHandler, LoggingHandler,
                                                    MetricHandler, StoppingHandler,
                                                    ValidationHandler)


def loader(size=40, batch=10, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 4)).astype("float32")
    y = (x[:, 0] > x[:, 1]).astype("float32")
    return gluon.data.DataLoader(gluon.data.ArrayDataset(nd.array(x), nd.array(y)), batch)


def estimator(rate=0.3, metrics=None, hybrid=False, **kwargs):
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=4), nn.Dense(2, in_units=8))
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "momentum": 0.9})
    made = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), metrics, trainer=trainer,
                     context=mx.cpu(), **kwargs)
    made.logger.handlers.clear()
    return made


def lines(made):
    """What it logs from now on."""
    kept = []

    class Keep(logging.Handler):
        def emit(self, record):
            kept.append(record.getMessage())

    made.logger.addHandler(Keep())
    return kept


class Count(BatchEnd, EpochEnd):
    def __init__(self):
        self.batches = self.epochs = 0

    def batch_end(self, estimator, *args, **kwargs):
        assert set(kwargs) == {"batch", "pred", "label", "loss"}
        self.batches += 1

    def epoch_end(self, estimator, *args, **kwargs):
        self.epochs += 1


def test_fit_learns_and_evaluate_measures():
    made = estimator()
    said = lines(made)
    made.fit(loader(), val_data=loader(seed=1), epochs=12)
    training, validation = (dict(metric.get() for metric in metrics)
                            for metrics in (made.train_metrics, made.val_metrics))
    assert training["training accuracy"] > 0.9 and validation["validation accuracy"] > 0.8
    assert set(training) == {"training accuracy", "training softmaxcrossentropyloss"}
    before = validation["validation accuracy"]
    made.evaluate(loader(seed=1))
    assert made.val_metrics[0].get()[1] == before
    assert said[0].startswith("Training begin: using optimizer SGD with current learning rate 0.3")
    assert said[1] == "Train for 12 epochs." and said.count("Validation Begin") == 13
    assert any(line.startswith("Train finished using total") for line in said)


def test_it_is_the_loop_that_one_writes_by_hand():
    made, by_hand = estimator(), estimator()
    made.fit(loader(), epochs=2)
    for _ in range(2):
        for x, y in loader():
            with mx.autograd.record():
                loss = by_hand.loss(by_hand.net(x), y)
            loss.backward()
            by_hand.trainer.step(10)
    for a, b in zip(made.net.collect_params().values(), by_hand.net.collect_params().values()):
        np.testing.assert_array_equal(a.data().asnumpy(), b.data().asnumpy())


def test_training_ends_after_epochs_or_batches():
    counts = Count()
    estimator().fit(loader(), epochs=3, event_handlers=counts)
    assert (counts.batches, counts.epochs) == (12, 3)
    counts = Count()
    estimator().fit(loader(), batches=6, event_handlers=[counts])
    assert (counts.batches, counts.epochs) == (6, 2)
    for wrong in ({}, {"epochs": 1, "batches": 1}):
        with pytest.raises(ValueError, match="epochs or batches"):
            estimator().fit(loader(), **wrong)


def test_a_handler_of_the_scripts_own_ends_an_epoch_and_the_training():
    class Stop(Count):
        def batch_end(self, *args, **kwargs):
            super().batch_end(*args, **kwargs)
            return self.batches % 2 == 0

        def epoch_end(self, *args, **kwargs):
            super().epoch_end(*args, **kwargs)
            return self.epochs == 2

    stop = Stop()
    estimator().fit(loader(), epochs=10, event_handlers=stop)
    assert (stop.batches, stop.epochs) == (4, 2)


def test_handlers_are_called_by_priority_and_defaults_fill_what_is_missing():
    made = estimator()
    made.max_epoch, made.max_batch = 1, None
    kinds = [type(h) for h in made._prepare_default_handlers(loader(), [Count()])]
    assert kinds == [GradientUpdateHandler, MetricHandler, ValidationHandler, Count, StoppingHandler,
                     LoggingHandler]
    with pytest.raises(ValueError, match="none of the estimator's"):
        made.fit(loader(), epochs=1, event_handlers=MetricHandler(mx.metric.Accuracy()))
    with pytest.raises(ValueError, match="no event handler"):
        made.fit(loader(), epochs=1, event_handlers=[print])


def test_validation_every_so_many_batches():
    made, seen = estimator(), []
    handler = ValidationHandler(loader(seed=1), lambda **kwargs: seen.append(kwargs["batch_axis"]),
                                epoch_period=None, batch_period=3)
    made.fit(loader(), epochs=3, event_handlers=handler)
    assert seen == [0] * 4


def test_metrics_are_logged_every_so_many_batches():
    made = estimator(metrics=mx.metric.Accuracy())
    said = lines(made)
    made.fit(loader(), epochs=1, event_handlers=LoggingHandler(2, made.train_metrics))
    batches = [line for line in said if "[Batch" in line]
    assert [line.split("[Samples ")[1].split("]")[0] for line in batches] == ["10", "30"]
    assert all("training accuracy: " in line and "time/interval: " in line for line in batches)
    with pytest.raises(ValueError, match="log_interval"):
        LoggingHandler("batch")


def test_training_ends_early_when_nothing_improves():
    made = estimator(rate=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stop = EarlyStoppingHandler(made.train_metrics[1], patience=2, mode="min")
    said = lines(made)
    made.fit(loader(), epochs=20, event_handlers=stop)
    assert stop.current_epoch == 3 and stop.stopped_epoch == 2
    assert any("early stopping due to training softmaxcrossentropyloss" in line for line in said)
    made = estimator()
    with pytest.warns(UserWarning, match="greater"):
        stop = EarlyStoppingHandler(made.train_metrics[0], patience=50)
    made.fit(loader(), epochs=3, event_handlers=stop)
    assert stop.current_epoch == 3 and not stop.stop_training
    with pytest.warns(UserWarning, match="less"):
        assert EarlyStoppingHandler(made.train_metrics[1]).monitor_op is np.less
    with pytest.raises(ValueError, match="monitor"):
        EarlyStoppingHandler("accuracy")


def test_checkpoints_are_kept_and_the_best_one_too(tmp_path):
    made = estimator(hybrid=True)
    keep = CheckpointHandler(str(tmp_path), "net", made.train_metrics[0], save_best=True, mode="max",
                             max_checkpoints=2)
    made.fit(loader(), epochs=4, event_handlers=keep)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-best.params", "net-best.states", "net-epoch2batch12.params", "net-epoch2batch12.states",
        "net-epoch3batch16.params", "net-epoch3batch16.states", "net-symbol.json"]
    back = gluon.SymbolBlock(mx.sym.load(str(tmp_path / "net-symbol.json")), [mx.sym.var("data")])
    assert len(back.collect_params()) == 4
    with pytest.raises(ValueError, match="monitor"):
        CheckpointHandler(str(tmp_path), save_best=True)


def test_training_that_was_resumed_ends_with_the_same_bits(tmp_path):
    whole = estimator()
    whole.fit(loader(), epochs=4)
    estimator().fit(loader(), epochs=2, event_handlers=CheckpointHandler(str(tmp_path / "a")))
    resumed = estimator(rate=0.3)
    handler = CheckpointHandler(str(tmp_path / "a"), resume_from_checkpoint=True)
    resumed.fit(loader(), epochs=4, event_handlers=handler)
    assert resumed.max_epoch == 2
    assert (tmp_path / "a" / "model-epoch3batch16.params").exists()
    for a, b in zip(whole.net.collect_params().values(), resumed.net.collect_params().values()):
        np.testing.assert_array_equal(a.data().asnumpy(), b.data().asnumpy())
    with pytest.raises(ValueError, match="the end of training"):
        estimator().fit(loader(), epochs=4, event_handlers=handler)
    with pytest.raises(AssertionError, match="by batches alone"):
        estimator().fit(loader(), batches=40, event_handlers=handler)


def test_a_batch_processor_and_nets_of_ones_own():
    class Scaled(BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            x, y = train_batch
            return super().fit_batch(estimator, (x * 0, y), batch_axis)

    made = estimator(batch_processor=Scaled())
    made.fit(loader(), epochs=1)
    assert float(made.net[0].weight.grad().asnumpy().max()) == 0.0
    with pytest.raises(ValueError, match="no fit_batch"):
        estimator(batch_processor=object())


def test_what_is_wrong_is_said():
    net = nn.Dense(2)
    loss = gluon.loss.L2Loss()
    with pytest.warns(UserWarning, match="No trainer specified"):
        made = Estimator(net, loss)
    assert made.context == [mx.cpu()] and made.trainer.learning_rate == 0.001
    made.net(nd.ones((1, 3)))
    with pytest.warns(UserWarning, match="already fully initialized"):
        Estimator(net, loss, initializer=mx.init.Xavier(), trainer=made.trainer)
    for wrong in ({"loss": print}, {"trainer": "sgd"}, {"context": "cpu"},
                  {"train_metrics": ["acc"]}):
        with pytest.raises(ValueError):
            Estimator(**{"net": net, "loss": loss, "trainer": made.trainer, **wrong})
    with pytest.raises(ValueError, match="DataLoader"):
        made.fit([nd.ones((1, 3))], epochs=1)
    with pytest.raises(ValueError, match="DataLoader"):
        made.evaluate(mx.io.NDArrayIter(nd.ones((1, 3))))
