# SPDX-License-Identifier: Apache-2.0
"""How a Trainer changes parameters: the engine's fused update, or a rule on arrays."""

import contextlib
import os
import tempfile

import lockstep
from lockstep import _core, ops
from lockstep.mxnet import optimizer as _optimizer
from lockstep.mxnet.ndarray.ndarray import NDArray


def engine_rule(optimizer):
    """The engine's rule that computes what a rule of MXNet does, or None."""
    known = type(optimizer)
    if known.__module__ != _optimizer.rules.__name__:
        return None
    rule = optimizer._rule()
    if rule is None:
        return None
    name, parameters = rule
    clip = {"clip_gradient": optimizer.clip_gradient} if optimizer._clips() else {}
    # The decay is each parameter's own, by its multiplier: so it may change between steps.
    return lockstep.optim.make_optimizer(name, learning_rate=max(optimizer.learning_rate, 0.0),
                                         weight_decay=1.0, **parameters, **clip)


class FusedUpdate:
    """All parameters in one call of the engine; they are on the host, once each.

    It goes on for as long as the engine's rule is MXNet's: where something has changed that the
    engine's does not follow, the rule on arrays takes over, with the states as they are.
    """

    def __init__(self, optimizer, parameters, rule):
        self._optimizer, self._parameters = optimizer, parameters
        # States belong to places, as in MXNet: another net's parameters have other names. Frozen
        # parameters have places too, as they may be trained later.
        able = [i for i, p in enumerate(parameters) if p._differentiable]
        self._names = {i: str(number) for number, i in enumerate(able) if _fits(parameters[i])}
        self._engines = {i: parameters[i]._engine for i in self._names}
        self._updater = lockstep.optim.Updater(
            {name: self._engines[i] for i, name in self._names.items()}, rule,
            ignore_missing_gradients=True)
        self._counts = {}  # updates of each parameter so far
        self._rates = {}  # of the last one
        self._made_of, self._is_adam = self._settings(), rule.name == "adam"

    @staticmethod
    def serves(optimizer, parameters):
        """The update, where the engine has one for this."""
        fit = all(_fits(p) for p in _trained(parameters).values()) and not _goes_by_rows(
            optimizer, parameters)
        rule = engine_rule(optimizer) if fit else None
        return None if rule is None else FusedUpdate(optimizer, parameters, rule)

    def _settings(self):
        o = self._optimizer
        return o.clip_gradient, o._rule(), _goes_by_rows(o, self._parameters)

    def _next_rates(self, trained):
        o = self._optimizer
        rate = o.lr if o.lr_scheduler is None else o.lr_scheduler(o.num_update + 1)
        return {i: rate * p.lr_mult for i, p in trained.items()}

    def follows(self, skipped):
        """Whether the next step is still one that the engine does as MXNet does it."""
        if self._settings() != self._made_of:
            return False
        for i, parameter in _trained(self._parameters).items():
            if i not in self._engines or self._engines[i] is not parameter._engine:
                return False
        trained = _trained(self._parameters, skipped)
        if self._is_adam:  # which corrects by the number of steps: one for all parameters there
            return all(self._counts.get(i, 0) == self._updater.steps for i in trained)
        if not self._optimizer.momentum:
            return True
        # MXNet's momentum is of steps, the engine's of gradients: the same while the rate is.
        rates = self._next_rates(trained)
        return all(self._rates.get(i, rate) == rate for i, rate in rates.items())

    def step(self, batch_size, scale, skipped):
        """One update; the skipped parameters stay as they are."""
        optimizer, trained = self._optimizer, _trained(self._parameters, skipped)
        self._rates.update(self._next_rates(trained))
        optimizer.num_update += 1
        self._updater.learning_rate = optimizer.learning_rate
        for i, parameter in trained.items():
            parameter._engine.set_multipliers(parameter.lr_mult, optimizer.wd * parameter.wd_mult)
            self._counts[i] = self._counts.get(i, 0) + 1
        for parameter in skipped:
            parameter._engine.set_grad_mode("off")
        divisor = max(int(batch_size), 1)
        with _scaled(trained.values(), scale * divisor / batch_size):
            self._updater.step(divisor)
        for parameter in skipped:
            parameter._engine.set_grad_mode(parameter.grad_req)

    def save(self, path):
        """Writes the states."""
        self._updater.save(path)

    def load(self, path):
        """Reads states that save() wrote."""
        self._updater.load(path)
        steps, held = self._updater.steps, lockstep.io.load(path)
        self._optimizer.num_update = steps
        # Adam's parameters without states had no updates; of SGD's numbers none is used.
        self._counts = {i: steps for i, name in self._names.items()
                        if not self._is_adam or f"slot0/{name}" in held}
        self._rates = {}

    def on_arrays(self):
        """The rule on arrays, which goes on from here."""
        optimizer = self._optimizer
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            self._updater.save(path)
            held = lockstep.io.load(path)
        # The engine keeps float32 copies of shorter parameters; so does the rule from now on.
        optimizer.multi_precision |= any(name.startswith("master/") for name in held)
        made = ArrayUpdate(optimizer, self._parameters)
        for i, name in self._names.items():
            if f"slot0/{name}" in held or f"master/{name}" in held:
                slots = [held[f"slot{s}/{name}"] for s in range(2) if f"slot{s}/{name}" in held]
                made.put(i, self._states(i, slots), held.get(f"master/{name}"))
        for i, count in self._counts.items():
            optimizer._index_update_count[i] = optimizer.begin_num_update + count
        return made

    def _states(self, i, slots):
        """MXNet's form of the engine's states."""
        if self._is_adam:
            return tuple(slots)
        rate = self._rates.get(i, self._optimizer.learning_rate * self._parameters[i].lr_mult)
        return slots[0] * -float(rate) if slots else None


def _fits(parameter):
    return parameter._engine is not None and parameter._data is not None and (
        next(iter(parameter._data.values()))._tensor.dtype.name != "float64")


def _trained(parameters, skipped=()):
    """The parameters that a step changes, by place."""
    left_out = {id(p) for p in skipped}
    return {i: p for i, p in enumerate(parameters)
            if p.grad_req != "null" and id(p) not in left_out}


@contextlib.contextmanager
def _scaled(parameters, factor):
    """Gradients times a factor; afterwards they are what they were."""
    kept = []
    if factor != 1.0:
        gradients = [g for g in (p._engine.grad() for p in parameters) if g is not None]
        kept = [(gradient, gradient.detach().copy()) for gradient in gradients]
    try:
        for gradient, copy in kept:
            gradient.assign(copy * factor)
        yield
    finally:
        for gradient, copy in kept:
            gradient.assign(copy)


def _goes_by_rows(optimizer, parameters):
    """Whether rows without a gradient stay as they are, decay and momentum included."""
    if not optimizer.lazy_update or all(p.grad_stype == "default" for p in parameters):
        return False
    return bool(optimizer.wd or getattr(optimizer, "momentum", True))


class ArrayUpdate:
    """A rule on arrays, parameter by parameter; every context has its own states."""

    def __init__(self, optimizer, parameters):
        self._optimizer, self._parameters = optimizer, parameters
        contexts = max((len(p._arrays()) for p in parameters), default=1)
        self.updaters = [_optimizer.get_updater(optimizer) for _ in range(contexts)]

    def follows(self, skipped):
        """It takes the optimizer as it is."""
        return True

    def put(self, i, state, copy):
        """Gives a parameter's states, tensors, to all contexts; `copy` is its float32 one."""
        for updater, array in zip(self.updaters, self._parameters[i]._arrays()):
            updater.states[i] = self._state_of(array, state, copy)

    def _state_of(self, array, state, copy):
        dtype = array._tensor.dtype
        dtype = dtype if dtype.name == "float64" else "float32"

        def kept(tensor):
            return NDArray(ops.cast(tensor.copy(), dtype).to(array._tensor.device))

        own = tuple(kept(s) for s in state) if isinstance(state, tuple) else (
            None if state is None else kept(state))
        if not self._optimizer._keeps_copy(array):
            return own
        copy = kept(array._tensor.detach() if copy is None else copy)
        return (own, copy) if self._optimizer._copy_is_last else (copy, own)

    def step(self, batch_size, scale, skipped):
        """One update."""
        optimizer = self._optimizer
        optimizer.rescale_grad = scale / batch_size
        counts = dict(optimizer._index_update_count)
        number = optimizer.num_update
        left_out = {id(p) for p in skipped}
        for place, updater in enumerate(self.updaters):
            # Contexts do the same update, which counts once.
            optimizer._index_update_count, optimizer.num_update = dict(counts), number
            for i, parameter in enumerate(self._parameters):
                if parameter.grad_req == "null" or id(parameter) in left_out:
                    continue
                arrays = parameter._arrays()
                if place < len(arrays):
                    updater(i, arrays[place].grad, arrays[place])

    def save(self, path):
        """Writes the states."""
        with open(path, "wb") as file:
            file.write(self.updaters[0].get_states(dump_optimizer=True))

    def load(self, path):
        """Reads states that save() wrote."""
        with open(path, "rb") as file:
            contents = file.read()
        for updater in self.updaters:
            updater.set_states(contents)
            updater.optimizer = self.updaters[0].optimizer
        self._optimizer.__dict__.update(
            {key: value for key, value in self.updaters[0].optimizer.__dict__.items()
             if key != "param_dict"})
        for updater in self.updaters:
            updater.optimizer = self._optimizer


def made_for(optimizer, parameters, path=None):
    """What changes parameters: where there is a file of states, what reads it."""
    is_pickle = path is not None and not _is_engines(path)
    fused = None if is_pickle else FusedUpdate.serves(optimizer, parameters)
    return fused or ArrayUpdate(optimizer, parameters)


def _is_engines(path):
    try:
        return lockstep.io.format_of(path) == "native"
    except lockstep.errors.Corrupt:
        return False


def sum_between(parameters, job):
    """Makes the gradients of all contexts and workers their sum."""
    arrays = [p.list_grad() for p in parameters]
    totals = []
    for gradients in arrays:
        total = gradients[0]._tensor
        for other in gradients[1:]:
            tensor = other._tensor
            total = total + (tensor if tensor.device == total.device else tensor.to(total.device))
        totals.append(total)
    if job is not None and job.workers > 1:
        totals = _between_workers(totals, job)
    for gradients, total in zip(arrays, totals):
        for array in gradients:
            target = array._tensor
            target.assign(total if total.device == target.device else total.to(target.device))


def _between_workers(totals, job):
    """One exchange for each dtype."""
    made = [None] * len(totals)
    for dtype in sorted({t.dtype.name for t in totals}):
        places = [i for i, t in enumerate(totals) if t.dtype.name == dtype]
        flat = ops.concat([ops.reshape(_host(totals[i]), (-1,)) for i in places], axis=0)
        flat = job.all_reduce(flat)
        begin = 0
        for i in places:
            size = totals[i].size
            made[i] = ops.reshape(flat[begin:begin + size], totals[i].shape)
            begin += size
    return made


def _host(tensor):
    return tensor if tensor.device.index == 0 else tensor.to(_core.cpu(0))
