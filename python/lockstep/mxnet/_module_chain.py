# SPDX-License-Identifier: Apache-2.0
"""Modules one behind the other, and modules that are written in Python."""

import logging

from lockstep.mxnet import io
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet._base_module import BaseModule
from lockstep.mxnet.initializer import Uniform
from lockstep.mxnet.io import DataDesc


class SequentialModule(BaseModule):
    """Every module takes the outputs of the one before it."""

    META_TAKE_LABELS, META_AUTO_WIRING = "take_labels", "auto_wiring"

    def __init__(self, logger=logging):
        super().__init__(logger)
        self._modules, self._metas = [], []
        self._label_shapes = None

    def add(self, module, **kwargs):
        """Adds a module: take_labels=True gives it the labels, auto_wiring=True its data by order."""
        for key in kwargs:
            if key not in (self.META_TAKE_LABELS, self.META_AUTO_WIRING):
                raise AssertionError(f'Unknown meta "{key}", a typo?')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self):
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self):
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self):
        return self._modules[0].data_shapes

    @property
    def label_shapes(self):
        return self._label_shapes

    @property
    def output_shapes(self):
        return self._modules[-1].output_shapes

    def get_params(self):
        """The parameters of all modules."""
        args, states = {}, {}
        for module in self._modules:
            own_args, own_states = module.get_params()
            args.update(own_args)
            states.update(own_states)
        return args, states

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None,
                    allow_missing=False, force_init=False, allow_extra=False):
        """First contents of all modules' parameters."""
        if self.params_initialized and not force_init:
            return
        self._need("init_params", "binded")
        for module in self._modules:
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                               allow_extra=True)
        self._check_names()
        self.params_initialized = True

    def _check_names(self):
        owners = {}
        for number, module in enumerate(self._modules):
            for part in module.get_params():
                for name in part:
                    if name in owners:
                        raise AssertionError(f"Duplicated parameter names: '{name}' in layer "
                                             f"{number} is already used in layer {owners[name]}")
                    owners[name] = number

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True,
                   allow_extra=False):
        """Gives each module what is its own."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init)

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        """Binds one module after the other, with the shapes that the one before it gives."""
        if self.binded and not force_rebind:
            return
        if not self._modules:
            raise AssertionError("Attempting to bind an empty SequentialModule")
        self.binded, self.for_training, self._label_shapes = True, for_training, label_shapes
        self.inputs_need_grad = inputs_need_grad
        shapes = data_shapes
        for number, (module, meta) in enumerate(zip(self._modules, self._metas)):
            if meta.get(self.META_AUTO_WIRING):
                shapes = [(name, shape[1]) for name, shape in zip(module.data_names, shapes)]
            module.bind(shapes, label_shapes if meta.get(self.META_TAKE_LABELS) else None,
                        for_training, inputs_need_grad if number == 0 else for_training,
                        force_rebind, None, grad_req)
            shapes = module.output_shapes

    def init_optimizer(self, kvstore="local", optimizer="sgd",
                       optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """A rule for every module."""
        self._need("init_optimizer", "binded", "params_initialized")
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch, is_train=None):
        """The batch through all modules."""
        self._need("forward", "binded", "params_initialized")
        batch = io.DataBatch(data_batch.data, data_batch.label, data_batch.pad, data_batch.index,
                             provide_data=data_batch.provide_data,
                             provide_label=data_batch.provide_label)
        for number, module in enumerate(self._modules):
            module.forward(batch, is_train)
            if number + 1 < len(self._modules):
                batch.data = module.get_outputs()
                batch.provide_data = [DataDesc(name, array.shape) for name, array in zip(
                    self._modules[number + 1].data_names, batch.data)]

    def backward(self, out_grads=None):
        """Gradients from the last module to the first."""
        self._need("backward", "binded", "params_initialized")
        for number, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads)
            if number:
                out_grads = module.get_input_grads()

    def update(self):
        """Every module's update."""
        self._need("update", "binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context=True):
        """The last module's outputs."""
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        """The gradients of the first module's inputs."""
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """By the modules that take labels."""
        for module, meta in zip(self._modules, self._metas):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        """Watches all modules."""
        for module in self._modules:
            module.install_monitor(mon)


class PythonModule(BaseModule):
    """A module without parameters whose forward and backward a subclass writes."""

    def __init__(self, data_names, label_names, output_names, logger=logging):
        super().__init__(logger)
        self._data_names, self._label_names = list(data_names), list(label_names or [])
        self._output_names = list(output_names)
        self._data_shapes = self._label_shapes = self._output_shapes = None

    data_names = property(lambda self: self._data_names)
    output_names = property(lambda self: self._output_names)
    data_shapes = property(lambda self: self._data_shapes)
    label_shapes = property(lambda self: self._label_shapes)
    output_shapes = property(lambda self: self._output_shapes)

    def get_params(self):
        return {}, {}

    def init_params(self, *args, **kwargs):
        """It has no parameters."""
        self.params_initialized = True

    def update(self):
        """It has no parameters."""

    def init_optimizer(self, *args, **kwargs):
        """It has no parameters."""
        self.optimizer_initialized = True

    def install_monitor(self, mon):
        """There is no graph to watch."""

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Where it takes labels its outputs are predictions."""
        if self._label_shapes is not None:
            eval_metric.update_dict(dict(zip(self._label_names, labels)),
                                    dict(zip(self._output_names, self.get_outputs())))

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        """Takes the shapes."""
        if self.binded and not force_rebind:
            return
        if grad_req != "write":
            raise AssertionError("Python module only support write gradient")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes or None
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self):
        raise NotImplementedError(f"{type(self).__name__} has no _compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss: its outputs are its data, and grad_func(scores, labels) their gradient."""

    def __init__(self, name="pyloss", data_names=("data",), label_names=("softmax_label",),
                 logger=logging, grad_func=None):
        super().__init__(data_names, label_names, [name + "_output"], logger)
        self._name, self._grad_func = name, grad_func
        self._scores = self._labels = self._scores_grad = None

    def _compute_output_shapes(self):
        return [(self._name + "_output", self._data_shapes[0][1])]

    def forward(self, data_batch, is_train=None):
        """Keeps scores and labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context=True):
        return [self._scores]

    def backward(self, out_grads=None):
        """The gradient of the scores."""
        if out_grads is not None:
            raise AssertionError("For a loss module, out_grads should be None")
        self._backward_impl()

    def _backward_impl(self):
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} has no grad_func")
        made = self._grad_func(self._scores, self._labels)
        self._scores_grad = made if isinstance(made, nd.NDArray) else nd.array(made)

    def get_input_grads(self, merge_multi_context=True):
        return [self._scores_grad]
