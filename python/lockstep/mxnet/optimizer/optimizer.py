# SPDX-License-Identifier: Apache-2.0
"""What update rules have in common, and the Updater that a kvstore runs."""

import pickle
import warnings

from lockstep import _core, ops
from lockstep.mxnet import _hints
from lockstep.mxnet.base import nearest
from lockstep.mxnet.ndarray.ndarray import NDArray

_REGISTRY = {}


def register(klass):
    """Makes a rule known by its class's name."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def create(name, **kwargs):
    """A rule by name, whatever the case."""
    if isinstance(name, Optimizer):
        return name
    if not isinstance(name, str):
        raise TypeError(f"optimizer: expected a name such as 'sgd', got {name!r}")
    found = _REGISTRY.get(name.lower())
    if found is None:
        raise ValueError(f"Cannot find optimizer {name}{nearest(name, _REGISTRY)} (there are: "
                         f"{', '.join(sorted(_REGISTRY))})")
    return found(**kwargs)


class Optimizer:
    """A rule: `update` changes a weight in place, by its gradient and what `create_state` made."""

    __getattr__ = _hints.lookup(_hints.OPTIMIZER)

    opt_registry = _REGISTRY
    register = staticmethod(register)
    lazy_update = False  # whether rows that a row_sparse gradient does not name are left alone
    _copy_is_last = False  # where the float32 copy of a weight of 16 bits is in the state
    create_optimizer = staticmethod(create)

    def __init__(self, rescale_grad=1.0, param_idx2name=None, wd=0.0, clip_gradient=None,
                 learning_rate=None, lr_scheduler=None, sym=None, begin_num_update=0,
                 multi_precision=False, param_dict=None, aggregate_num=0, use_fused_step=None):
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if learning_rate is None and lr_scheduler is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            self._overwrite_rate(lr_scheduler, learning_rate)
        self.wd = wd
        self.lr_mult, self.wd_mult = {}, {}
        self.begin_num_update = self.num_update = begin_num_update
        self._index_update_count = {}
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = aggregate_num
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.allow_np_array = True
        self.set_lr_mult({})
        self.set_wd_mult({})

    @staticmethod
    def _overwrite_rate(schedule, rate):
        """base_lr alone, as in MXNet: a cosine or a polynomial goes on from its own first rate."""
        if schedule.base_lr != rate:
            warnings.warn("learning rate from ``lr_scheduler`` has been overwritten by "
                          "``learning_rate`` in optimizer.", UserWarning, stacklevel=4)
            schedule.base_lr = rate

    # What a rule has of its own.
    def create_state(self, index, weight):
        """What is kept for a weight: None, an array, or a tuple of them."""
        return None

    def _keeps_copy(self, weight):
        return self.multi_precision and weight._tensor.dtype.name in ("float16", "bfloat16")

    def create_state_multi_precision(self, index, weight):
        """With a float32 copy of a weight of 16 bits."""
        if self._keeps_copy(weight):
            copy = weight.astype("float32")
            own = self.create_state(index, copy)
            return (own, copy) if self._copy_is_last else (copy, own)
        return self.create_state(index, weight)

    def _step(self, w, g, state, lr, wd, t):
        """The weight's new value; writes to the state. `g` is rescaled, not clipped."""
        raise NotImplementedError(f"{type(self).__name__} has neither update nor _step")

    def _layer_rate(self, index, w, g, lr, wd):
        """The rate of one weight, of a rule that looks at weights and gradients for it."""
        return lr

    def _rule(self):
        """(name, parameters) of the engine's rule that computes the same, or None."""
        return None

    # Updates.
    def update(self, index, weight, grad, state):
        """Changes the weight in place."""
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update(*one)
            return
        self._update_count(index)
        lr, wd = self._get_lr(index), self._get_wd(index)
        with _core._pause(_core.is_training()):
            g = grad._tensor.detach()
            if self.rescale_grad != 1.0:
                g = g * float(self.rescale_grad)
            w, t = weight._tensor, self._index_update_count[index]
            lr = self._layer_rate(index, w.detach(), g, lr, wd)
            if self.lazy_update and grad.stype == "row_sparse":
                self._step_rows(w, g, grad.indices._tensor, state, lr, wd, t)
            else:
                w.assign(self._step(w.detach(), g, state, lr, wd, t))

    def _step_rows(self, w, g, rows, state, lr, wd, t):
        """A step of these rows alone: the others' weights and states stay."""
        if rows.size == 0:
            return

        def put(target, value):
            places = ops.reshape(rows, (-1,) + (1,) * (target.ndim - 1))
            target.assign(ops.scatter(target, ops.expand(places, value.shape), value, 0))

        whole = () if state is None else state if isinstance(state, tuple) else (state,)
        parts = tuple(NDArray(ops.take(part._tensor, rows, 0)) for part in whole)
        given = None if state is None else parts if isinstance(state, tuple) else parts[0]
        put(w, self._step(ops.take(w.detach(), rows, 0), ops.take(g, rows, 0), given, lr, wd, t))
        for part, value in zip(whole, parts):
            put(part._tensor, value._tensor)

    def update_multi_precision(self, index, weight, grad, state):
        """Through the float32 copy, where there is one."""
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update_multi_precision(*one)
            return
        if self._keeps_copy(weight):
            copy, own = state[::-1] if self._copy_is_last else state
            self.update(index, copy, grad.astype("float32"), own)
            weight._tensor.assign(ops.cast(copy._tensor, weight._tensor.dtype))
        else:
            self.update(index, weight, grad, state)

    def _clips(self):
        return bool(self.clip_gradient) and self.clip_gradient > 0

    def _clipped(self, g):
        if not self._clips():
            return g
        return ops.clip(g, -float(self.clip_gradient), float(self.clip_gradient))

    # Rates.
    @property
    def learning_rate(self):
        """The rate of the next update."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr):
        """Another rate, where there is no schedule."""
        if self.lr_scheduler is not None:
            raise UserWarning("LRScheduler of the optimizer has already been defined. Note that "
                              "set_learning_rate can mutate the value of the learning rate of the "
                              "optimizer only when the LRScheduler of the optimizer is undefined.")
        self.lr = lr

    def set_lr_mult(self, args_lr_mult):
        """Factors of the rate by a parameter's name or number."""
        self.lr_mult = {**self._symbol_factors("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult):
        """Factors of the decay; of what is neither weight nor gamma 0."""
        names = self.idx2name.values()
        self.wd_mult = {name: 0.0 for name in names if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult.update(self._symbol_factors("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    def _symbol_factors(self, key):
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names
                if name in attrs and key in attrs[name]}

    def _set_current_context(self, device_id):
        """Counts updates apart for each device; one count serves here."""

    def _update_count(self, index):
        for one in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(one, self.begin_num_update) + 1
            self._index_update_count[one] = count
            self.num_update = max(count, self.num_update)

    def _factor(self, index, attribute, factors):
        if index in self.param_dict:
            return getattr(self.param_dict[index], attribute)
        if index in factors:
            return factors[index]
        return factors.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index):
        return self.learning_rate * self._factor(index, "lr_mult", self.lr_mult)

    def _get_lrs(self, indices):
        return [self._get_lr(index) for index in indices]

    def _get_wd(self, index):
        return self.wd * self._factor(index, "wd_mult", self.wd_mult)

    def _get_wds(self, indices):
        return [self._get_wd(index) for index in indices]

    def __getstate__(self):
        state = self.__dict__.copy()
        state["param_dict"] = {}
        state["sym_info"] = ()
        return state


def zeros_like(weight, dtype=None):
    """An array of zeros, as large as a weight."""
    tensor = weight._tensor
    return NDArray(ops.full(tensor.shape, 0.0, dtype or tensor.dtype, tensor.device))


class Updater:
    """Applies a rule to weights by number: updater(index, grad, weight)."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.states = {}
        self.states_synced = {}

    def __call__(self, index, grad, weight):
        if isinstance(index, (list, tuple)):
            for one in zip(index, grad, weight):
                self(*one)
            return
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        self.optimizer.update_multi_precision(index, weight, grad, self.states[index])

    def get_states(self, dump_optimizer=False):
        """The states as bytes."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states):
        """Takes what get_states() gave; nothing but data is made of it."""
        loaded = _read_states(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            self.states, optimizer = loaded
            if isinstance(optimizer, Optimizer):
                optimizer.param_dict = self.optimizer.param_dict
                self.optimizer = optimizer
        else:
            self.states = loaded


def _read_states(contents):
    from lockstep.mxnet import _states

    return _states.loads(contents)


def get_updater(optimizer):
    """An Updater."""
    return Updater(optimizer)


def __getattr__(name):
    # MXNet's rules stand in this file of its.
    from lockstep.mxnet.optimizer import rules

    if name in rules.__all__:
        return getattr(rules, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
