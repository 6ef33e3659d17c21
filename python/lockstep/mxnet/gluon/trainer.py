# SPDX-License-Identifier: Apache-2.0
"""gluon.Trainer: applies a rule to parameters, with the gradients of all contexts and workers."""

import copy

from lockstep import _core
from lockstep.mxnet import _hints
from lockstep.mxnet import kvstore as _kvstore
from lockstep.mxnet import optimizer as _optimizer
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.gluon._update import made_for, sum_between
from lockstep.mxnet.gluon.parameter import Parameter
from lockstep.mxnet.gluon.parameter_dict import ParameterDict
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["Trainer"]


def _parameter_list(params):
    if isinstance(params, (dict, ParameterDict)):
        params = [params[key] for key in sorted(list(params.keys()))]
    if not isinstance(params, (list, tuple)):
        raise ValueError("First argument must be a list or dict of Parameters, got "
                         f"{type(params)}.")
    for parameter in params:
        if not isinstance(parameter, Parameter):
            raise ValueError("First argument must be a list or dict of Parameters, got list of "
                             f"{type(parameter)}.")
    return list(params)


class Trainer:
    """trainer.step(batch_size) after backward."""

    __getattr__ = _hints.lookup(_hints.TRAINER)

    def __init__(self, params, optimizer, optimizer_params=None, kvstore="device",
                 compression_params=None, update_on_kvstore=None):
        self._params = _parameter_list(params)
        if optimizer_params is not None and not isinstance(optimizer_params, dict):
            raise TypeError(f"Trainer: optimizer_params is {optimizer_params!r}, expected a dict "
                            "such as {'learning_rate': 0.1}")
        self._compression_params = compression_params
        self._contexts = None
        self._param2idx = {p.name: i for i, p in enumerate(self._params)}
        for parameter in self._params:
            parameter._set_trainer(self)
        self._init_optimizer(optimizer, dict(optimizer_params or {}))
        self._scale = self._optimizer.rescale_grad
        self._kvstore_name, self._wants_update_on_kvstore = kvstore, update_on_kvstore
        self._kvstore, self._update_on_kvstore, self._kv_initialized = None, None, False
        self._update = None
        self._broadcast = set()
        self._seen = {}

    def _init_optimizer(self, optimizer, options):
        by_number = dict(enumerate(self._params))
        if isinstance(optimizer, _optimizer.Optimizer):
            if options:
                raise AssertionError("optimizer_params must be None if optimizer is an instance of "
                                     "Optimizer instead of str")
            self._optimizer = optimizer
            self._optimizer.param_dict = by_number
        else:
            self._optimizer = _optimizer.create(optimizer, param_dict=by_number, **options)

    # The store.
    def _init_kvstore(self):
        if self._kv_initialized:
            return
        self._kv_initialized = True
        name = self._kvstore_name
        store = _kvstore.create(name) if isinstance(name, str) else name
        kind = "" if store is None else store.type
        on_store = self._updates_on_store(store, kind)
        if on_store is None:
            return
        if on_store and not store.is_capable(_kvstore.KVStoreBase.OPTIMIZER):
            raise ValueError("Please set update_on_kvstore=False when training with "
                             f"{type(store)}")
        self._kvstore, self._update_on_kvstore = store, on_store
        if self._compression_params:
            store.set_gradient_compression(self._compression_params)
        if on_store and not self._is_async():
            store._updater = StoreUpdater(self)

    def _updates_on_store(self, store, kind):
        """Whether MXNet would update in the store; None where it would have none."""
        is_dist, wanted = "dist" in kind, self._wants_update_on_kvstore
        if any(p.stype != "default" for p in self._params):
            if wanted is False:
                raise ValueError("Cannot set update_on_kvstore=False when sparse weights are "
                                 "present.")
            return True
        contexts = max((len(p.list_ctx()) for p in self._params
                        if p._data is not None or p._deferred is not None), default=1)
        by_name = isinstance(self._kvstore_name, str)
        if store is None or (by_name and contexts == 1 and kind in _kvstore.LOCAL):
            return None
        if any(p.grad_stype != "default" for p in self._params):
            if wanted is False and is_dist:
                raise ValueError("Cannot set update_on_kvstore=False on dist kvstore when sparse "
                                 "gradients are present.")
            return is_dist if wanted is None else wanted
        if "async" in kind and wanted is False:
            raise ValueError("Please set update_on_kvstore=True when training in async mode.")
        if wanted is not None or "async" in kind:
            return wanted is not False
        return kind not in ("horovod", "byteps") and store.is_capable(
            _kvstore.KVStoreBase.OPTIMIZER)

    def _forget_store(self):
        """New contents of a parameter: what a local store keeps of the old ones goes."""
        if self._update_on_kvstore and self._job() is None and not self._is_async():
            self._kvstore, self._update_on_kvstore, self._kv_initialized = None, None, False
            self._update = None

    @property
    def _updaters(self):
        """The updaters of all contexts."""
        return getattr(self._updates(), "updaters", [])

    @property
    def _params_to_init(self):
        return [p for p in self._params if p._data is None]

    def _job(self):
        return getattr(self._kvstore, "_job", None)

    def _is_async(self):
        return isinstance(self._kvstore, _kvstore.AsyncKVStore)

    def _init_params(self):
        """Every worker starts from the contents of worker 0."""
        store = self._kvstore
        is_own = isinstance(store, _kvstore.KVStore)
        if store is None or (is_own and store.num_workers == 1 and not self._is_async()):
            return
        for i, parameter in enumerate(self._params):
            if parameter.name in self._broadcast or parameter._data is None:
                continue
            self._broadcast.add(parameter.name)
            if not is_own:
                store.broadcast(i, parameter._arrays()[0], parameter._arrays())
                continue
            first = parameter._arrays()[0]
            if self._is_async():
                store.init(i, first)
                store.pull(i, parameter._arrays())
            else:
                tensor = first._tensor.detach()
                host = tensor if tensor.device.index == 0 else tensor.to(_core.cpu(0))
                shared = NDArray(store._job.broadcast(host))
                for array in parameter._arrays():
                    shared.copyto(array)

    # Rates.
    @property
    def optimizer(self):
        """The rule."""
        return self._optimizer

    @property
    def learning_rate(self):
        """The rate of the next step."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr):
        """Another rate."""
        self._optimizer.set_learning_rate(lr)

    # Steps.
    def _trained(self):
        return [p for p in self._params if p.grad_req != "null"]

    def step(self, batch_size, ignore_stale_grad=False):
        """Adds gradients of all contexts and workers, and updates, with gradients divided by
        batch_size."""
        self._begin()
        if self._is_async():
            self._step_async(batch_size)
            return
        self._check_fresh(ignore_stale_grad)
        self._allreduce_grads()
        self._do_update(batch_size, ignore_stale_grad)

    def _begin(self):
        self._init_kvstore()
        self._init_params()

    def allreduce_grads(self):
        """Adds gradients of all contexts and workers; update() comes next."""
        self._begin()
        if self._update_on_kvstore:
            raise AssertionError(
                "allreduce_grads() when parameters are updated on kvstore is not supported. Try "
                "setting `update_on_kvstore` to False when creating trainer.")
        self._allreduce_grads()

    def _allreduce_grads(self):
        trained = [p for p in self._trained() if p._data is not None]
        if not trained or self._kvstore is None:
            return
        job = self._job()
        if not isinstance(self._kvstore, _kvstore.KVStore):
            for i, parameter in enumerate(trained):
                self._kvstore.pushpull(i, parameter.list_grad(), priority=-i)
        elif self._kvstore._compress is not None and job is not None and job.workers > 1:
            for i, parameter in enumerate(trained):
                self._kvstore.reduce(i, parameter.list_grad())
        elif (job is not None and job.workers > 1) or any(len(p._data) > 1 for p in trained):
            with _core._pause(_core.is_training()):
                sum_between(trained, job)

    def update(self, batch_size, ignore_stale_grad=False):
        """Updates with the gradients as they are."""
        self._begin()
        if self._update_on_kvstore:
            raise AssertionError(
                "update() when parameters are updated on kvstore is not supported. Try setting "
                "`update_on_kvstore` to False when creating trainer.")
        self._check_fresh(ignore_stale_grad)
        self._do_update(batch_size, ignore_stale_grad)

    def _check_fresh(self, ignore):
        """Which parameters backward has not reached since the last step."""
        self._stale = []
        for parameter in self._params:
            if parameter._grad_req != "write":
                continue
            if parameter._data is None:
                parameter._check_ready()
            for array in parameter._data.values():
                gradient = array._tensor.grad
                last = self._seen.get(id(array))
                if gradient is not None and (last is None or not gradient.same_as(last)):
                    continue
                if not ignore:
                    raise UserWarning(
                        f"Gradient of Parameter `{parameter.name}` on context {array.context} has "
                        "not been updated by backward since last `step`. This could mean a bug in "
                        "your model that made it only use a subset of the Parameters (Blocks) for "
                        "this iteration. If you are intentionally only using a subset, call step "
                        "with ignore_stale_grad=True to suppress this warning and skip updating of "
                        "Parameters with stale gradient")
                self._stale.append(parameter)
                break

    def _updates(self):
        """What changes parameters."""
        if self._update is None:
            self._update = made_for(self._optimizer, self._params)
        return self._update

    def _do_update(self, batch_size, ignore):
        if batch_size <= 0:
            raise MXNetError(f"step: batch_size is {batch_size}, expected more than 0")
        update, skipped = self._updates(), self._stale if ignore else []
        if not update.follows(skipped):
            self._update = update = update.on_arrays()
        update.step(batch_size, self._scale, skipped)
        for parameter in self._params:
            if parameter._grad_req == "write":
                for array in parameter._data.values():
                    self._seen[id(array)] = array._tensor.grad

    def _step_async(self, batch_size):
        store = self._kvstore
        if self._update is None:
            self._optimizer.rescale_grad = self._scale / batch_size
            store.set_optimizer(self._optimizer)
            self._update = self
        for i, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                store.push(i, parameter.list_grad())
        for i, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                store.pull(i, parameter._arrays())

    # Files.
    def save_states(self, fname):
        """Writes what the rule keeps."""
        self._begin()
        self._updates().save(fname)

    def load_states(self, fname):
        """Reads what save_states() wrote."""
        self._begin()
        update = made_for(self._optimizer, self._params, fname)
        update.load(fname)
        self._update = update

    def _row_sparse_pull(self, parameter, out, row_id, full_idx=False):
        parameter._arrays()[0].copyto(out)


class StoreUpdater:
    """What MXNet's store has as its updater: the trainer's own, on the first context.

    What a script pushes to keys of its own is updated by the same rule, counted by itself.
    """

    def __init__(self, trainer):
        self._trainer = trainer
        self._others = None

    def __call__(self, index, grad, weight):
        if self._others is None:
            rule = copy.copy(self.optimizer)
            rule.param_dict, rule.num_update = {}, rule.begin_num_update
            rule._index_update_count = {}
            self._others = _optimizer.get_updater(rule)
        self._others(index, grad, weight)

    @property
    def optimizer(self):
        """The rule."""
        return self._trainer._optimizer

    @property
    def states(self):
        """What the rule keeps, by parameter."""
        updaters = self._trainer._updaters
        return updaters[0].states if updaters else {}
