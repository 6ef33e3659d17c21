# SPDX-License-Identifier: Apache-2.0
"""Stochastic variance reduced gradients (R. Johnson, T. Zhang: "Accelerating stochastic gradient
descent using predictive variance reduction", 2013).

Every few epochs the parameters are remembered, with the mean of their gradients over all of the data.
A step then takes the batch's gradient, less the one of the remembered parameters on the same batch,
plus that mean: the same on average, and calmer the nearer the two are. Several workers need no more
than that: what each of them corrects by is its own part of the mean, and gradients are added.
"""

import logging

from lockstep.mxnet import ndarray as nd
from lockstep.mxnet.module import Module

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """A Module whose steps have less variance; `update_freq` is how many epochs a mean lasts."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging,
                 context=None, work_load_list=None, fixed_param_names=None, state_names=None,
                 group2ctxs=None, compression_params=None, update_freq=None):
        if not isinstance(update_freq, int):
            raise TypeError(f"SVRGModule: update_freq is {update_freq!r}, expected a number of epochs")
        if update_freq <= 0:
            raise ValueError(f"SVRGModule: update_freq is {update_freq}, expected 1 or more")
        arguments = (symbol, data_names, label_names, logger, context, work_load_list,
                     fixed_param_names, state_names, group2ctxs, compression_params)
        super().__init__(*arguments)
        self.update_freq = update_freq
        self._mod_aux = Module(*arguments)  # with the parameters that are remembered
        self._means = None  # of gradients over all of the data, by name

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        """Makes executors for arrays of these shapes."""
        arguments = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind,
                     shared_module, grad_req)
        super().bind(*arguments)
        if for_training:
            self._mod_aux.bind(*arguments)

    def reshape(self, data_shapes, label_shapes=None):
        """Takes other shapes."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def update_full_grads(self, train_data):
        """Remembers the parameters, and the mean of their gradients over an iterator's batches."""
        self._need("update_full_grads", "binded", "params_initialized")
        self._mod_aux.init_params(arg_params=self.get_params()[0], aux_params=self.get_params()[1],
                                  force_init=True)
        totals, batches = {}, 0.0
        train_data.reset()
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            # What fills up the last batch counts as a part of one.
            batches += 1 - (batch.pad or 0) / train_data.batch_size
            for name, gradient in self._remembered_gradients():
                totals[name] = totals[name] + gradient if name in totals else gradient.copy()
        self._means = {name: total / batches for name, total in totals.items()}
        train_data.reset()

    def _remembered_gradients(self):
        gradients = self._mod_aux._exec.grad_dict
        return [(name, gradients[name]) for name in self._param_names if gradients[name] is not None]

    def forward(self, data_batch, is_train=None):
        """Runs the symbol on a batch, when training with the remembered parameters too."""
        super().forward(data_batch, is_train)
        trains = self.for_training if is_train is None else is_train
        if trains and self._means is not None:
            self._mod_aux.forward(data_batch, is_train=True)

    def backward(self, out_grads=None):
        """Gradients of the last forward in train mode, of both."""
        super().backward(out_grads)
        if self._means is not None:
            self._mod_aux.backward(out_grads)

    def update(self):
        """One step of the optimiser, on the corrected gradients; before update_full_grads() on those
        that backward has left."""
        if self._means is not None:
            own = self._exec.grad_dict
            for name, gradient in self._remembered_gradients():
                own[name][:] = own[name] - gradient + self._means[name]
        super().update()

    def _train_epoch(self, epoch, train_data, eval_metric, batch_end_callback, monitor):
        if epoch % self.update_freq == 0 or self._means is None:
            self.update_full_grads(train_data)
        super()._train_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor)
