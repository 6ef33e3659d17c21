# SPDX-License-Identifier: Apache-2.0
"""Saves the net and the trainer while training, and goes on from what was saved."""

import os
import re

from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.contrib.estimator._monitor import Monitor
from lockstep.mxnet.gluon.contrib.estimator.event_handler import BatchEnd, EpochEnd, TrainBegin


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Writes PREFIX-epochNbatchM.params and .states every so many epochs or batches, keeps the last
    `max_checkpoints` of them, and with save_best PREFIX-best of the best value of `monitor`. A
    hybridized net's symbol is written once. resume_from_checkpoint goes on from the last one that is
    there, and trains what is left."""

    def __init__(self, model_dir, model_prefix="model", monitor=None, verbose=0, save_best=False,
                 mode="auto", epoch_period=1, batch_period=None, max_checkpoints=5,
                 resume_from_checkpoint=False):
        self.monitor, self.verbose, self.save_best = monitor, verbose, save_best
        self._monitor = Monitor("CheckpointHandler", monitor, mode) if save_best else None
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir, self.model_prefix = model_dir, model_prefix
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints = []
        self._begin()

    def _begin(self):
        self.current_epoch = self.current_batch = 0
        # Epochs and batches that were trained before, where it was resumed.
        self.trained_epoch = self.trained_batch = -1
        self.best = self._monitor.worst if self.save_best else None

    def train_begin(self, estimator, *args, **kwargs):
        self._begin()
        if self.resume_from_checkpoint:
            self._check_periods(estimator)
            self._resume(estimator)

    def batch_end(self, estimator, *args, **kwargs):
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator, *args, **kwargs):
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    # Saving.

    def _path(self, prefix, ending):
        return os.path.join(self.model_dir, f"{prefix}{ending}")

    def _numbers(self, estimator):
        """The epoch and the batch that a checkpoint is called after."""
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            # At the end of an epoch the last batch is counted already.
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        return epoch, batch

    def _save_checkpoint(self, estimator):
        prefix = "%s-epoch%dbatch%d" % (self.model_prefix, *self._numbers(estimator))
        self._save(estimator, prefix)
        self.saved_checkpoints.append(prefix)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            self._remove(self.saved_checkpoints.pop(0))
        self._say(estimator, "trained total %d batches, saving model at %s with prefix: %s",
                  self.current_batch + 1, self.model_dir, prefix)
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator):
        value = self._monitor.value()
        if value is None:
            return
        name = self.monitor.get()[0]
        if not self._monitor.better(value, self.best):
            self._say(estimator, "%s did not improve from %0.5f, skipping updating best model", name,
                      self.best)
            return
        prefix = f"{self.model_prefix}-best"
        self._save(estimator, prefix)
        self._say(estimator, "%s improved from %0.5f to %0.5f, updating best model at %s with "
                  "prefix: %s", name, self.best, value, self.model_dir, prefix)
        self.best = value

    def _save(self, estimator, prefix):
        estimator.net.save_parameters(self._path(prefix, ".params"))
        estimator.trainer.save_states(self._path(prefix, ".states"))

    def _remove(self, prefix):
        for ending in (".params", ".states"):
            if os.path.exists(self._path(prefix, ending)):
                os.remove(self._path(prefix, ending))

    def _save_symbol(self, estimator):
        from lockstep.mxnet import _symbol_block

        path = self._path(self.model_prefix, "-symbol.json")
        if isinstance(estimator.net, HybridBlock) and estimator.net._active:
            _symbol_block.symbol_of(estimator.net).save(path)
        else:
            estimator.logger.info("CheckpointHandler: %s is not written, the net is not a HybridBlock "
                                  "that was hybridized", path)

    def _say(self, estimator, text, *values):
        if self.verbose > 0:
            estimator.logger.info(f"[Epoch %d] CheckpointHandler: {text}", self.current_epoch,
                                  *values)

    # Going on.

    def _check_periods(self, estimator):
        by_batch, by_epoch = bool(self.batch_period), bool(self.epoch_period)
        wanted = (True, False) if estimator.max_batch else (False, True)
        assert (by_batch, by_epoch) == wanted, (
            "CheckpointHandler: to be resumed, what is trained by epochs is saved by epochs alone "
            "(batch_period=None), what is trained by batches by batches alone (epoch_period=None)")

    def _find(self):
        """What is there, in the order of their numbers."""
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params$")
        found = filter(None, (pattern.match(name) for name in os.listdir(self.model_dir)))
        return sorted((int(match[1]), int(match[2])) for match in found)

    def _resume(self, estimator):
        found = self._find()
        if not found:
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch")
            return
        self.trained_epoch, self.trained_batch = found[-1]
        self.saved_checkpoints = ["%s-epoch%dbatch%d" % (self.model_prefix, *numbers)
                                  for numbers in found]
        self._shorten(estimator)
        last = self.saved_checkpoints[-1]
        estimator.net.load_parameters(self._path(last, ".params"), ctx=estimator.context)
        estimator.trainer.load_states(self._path(last, ".states"))
        estimator.logger.warning("CheckpointHandler: Checkpoint resumed from epoch %d batch %d",
                                 self.trained_epoch, self.trained_batch)

    def _shorten(self, estimator):
        """What is left to be trained."""
        for limit, trained in (("max_epoch", self.trained_epoch), ("max_batch", self.trained_batch)):
            wanted = getattr(estimator, limit)
            if not wanted:
                continue
            if trained >= wanted - 1:
                raise ValueError(f"CheckpointHandler: {self.model_dir} has a checkpoint of the end of "
                                 f"training, {limit}={wanted}; resume_from_checkpoint=False begins "
                                 "anew")
            setattr(estimator, limit, wanted - trained - 1)
