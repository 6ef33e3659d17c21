# SPDX-License-Identifier: Apache-2.0
"""How a Trainer changes parameters: the engine's fused update, or a rule on arrays."""

import lockstep
from lockstep import _core, ops
from lockstep.mxnet import optimizer as _optimizer


def engine_rule(optimizer):
    """The engine's rule that computes what a rule of MXNet does, or None."""
    known = type(optimizer)
    if known.__module__ != _optimizer.rules.__name__:
        return None
    rule = optimizer._rule()
    if rule is None:
        return None
    name, parameters = rule
    clip = {"clip_gradient": optimizer.clip_gradient} if optimizer.clip_gradient else {}
    return lockstep.optim.make_optimizer(name, learning_rate=max(optimizer.learning_rate, 0.0),
                                         weight_decay=optimizer.wd, **parameters, **clip)


class FusedUpdate:
    """All parameters in one call of the engine; they are on the host, once each."""

    def __init__(self, optimizer, parameters, rule):
        self._optimizer, self._parameters = optimizer, parameters
        # States belong to places, as in MXNet: another net's parameters have other names.
        places = {str(place): p._engine for place, p in enumerate(parameters)}
        self._updater = lockstep.optim.Updater(places, rule, ignore_missing_gradients=True)
        self._factors = None
        self._engines = [p._engine for p in parameters]
        self._made_of = self._settings()

    @staticmethod
    def serves(optimizer, parameters):
        """The update, where the engine has one for this."""
        fit = all(p._engine is not None and p._data is not None
                  and next(iter(p._data.values()))._tensor.dtype.name != "float64"
                  for p in parameters) and not _goes_by_rows(optimizer, parameters)
        rule = engine_rule(optimizer) if fit else None
        return None if rule is None else FusedUpdate(optimizer, parameters, rule)

    def _settings(self):
        o = self._optimizer
        return o.wd, o.clip_gradient, o._rule()

    def is_current(self):
        """Whether the optimizer and the parameters are still what it was made of."""
        return self._settings() == self._made_of and all(
            p._engine is engine for p, engine in zip(self._parameters, self._engines))

    def _set_factors(self):
        factors = [(p.lr_mult, p.wd_mult) for p in self._parameters]
        if factors != self._factors:
            for parameter, (rate, decay) in zip(self._parameters, factors):
                parameter._engine.set_multipliers(rate, decay)
            self._factors = factors

    def step(self, batch_size, scale, skipped):
        """One update; the skipped parameters stay as they are."""
        self._set_factors()
        optimizer = self._optimizer
        optimizer.num_update += 1
        self._updater.learning_rate = optimizer.learning_rate
        for parameter in skipped:
            parameter._engine.set_grad_mode("off")
        if scale != 1.0 or batch_size != int(batch_size):
            self._rescale(scale * max(int(batch_size), 1) / batch_size)
        self._updater.step(max(int(batch_size), 1))
        for parameter in skipped:
            parameter._engine.set_grad_mode(parameter.grad_req)

    def _rescale(self, factor):
        for parameter in self._parameters:
            gradient = parameter._engine.grad()
            if gradient is not None:
                gradient.assign(gradient * factor)

    def save(self, path):
        """Writes the states."""
        self._updater.save(path)

    def load(self, path):
        """Reads states that save() wrote."""
        self._updater.load(path)
        self._optimizer.num_update = self._updater.steps


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

    def is_current(self):
        """It takes the optimizer as it is."""
        return True

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
