# SPDX-License-Identifier: Apache-2.0
"""Event handlers of an estimator: what is done when training, an epoch or a batch begins or ends.

A handler is called at the events that it is a subclass of, those of lower `priority` first. One that
returns True at the end of a batch or an epoch ends the training.
"""

import time

import numpy as np

from lockstep.mxnet.gluon.contrib.estimator.utils import check_metrics
from lockstep.mxnet.metric import Loss

__all__ = ["BatchBegin", "BatchEnd", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin",
           "EpochEnd", "GradientUpdateHandler", "LoggingHandler", "MetricHandler",
           "StoppingHandler", "TrainBegin", "TrainEnd", "ValidationHandler"]


class EventHandler:
    """What all handlers are."""


class TrainBegin(EventHandler):
    """Called when training begins."""

    def train_begin(self, estimator, *args, **kwargs):
        pass


class TrainEnd(EventHandler):
    """Called when training has ended."""

    def train_end(self, estimator, *args, **kwargs):
        pass


class EpochBegin(EventHandler):
    """Called when an epoch begins."""

    def epoch_begin(self, estimator, *args, **kwargs):
        pass


class EpochEnd(EventHandler):
    """Called when an epoch has ended; True ends the training."""

    def epoch_end(self, estimator, *args, **kwargs):
        return False


class BatchBegin(EventHandler):
    """Called with `batch` before it is used."""

    def batch_begin(self, estimator, *args, **kwargs):
        pass


class BatchEnd(EventHandler):
    """Called with `batch`, `pred`, `label` and `loss`; True ends the epoch."""

    def batch_end(self, estimator, *args, **kwargs):
        return False


def check_handlers(handlers):
    """A list of handlers, of one, several or None."""
    handlers = [handlers] if isinstance(handlers, EventHandler) else list(handlers or [])
    for handler in handlers:
        if not isinstance(handler, EventHandler):
            raise ValueError(f"estimator: {handler!r} is no event handler")
    return handlers


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after so many batches or epochs."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator, *args, **kwargs):
        # A handler before this one may have shortened it.
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Keeps metrics up to date, before others look at them."""

    def __init__(self, metrics, priority=-1000):
        self.metrics, self.priority = check_metrics(metrics), priority

    def epoch_begin(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            if isinstance(metric, Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Calls `eval_fn` every so many epochs, or batches."""

    def __init__(self, val_data, eval_fn, epoch_period=1, batch_period=None, priority=-1000,
                 event_handlers=None):
        self.val_data, self.eval_fn = val_data, eval_fn
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.priority, self.event_handlers = priority, event_handlers
        self.current_batch = self.current_epoch = 0

    def train_begin(self, estimator, *args, **kwargs):
        self.current_batch = self.current_epoch = 0

    def _evaluate(self, estimator, period, count):
        if period and count % period == 0:
            self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis,
                         event_handlers=self.event_handlers)

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        self._evaluate(estimator, self.batch_period, self.current_batch)

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        self._evaluate(estimator, self.epoch_period, self.current_epoch)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs metrics every epoch, or with a number every so many batches too. It comes last."""

    def __init__(self, log_interval="epoch", metrics=None, priority=np.inf):
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError(f"LoggingHandler: log_interval is {log_interval!r}, expected a number "
                             "or 'epoch'")
        self.metrics, self.log_interval, self.priority = (check_metrics(metrics), log_interval,
                                                          priority)
        self._begin()

    def _begin(self):
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0

    def _values(self):
        return ", ".join("%s: %.4f" % metric.get() for metric in self.metrics)

    def train_begin(self, estimator, *args, **kwargs):
        self.train_start = time.time()
        trainer = estimator.trainer
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ",
                              type(trainer.optimizer).__name__, trainer.learning_rate)
        count, unit = ((estimator.max_epoch, "epochs") if estimator.max_epoch
                       else (estimator.max_batch, "batches"))
        estimator.logger.info("Train for %d %s.", count, unit)
        self._begin()

    def train_end(self, estimator, *args, **kwargs):
        estimator.logger.info("Train finished using total %ds with %d epochs. %s",
                              time.time() - self.train_start, self.current_epoch, self._values())

    def batch_begin(self, estimator, *args, **kwargs):
        self.batch_start = time.time()

    def batch_end(self, estimator, *args, **kwargs):
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                estimator.logger.info("[Epoch %d][Batch %d][Samples %s] time/interval: %.3fs %s",
                                      self.current_epoch, self.batch_index, self.processed_samples,
                                      self.log_interval_time, self._values())
                self.log_interval_time = 0
        self.batch_index += 1

    def epoch_begin(self, estimator, *args, **kwargs):
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f",
                                  self.current_epoch, estimator.trainer.learning_rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator, *args, **kwargs):
        estimator.logger.info("[Epoch %d] Finished in %.3fs, %s", self.current_epoch,
                              time.time() - self.epoch_start, self._values())
        self.current_epoch += 1
        self.batch_index = 0


class GradientUpdateHandler(BatchEnd):
    """Makes the trainer's step, before all else at the end of a batch."""

    def __init__(self, priority=-2000):
        self.priority = priority

    def batch_end(self, estimator, *args, **kwargs):
        loss = kwargs["loss"]
        loss = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(part.shape[0] for part in loss))


# They stand on what is above.
from lockstep.mxnet.gluon.contrib.estimator._checkpoint import CheckpointHandler  # noqa: E402,F401
from lockstep.mxnet.gluon.contrib.estimator._early_stopping import (  # noqa: E402,F401
    EarlyStoppingHandler)
