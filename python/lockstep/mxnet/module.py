# SPDX-License-Identifier: Apache-2.0
"""Modules: a symbol, its parameters, and the loop that trains them."""

import logging
import warnings
from types import SimpleNamespace

from lockstep.errors import InvalidArgument
from lockstep.mxnet import io, model
from lockstep.mxnet import optimizer as opt
from lockstep.mxnet._base_module import BaseModule
from lockstep.mxnet._executor_group import ExecutorGroup, part_shape, parts_of
from lockstep.mxnet._module_chain import PythonLossModule, PythonModule, SequentialModule
from lockstep.mxnet.context import cpu
from lockstep.mxnet.executor import simple_bind
from lockstep.mxnet.initializer import InitDesc, Uniform

__all__ = ["BaseModule", "BucketingModule", "Module", "PythonLossModule", "PythonModule",
           "SequentialModule"]


def _descriptions(shapes):
    made = []
    for item in shapes or ():
        made.append(item if isinstance(item, io.DataDesc) else io.DataDesc(*item))
    return made


def _check_names(symbol, names, what, throw):
    known = symbol.list_arguments()
    for name in names:
        if name in known:
            continue
        candidates = [arg for arg in known if not arg.endswith(("_weight", "_bias", "_gamma",
                                                                "_beta"))]
        message = (f"You created Module with Module(..., {what}_names={names}) but input with name "
                   f"'{name}' is not found in symbol.list_arguments(). Did you mean one of:\n\t"
                   + "\n\t".join(candidates))
        if throw:
            raise ValueError(message)
        warnings.warn(message)


class Module(BaseModule):
    """A symbol with data, labels and parameters. Of several contexts each computes its part of a
    batch."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging,
                 context=None, work_load_list=None, fixed_param_names=None, state_names=None,
                 group2ctxs=None, compression_params=None):
        super().__init__(logger)
        self._contexts = context if isinstance(context, (list, tuple)) else [context or cpu()]
        self._symbol = symbol
        self._data_names = list(data_names or ())
        self._label_names = list(label_names or ())
        self._state_names = list(state_names or ())
        self._fixed = list(fixed_param_names or ())
        _check_names(symbol, self._data_names, "data", True)
        _check_names(symbol, self._label_names, "label", False)
        _check_names(symbol, self._state_names, "state", True)
        _check_names(symbol, self._fixed, "fixed_param", True)
        inputs = self._data_names + self._label_names + self._state_names
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._data_shapes = self._label_shapes = None
        self._compression = compression_params
        self._exec, self._monitors = None, []
        self._optimizer = self._kvstore = self._updater = None
        self._update_on_kvstore, self._loaded_states = False, None
        self._loaded_params = None

    # Checkpoints.

    @staticmethod
    def load(prefix, epoch, load_optimizer_states=False, **kwargs):
        """A module of a checkpoint; bind() comes next."""
        symbol, args, states = model.load_checkpoint(prefix, epoch)
        made = Module(symbol, **kwargs)
        made._loaded_params = args, states
        made.params_initialized = True
        if load_optimizer_states:
            made._loaded_states = f"{prefix}-{epoch:04d}.states"
        return made

    def save_checkpoint(self, prefix, epoch, save_optimizer_states=False, remove_amp_cast=True):
        """Writes the symbol, the parameters, and the optimiser's states where told."""
        args, states = self.get_params()
        model.save_checkpoint(prefix, epoch, self._symbol, args, states)
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    def save_optimizer_states(self, fname):
        """Writes the optimiser's states."""
        from lockstep.mxnet import _files

        self._need("save_optimizer_states", "optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            _files.write_atomically(fname, self._updater.get_states())

    def load_optimizer_states(self, fname):
        """Takes the optimiser's states of a file."""
        self._need("load_optimizer_states", "optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            return
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    # What it is.

    @property
    def _exec_group(self):
        """What scripts that look inside find: the executors, one for each context, and lists of the
        arrays that update() reads, of each parameter one, whatever the contexts."""
        def listed(arrays, names):
            return [[arrays[name]] for name in names]

        gradients, inputs = self._exec.grad_dict, self._data_names
        return SimpleNamespace(
            execs=getattr(self._exec, "executors", [self._exec]), param_names=self._param_names,
            data_names=inputs, batch_size=self._data_shapes[0].shape[0],
            param_arrays=listed(self._exec.arg_dict, self._param_names),
            aux_arrays=listed(self._exec.aux_dict, self._aux_names),
            grad_arrays=listed(gradients, self._param_names) if self.for_training else None,
            input_grad_arrays=listed(gradients, inputs) if self.inputs_need_grad else None)

    @property
    def _arg_params(self):
        return self.get_params()[0]

    @property
    def _aux_params(self):
        return self.get_params()[1]

    @property
    def data_names(self):
        return self._data_names

    @property
    def label_names(self):
        return self._label_names

    @property
    def output_names(self):
        return self._symbol.list_outputs()

    @property
    def data_shapes(self):
        self._need("data_shapes", "binded")
        return self._data_shapes

    @property
    def label_shapes(self):
        self._need("label_shapes", "binded")
        return self._label_shapes

    @property
    def output_shapes(self):
        """(name, shape) of the outputs."""
        self._need("output_shapes", "binded")
        given = {desc.name: desc.shape for desc in self._data_shapes + (self._label_shapes or [])}
        _, shapes, _ = self._symbol.infer_shape(**given)
        return list(zip(self.output_names, shapes))

    # Binding.

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req="write"):
        """Makes arrays for these shapes."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self._exec and self.get_params() if self.params_initialized else None
        self.for_training, self.inputs_need_grad, self._grad_req = (for_training, inputs_need_grad,
                                                                    grad_req)
        self._take_shapes(data_shapes, label_shapes)
        shared = shared_module._exec if shared_module is not None else None
        self._replace_executor(self._make_executor(shared))
        self.binded = True
        if shared_module is not None:
            self.params_initialized = shared_module.params_initialized
        elif self._loaded_params is not None:
            self._exec.copy_params_from(*self._loaded_params, allow_extra_params=True)
        elif kept:
            self._exec.copy_params_from(*kept, allow_extra_params=True)

    def _take_shapes(self, data_shapes, label_shapes):
        self._data_shapes, labels = _descriptions(data_shapes), _descriptions(label_shapes)
        if sorted(desc.name for desc in self._data_shapes) != sorted(self._data_names):
            raise ValueError(f"Data provided by data_shapes don't match names specified by "
                             f"data_names ({self._data_shapes} vs. {self._data_names})")
        self._label_shapes = labels or None

    def _requests(self):
        requests = {}
        for name in self._symbol.list_arguments():
            wanted = self.for_training and name in self._param_names and name not in self._fixed
            if name in self._data_names:
                wanted = self.for_training and self.inputs_need_grad
            kind = self._grad_req
            kind = kind.get(name, "write") if isinstance(kind, dict) else kind
            requests[name] = kind if wanted else "null"
        return requests

    def _make_executor(self, shared):
        known = set(self._symbol.list_arguments())
        given = [desc for desc in self._data_shapes + (self._label_shapes or [])
                 if desc.name in known]
        shapes = {desc.name: desc.shape for desc in given}
        types = {desc.name: desc.dtype for desc in given}
        if len(self._contexts) > 1:
            axes = {desc.name: io.DataDesc.get_batch_axis(desc.layout) for desc in given}
            return self._make_group(shapes, types, axes, shared)
        made = simple_bind(self._symbol, self._contexts[0], self._requests(), types, shapes)
        return made if shared is None else _share(made, shared)

    def _make_group(self, shapes, types, axes, shared):
        requests = self._requests()
        each = {name: "write" if kind == "add" else kind for name, kind in requests.items()}
        axes = {name: max(axis, 0) for name, axis in axes.items()}
        name, axis = next(iter(axes.items()))
        executors = []
        for context, part in zip(self._contexts,
                                 parts_of(shapes[name][axis], len(self._contexts))):
            own = {key: part_shape(shape, axes[key], part) for key, shape in shapes.items()}
            executors.append(simple_bind(self._symbol, context, each, types, own))
        if shared is not None:
            for one, other in zip(executors, shared.executors):
                _share(one, other)
        return ExecutorGroup(executors, shapes, axes, requests)

    def reshape(self, data_shapes, label_shapes=None):
        """Other shapes of data, the same parameters."""
        self._need("reshape", "binded")
        self._take_shapes(data_shapes, label_shapes)
        known = set(self._symbol.list_arguments())
        shapes = {desc.name: desc.shape for desc in self._data_shapes + (self._label_shapes or [])
                  if desc.name in known}
        self._replace_executor(self._exec.reshape(**shapes))

    def _replace_executor(self, new):
        """Monitors see the new one, and no more the one before it."""
        for monitor in self._monitors:
            if self._exec in getattr(monitor, "exes", ()):
                monitor.exes.remove(self._exec)
            monitor.install(new)
        self._exec = new

    def install_monitor(self, mon):
        """Has a monitor see what the nodes compute."""
        self._need("install_monitor", "binded")
        self._monitors.append(mon)
        mon.install(self._exec)

    # Parameters.

    def get_params(self):
        """(arguments, states) by name; copies."""
        if not self.binded and self._loaded_params is not None:
            return self._loaded_params
        self._need("get_params", "binded", "params_initialized")
        args, states = self._exec.arg_dict, self._exec.aux_dict
        return ({name: args[name].copy() for name in self._param_names},
                {name: states[name].copy() for name in self._aux_names})

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None,
                    allow_missing=False, force_init=False, allow_extra=False):
        """Gives the parameters contents: those given, else the initializer's."""
        if self.params_initialized and not force_init:
            return
        self._need("init_params", "binded")
        attrs = self._symbol.attr_dict()
        for names, own, given in ((self._param_names, self._exec.arg_dict, arg_params),
                                  (self._aux_names, self._exec.aux_dict, aux_params)):
            for name in sorted(names):
                self._init_one(name, own[name], given, initializer, allow_missing,
                               InitDesc(name, attrs.get(name)))
        self.params_initialized = True

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True,
                   allow_extra=False):
        """Takes parameters by name. What the symbol has not is an error where some may be missing:
        then the names are all there is to go by."""
        if allow_missing and not allow_extra:
            extra = sorted(set(arg_params or ()) - set(self._param_names)) + sorted(
                set(aux_params or ()) - set(self._aux_names))
            if extra:
                raise ValueError(f"set_params: the symbol has no parameters {extra}; "
                                 "allow_extra=True ignores them")
        super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)

    def _init_one(self, name, array, given, initializer, allow_missing, desc):
        if given is not None and name in given:
            value = given[name]
            if value.shape != array.shape:
                raise InvalidArgument(f"init_params: '{name}' has shape {value.shape}, expected "
                                      f"{array.shape}")
            value.astype(array.dtype).copyto(array)
        elif given is not None and not allow_missing:
            raise RuntimeError(f"{name} is not presented")
        elif initializer is not None:
            initializer(desc, array)
        elif given is None and not allow_missing and not self.params_initialized:
            raise RuntimeError(f"{name} is not presented")

    # The optimiser.

    def init_optimizer(self, kvstore="local", optimizer="sgd",
                       optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Makes the optimiser, which divides gradients by the batch's size unless told."""
        self._need("init_optimizer", "binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        store, on_store = model._create_kvstore(kvstore, 1, None)
        batch = self._data_shapes[0].shape[io.DataDesc.get_batch_axis(self._data_shapes[0].layout)]
        if store is not None and "dist" in store.type and "_async" not in store.type:
            batch *= store.num_workers
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params), 1.0 / batch)
        self._kvstore, self._update_on_kvstore = store, on_store
        if store is not None:
            self._connect(store)
        self._updater = None if on_store else opt.get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._loaded_states:
            self.load_optimizer_states(self._loaded_states)
            self._loaded_states = None

    def _make_optimizer(self, optimizer, params, rescale):
        if not isinstance(optimizer, str):
            if abs(optimizer.rescale_grad - rescale) > 1e-12:
                warnings.warn(f"rescale_grad is {optimizer.rescale_grad}, and 1/batch_size is "
                              f"{rescale}: is this what is wanted?")
            return optimizer
        params.setdefault("rescale_grad", rescale)
        return opt.create(optimizer, sym=self._symbol,
                          param_idx2name=dict(enumerate(self._param_names)), **params)

    def _connect(self, store):
        if self._compression:
            store.set_gradient_compression(self._compression)
        args = self._exec.arg_dict
        if self._update_on_kvstore:
            store.set_optimizer(self._optimizer)
        for number, name in enumerate(self._param_names):
            store.init(number, args[name])
            store.pull(number, args[name])

    def borrow_optimizer(self, shared_module):
        """Uses another module's optimiser and its states."""
        for name in ("_optimizer", "_kvstore", "_update_on_kvstore", "_updater"):
            setattr(self, name, getattr(shared_module, name))
        self.optimizer_initialized = True

    def update(self):
        """One step of the optimiser, on the gradients that backward has left."""
        self._need("update", "binded", "params_initialized", "optimizer_initialized")
        args, gradients = self._exec.arg_dict, self._exec.grad_dict
        for number, name in enumerate(self._param_names):
            gradient = gradients[name]
            if gradient is None:
                continue
            if self._kvstore is not None:
                self._kvstore.push(number, gradient, priority=-number)
                self._kvstore.pull(number, args[name] if self._update_on_kvstore else gradient,
                                   priority=-number)
            if not self._update_on_kvstore:
                self._updater(number, gradient, args[name])

    # Running.

    def forward(self, data_batch, is_train=None):
        """Runs the symbol on a batch; other shapes than before are taken as they come."""
        self._need("forward", "binded", "params_initialized")
        is_train = self.for_training if is_train is None else is_train
        batch = data_batch[0] if isinstance(data_batch, list) else data_batch
        given = dict(zip([desc.name for desc in self._data_shapes], batch.data))
        given.update(self._labels(batch))
        own = self._exec.arg_dict
        given = {name: array for name, array in given.items() if name in own}
        if any(own[name].shape != array.shape for name, array in given.items()):
            self._follow(batch)
            own = self._exec.arg_dict
        for name, array in given.items():
            (array if array.dtype == own[name].dtype else array.astype(own[name].dtype)).copyto(
                own[name])
        self._exec.forward(is_train)

    def _labels(self, batch):
        if not getattr(batch, "label", None):
            return {}
        names = ([desc.name for desc in self._label_shapes] if self._label_shapes
                 else self._label_names)
        return dict(zip(names, batch.label))

    def _follow(self, batch):
        data = [io.DataDesc(desc.name, array.shape, desc.dtype, desc.layout)
                for desc, array in zip(self._data_shapes, batch.data)]
        labels = None
        if getattr(batch, "label", None) and self._label_shapes:
            labels = [io.DataDesc(desc.name, array.shape, desc.dtype, desc.layout)
                      for desc, array in zip(self._label_shapes, batch.label)]
        elif self._label_shapes:
            # No labels are given to predict: those of the symbol follow the batch's size.
            count = batch.data[0].shape[0]
            labels = [io.DataDesc(desc.name, (count,) + tuple(desc.shape[1:]), desc.dtype)
                      for desc in self._label_shapes]
        self.reshape(data, labels)

    def backward(self, out_grads=None):
        """Gradients of the last forward in train mode."""
        self._need("backward", "binded", "params_initialized")
        self._exec.backward(out_grads)

    def get_outputs(self, merge_multi_context=True):
        """The outputs of the last forward."""
        self._need("get_outputs", "binded", "params_initialized")
        if not merge_multi_context and isinstance(self._exec, ExecutorGroup):
            return self._exec.parts_of_outputs()
        return list(self._exec.outputs) if merge_multi_context else [[o] for o in
                                                                     self._exec.outputs]

    def get_input_grads(self, merge_multi_context=True):
        """The gradients of the data."""
        if not self.inputs_need_grad:
            raise AssertionError("get_input_grads: bind(inputs_need_grad=True) comes first")
        made = [self._exec.grad_dict[name] for name in self._data_names]
        return made if merge_multi_context else [[array] for array in made]

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Counts the last outputs against the labels."""
        named = dict(zip([desc.name for desc in self._label_shapes or ()], labels or ()))
        eval_metric.update_dict(named, dict(zip(self.output_names, self._exec.outputs)))


def _share(executor, shared):
    """Has an executor use another one's parameters and gradients where names and shapes agree."""
    for arrays, others, names, own in (
            (executor.arg_arrays, shared.arg_dict, executor._names, shared._names),
            (executor.grad_arrays, shared.grad_dict, executor._names, shared._names),
            (executor.aux_arrays, shared.aux_dict, executor._states, shared._states)):
        for place, name in enumerate(names):
            other = others.get(name)
            if other is not None and arrays[place] is not None and (
                    other.shape == arrays[place].shape):
                arrays[place] = other
    return executor


from lockstep.mxnet._bucketing_module import BucketingModule  # noqa: E402 - it is made of Modules

