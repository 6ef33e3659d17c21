# SPDX-License-Identifier: Apache-2.0
"""Trains and evaluates a net; what happens around the batches is done by event handlers."""

import copy
import logging
import sys
import warnings

from lockstep.mxnet.context import Context, cpu, gpu, num_gpus
from lockstep.mxnet.gluon.contrib.estimator import utils
from lockstep.mxnet.gluon.contrib.estimator.batch_processor import BatchProcessor
from lockstep.mxnet.gluon.contrib.estimator.event_handler import (
    BatchBegin, BatchEnd, EpochBegin, EpochEnd, GradientUpdateHandler, LoggingHandler,
    MetricHandler, StoppingHandler, TrainBegin, TrainEnd, ValidationHandler, check_handlers)
from lockstep.mxnet.gluon.data import DataLoader
from lockstep.mxnet.gluon.loss import Loss
from lockstep.mxnet.gluon.trainer import Trainer
from lockstep.mxnet.metric import Loss as LossMetric

__all__ = ["Estimator"]

_EVENTS = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)


class Estimator:
    """A net with its loss, metrics and trainer.

    `val_net` and `val_loss` are the net's own unless given. What is logged goes to `logger`, which
    prints; further handlers of `logging` can be added to it.
    """

    logger = None

    def __init__(self, net, loss, train_metrics=None, val_metrics=None, initializer=None,
                 trainer=None, context=None, val_net=None, val_loss=None, batch_processor=None):
        self.net = net
        self.loss = _check_loss(loss)
        self.val_loss = self.loss if val_loss is None else _check_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self._train_metrics = utils.check_metrics(train_metrics)
        self._val_metrics = utils.check_metrics(val_metrics)
        self._name_metrics()
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = _check_processor(batch_processor)

    @property
    def train_metrics(self):
        return self._train_metrics

    @property
    def val_metrics(self):
        return self._val_metrics

    def _name_metrics(self):
        """Names say of which data a metric is; without metrics there are the loss and what goes with
        it."""
        if not self._train_metrics:
            suggested = utils.metric_for(self.loss)
            self._train_metrics = [suggested] if suggested else []
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("0123456789")))
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"
        for metric in self._val_metrics:
            metric.name = f"validation {metric.name}"

    def _is_initialized(self):
        for parameter in self.net.collect_params().values():
            try:
                parameter.list_ctx()
            except RuntimeError:
                return False
        return True

    def _initialize(self, initializer):
        if not self._is_initialized():
            own = {"init": initializer} if initializer else {}
            self.net.initialize(ctx=self.context, **own)
        elif initializer:
            warnings.warn("Network already fully initialized, the initializer is not used; "
                          "net.initialize(init=..., force_reinit=True) begins anew")

    def _check_trainer(self, trainer):
        if not trainer:
            warnings.warn("No trainer specified, SGD with a learning rate of 0.001 is used")
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(f"estimator: the trainer is {trainer!r}, expected a gluon.Trainer")
        return trainer

    # Running.

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Metrics of `val_data`: afterwards val_metrics have them."""
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(self, train_data, val_data=None, epochs=None, event_handlers=None, batches=None,
            batch_axis=0):
        """Trains for so many epochs, or so many batches, or until a handler ends it."""
        _check_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ValueError("estimator: fit is told epochs or batches, one of them; got "
                             f"epochs={epochs}, batches={batches}")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        (train_begin, epoch_begin, batch_begin, batch_end, epoch_end,
         train_end) = self._categorize_handlers(handlers)
        for handler in train_begin:
            handler.train_begin(self)
        stopped = False
        while not stopped:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            self._fit_epoch(train_data, batch_begin, batch_end)
            # All of them hear of it, whichever ends the training.
            stopped = any([handler.epoch_end(self) for handler in epoch_end])
        for handler in train_end:
            handler.train_end(self)

    def _fit_epoch(self, train_data, batch_begin, batch_end):
        for batch in train_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.fit_batch(self, batch, self.batch_axis)
            if any([handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                    for handler in batch_end]):
                return

    # Handlers.

    def _prepare_default_handlers(self, val_data, event_handlers):
        validates = [(ValidationHandler, lambda: ValidationHandler(val_data, self.evaluate))]
        return self._with_defaults(event_handlers, [
            (None, lambda: StoppingHandler(self.max_epoch, self.max_batch)),
            (GradientUpdateHandler, GradientUpdateHandler),
            (MetricHandler, lambda: MetricHandler(self.train_metrics)),
            *(validates if val_data else []),
            (LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics)),
        ], self.train_metrics + self.val_metrics)

    def _prepare_default_validation_handlers(self, event_handlers):
        return self._with_defaults(event_handlers, [
            (MetricHandler, lambda: MetricHandler(self.val_metrics)),
            (LoggingHandler, lambda: LoggingHandler(metrics=self.val_metrics)),
        ], self.val_metrics)

    @staticmethod
    def _with_defaults(given, defaults, known):
        """The handlers that were given, and those of the kinds that are missing, in their order.
        Given ones that stand beside ours look at the metrics that ours update."""
        given = check_handlers(given)
        added = [make() for kind, make in defaults
                 if kind is None or not any(isinstance(handler, kind) for handler in given)]
        handlers = given + added
        for handler in handlers if given and added else ():
            utils.check_known(handler, known)
        return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))

    @staticmethod
    def _categorize_handlers(event_handlers):
        """Handlers by the events that they hear of, in the order in which those happen."""
        return tuple([handler for handler in event_handlers if isinstance(handler, event)]
                     for event in _EVENTS)


def _check_loss(loss):
    if not isinstance(loss, Loss):
        raise ValueError(f"estimator: the loss is {loss!r}, expected one of gluon.loss")
    return loss


def _check_loader(data):
    if not isinstance(data, DataLoader):
        raise ValueError(f"estimator: the data is a {type(data).__name__}, expected a "
                         "gluon.data.DataLoader")


def _check_context(context):
    if not context:
        if num_gpus() > 1:
            warnings.warn("estimator: gpu(0) of several is used; context=[mx.gpu(0), ...] uses more")
        return [gpu(0) if num_gpus() else cpu()]
    context = [context] if isinstance(context, Context) else context
    if not isinstance(context, list) or not all(isinstance(one, Context) for one in context):
        raise ValueError(f"estimator: the context is {context!r}, expected mx.cpu() or a list of "
                         "contexts")
    there = [gpu(i) for i in range(num_gpus())]
    for one in context:
        assert one in there or one.device_type.startswith("cpu"), (
            f"estimator: there is no {one}; there are mx.cpu() and {there}")
    return context


def _check_processor(processor):
    if processor is None:
        return BatchProcessor()
    for method in ("fit_batch", "evaluate_batch"):
        if not callable(getattr(processor, method, None)):
            raise ValueError(f"estimator: the batch processor has no {method}()")
    return processor
