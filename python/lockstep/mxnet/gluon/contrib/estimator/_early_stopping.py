# SPDX-License-Identifier: Apache-2.0
"""Ends training when a metric does not get better any more."""

from lockstep.mxnet.gluon.contrib.estimator._monitor import Monitor
from lockstep.mxnet.gluon.contrib.estimator.event_handler import EpochEnd, TrainBegin, TrainEnd

import numpy as np


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training after `patience` epochs in which `monitor` was not better, by `min_delta`, than
    at its best, or than `baseline`."""

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        self._monitor = Monitor("EarlyStoppingHandler", monitor, mode)
        self.monitor, self.monitor_op = monitor, self._monitor.better
        self.baseline, self.patience = baseline, patience
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta
        self._begin()

    def _begin(self):
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = self._monitor.worst if self.baseline is None else self.baseline

    def train_begin(self, estimator, *args, **kwargs):
        self._begin()

    def epoch_end(self, estimator, *args, **kwargs):
        value = self._monitor.value()
        if value is not None and self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        elif value is not None:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator, *args, **kwargs):
        if self.stop_training:
            estimator.logger.info("[Epoch %d] EarlyStoppingHandler: early stopping due to %s not "
                                  "improving", self.stopped_epoch, self.monitor.get()[0])
