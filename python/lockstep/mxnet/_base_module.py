# SPDX-License-Identifier: Apache-2.0
"""What every module does with its own forward, backward and update: fit, score, predict."""

import logging
import time

from lockstep.errors import InvalidArgument
from lockstep.mxnet import io, metric
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet.initializer import Uniform
from lockstep.mxnet.model import BatchEndParam


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _call_all(callbacks, *args):
    for callback in _as_list(callbacks) if callbacks is not None else ():
        callback(*args)


class BaseModule:
    """A net with parameters that can be trained; see Module."""

    def __init__(self, logger=logging):
        self.logger = logger
        self.binded = self.for_training = self.inputs_need_grad = False
        self.params_initialized = self.optimizer_initialized = False

    def _need(self, what, *flags):
        names = {"binded": "bind()", "params_initialized": "init_params()",
                 "optimizer_initialized": "init_optimizer()"}
        missing = [names[flag] for flag in flags if not getattr(self, flag)]
        if missing:
            raise AssertionError(f"{what}: {' and '.join(missing)} must be called first")

    def forward_backward(self, data_batch):
        """forward in train mode, then backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Is called with a batch before it is forwarded."""

    def score(self, eval_data, eval_metric, num_batch=None, batch_end_callback=None,
              score_end_callback=None, reset=True, epoch=0, sparse_row_id_fn=None):
        """The metric on an iterator's batches, as (name, value) pairs."""
        self._need("score", "binded", "params_initialized")
        if reset:
            eval_data.reset()
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        seen = 0
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                break
            self.prepare(batch)
            self.forward(batch, is_train=False)
            self.update_metric(eval_metric, batch.label)
            _call_all(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
            seen += 1
        _call_all(score_end_callback, BatchEndParam(epoch, seen, eval_metric, locals()))
        return eval_metric.get_name_value()

    def iter_predict(self, eval_data, num_batch=None, reset=True, sparse_row_id_fn=None):
        """(outputs, number, batch) for every batch, without repeats of samples."""
        self._need("iter_predict", "binded", "params_initialized")
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                break
            self.prepare(batch)
            self.forward(batch, is_train=False)
            yield self._without_pad(batch), number, batch

    def _without_pad(self, batch):
        pad = batch.pad or 0
        return [out[0:out.shape[0] - pad] for out in self.get_outputs()]

    def predict(self, eval_data, num_batch=None, merge_batches=True, reset=True,
                always_output_list=False, sparse_row_id_fn=None):
        """The outputs on an iterator's batches, one after the other, or of one array."""
        if isinstance(eval_data, nd.NDArray) or not hasattr(eval_data, "provide_data"):
            array = eval_data if isinstance(eval_data, nd.NDArray) else nd.array(eval_data)
            self._need("predict", "binded", "params_initialized")
            self.forward(io.DataBatch([array]), is_train=False)
            return self.get_outputs()[0]
        batches = [[out.copy() for out in outputs]
                   for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset)]
        if not batches or not merge_batches:
            return batches
        counts = {len(outputs) for outputs in batches}
        if len(counts) != 1:
            raise InvalidArgument("predict: the batches have different numbers of outputs; "
                                  "merge_batches=False keeps them apart")
        merged = [nd.concat(*[outputs[i] for outputs in batches], dim=0)
                  for i in range(counts.pop())]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(self, train_data, eval_data=None, eval_metric="acc", epoch_end_callback=None,
            batch_end_callback=None, kvstore="local", optimizer="sgd",
            optimizer_params=(("learning_rate", 0.01),), eval_end_callback=None,
            eval_batch_end_callback=None, initializer=Uniform(0.01), arg_params=None,
            aux_params=None, allow_missing=False, force_rebind=False, force_init=False,
            begin_epoch=0, num_epoch=None, validation_metric=None, monitor=None,
            sparse_row_id_fn=None):
        """Trains on an iterator for epochs from begin_epoch to num_epoch."""
        if num_epoch is None:
            raise AssertionError("fit: num_epoch says how many epochs to train")
        self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label,
                  for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer=initializer, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        for epoch in range(begin_epoch, num_epoch):
            begin = time.time()
            self._train_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor)
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - begin)
            args, states = self.get_params()
            self.set_params(args, states)
            _call_all(epoch_end_callback, epoch, self.symbol, args, states)
            if eval_data is not None:
                found = self.score(eval_data, validation_metric, epoch=epoch,
                                   batch_end_callback=eval_batch_end_callback,
                                   score_end_callback=eval_end_callback)
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(self, epoch, train_data, eval_metric, batch_end_callback, monitor):
        eval_metric.reset()
        for number, batch in enumerate(train_data):
            if monitor is not None:
                monitor.tic()
            self.prepare(batch)
            self.forward_backward(batch)
            self.update()
            self.update_metric(eval_metric, batch.label)
            if monitor is not None:
                monitor.toc_print()
            _call_all(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))

    # Parameters in files.

    def save_params(self, fname):
        """Writes the parameters."""
        from lockstep.mxnet import _files

        args, states = self.get_params()
        arrays = {f"arg:{name}": array for name, array in args.items()}
        arrays.update({f"aux:{name}": array for name, array in states.items()})
        _files.save_params(fname, arrays)

    def load_params(self, fname):
        """Takes the parameters of a file."""
        from lockstep.mxnet import _files, model

        self.set_params(*model.split_params(_files.load_params(fname), fname))

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True,
                   allow_extra=False):
        """Takes parameters by name."""
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init,
                         allow_extra=allow_extra)

    def get_states(self, merge_multi_context=True):
        return []

    def set_states(self, states=None, value=None):
        """There are none."""

    @property
    def symbol(self):
        """What it computes."""
        return getattr(self, "_symbol", None)
