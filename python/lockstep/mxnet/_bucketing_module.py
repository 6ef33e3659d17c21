# SPDX-License-Identifier: Apache-2.0
"""Modules for data of several sizes: a symbol for each of them, on the same parameters."""

import logging

from lockstep.mxnet import model
from lockstep.mxnet._base_module import BaseModule
from lockstep.mxnet.initializer import Uniform
from lockstep.mxnet.module import Module
from lockstep.mxnet.name import NameManager


class BucketingModule(BaseModule):
    """`sym_gen(key)` gives (symbol, data_names, label_names) of a bucket, a sentence's length say.
    The default one has all parameters."""

    def __init__(self, sym_gen, default_bucket_key=None, logger=logging, context=None,
                 work_load_list=None, fixed_param_names=None, state_names=None, group2ctxs=None,
                 compression_params=None):
        super().__init__(logger)
        if default_bucket_key is None:
            raise AssertionError("BucketingModule: default_bucket_key is the largest bucket's key")
        self._sym_gen, self._default = sym_gen, default_bucket_key
        self._options = dict(context=context, fixed_param_names=fixed_param_names,
                             state_names=state_names, compression_params=compression_params,
                             logger=logger)
        self._buckets, self._current, self._current_key = {}, None, None
        self._monitor, self._loaded = None, None
        self._make(default_bucket_key)

    def _make(self, key):
        with NameManager():  # a bucket's names do not depend on those made before it
            symbol, data_names, label_names = self._sym_gen(key)
        return Module(symbol, data_names, label_names, **self._options)

    @property
    def _curr_module(self):
        return self._current

    @property
    def symbol(self):
        return self._current.symbol

    @property
    def data_names(self):
        return (self._current or self._make(self._default)).data_names

    @property
    def output_names(self):
        return (self._current or self._make(self._default)).output_names

    @property
    def data_shapes(self):
        return self._current.data_shapes

    @property
    def label_shapes(self):
        return self._current.label_shapes

    @property
    def output_shapes(self):
        return self._current.output_shapes

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        """Binds the default bucket; others when they are met."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self.get_params() if self.params_initialized and self.binded else self._loaded
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req, self._buckets = grad_req, {}
        made = self._make(self._default)
        made.bind(data_shapes, label_shapes, for_training, inputs_need_grad, False, None, grad_req)
        self._buckets[self._default], self._current = made, made
        self._current_key, self.binded = self._default, True
        if kept is not None:
            self.set_params(*kept)

    def switch_bucket(self, bucket_key, data_shapes, label_shapes=None):
        """Makes a bucket's module the one that runs."""
        self._need("switch_bucket", "binded")
        if bucket_key not in self._buckets:
            made = self._make(bucket_key)
            made.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad, False,
                      self._buckets[self._default], self._grad_req)
            made.params_initialized = self.params_initialized
            if self.optimizer_initialized:
                made.borrow_optimizer(self._buckets[self._default])
            if self._monitor is not None:
                made.install_monitor(self._monitor)
            self._buckets[bucket_key] = made
        self._current, self._current_key = self._buckets[bucket_key], bucket_key

    def get_params(self):
        return self._buckets[self._default].get_params()

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None,
                    allow_missing=False, force_init=False, allow_extra=False):
        if self.params_initialized and not force_init:
            return
        self._need("init_params", "binded")
        self._buckets[self._default].init_params(initializer, arg_params, aux_params, allow_missing,
                                                 force_init, allow_extra)
        self.params_initialized = True
        for made in self._buckets.values():
            made.params_initialized = True

    def init_optimizer(self, kvstore="local", optimizer="sgd",
                       optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """One optimiser for all buckets."""
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        default = self._buckets[self._default]
        default.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for made in self._buckets.values():
            if made is not default:
                made.borrow_optimizer(default)
        self.optimizer_initialized = True

    def _switch_to(self, batch):
        key = getattr(batch, "bucket_key", None)
        key = self._default if key is None else key
        default = self._buckets[self._default]
        self.switch_bucket(key, batch.provide_data or default.data_shapes,
                           batch.provide_label or default.label_shapes)

    def prepare(self, data_batch, sparse_row_id_fn=None):
        self._switch_to(data_batch)

    def forward(self, data_batch, is_train=None):
        self._need("forward", "binded", "params_initialized")
        self._switch_to(data_batch)
        self._current.forward(data_batch, is_train)

    def backward(self, out_grads=None):
        self._current.backward(out_grads)

    def update(self):
        self._need("update", "binded", "params_initialized", "optimizer_initialized")
        self._current.update()

    def get_outputs(self, merge_multi_context=True):
        return self._current.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        return self._current.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._current.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        self._monitor = mon
        for made in self._buckets.values():
            made.install_monitor(mon)

    def save_checkpoint(self, prefix, epoch, remove_amp_cast=True):
        """Writes the parameters; a bucket's symbol is made by sym_gen."""
        args, states = self.get_params()
        model.save_checkpoint(prefix, epoch, self._buckets[self._default].symbol, args, states)

    @staticmethod
    def load(prefix, epoch, sym_gen=None, default_bucket_key=None, **kwargs):
        """A module of a checkpoint; bind() comes next."""
        made = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        _, args, states = model.load_checkpoint(prefix, epoch)
        made._loaded, made.params_initialized = (args, states), True
        return made
