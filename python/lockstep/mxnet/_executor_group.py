# SPDX-License-Identifier: Apache-2.0
"""A symbol on several contexts: each computes its part of the batch.

To a module it is one executor. The first context's parameters are everybody's, gradients are added
up, and states that training changes (a BatchNorm's means) are the mean over the contexts.
"""

from lockstep.mxnet import ndarray as nd


def parts_of(size, count):
    """(begin, end) of as many parts of a batch, as equal as can be."""
    if size < count:
        raise ValueError(f"Too many slices: a batch of {size} for {count} contexts")
    ends = [round(size * (i + 1) / count) for i in range(count)]
    return list(zip([0] + ends[:-1], ends))


class ExecutorGroup:
    """`executors`, and `axes`: the batch's axis of each input that is cut into parts; of the others
    every context has a whole one. `requests` say what becomes of gradients."""

    def __init__(self, executors, shapes, axes, requests):
        self.executors, self._axes, self._requests = executors, axes, requests
        first = executors[0]
        self._names, self._states = first._names, first._states
        own = first.arg_dict
        self._whole = {name: nd.zeros(shapes[name], ctx=own[name].context, dtype=own[name].dtype)
                       for name in axes}
        self._totals = {name: nd.zeros(self.arg_dict[name].shape, ctx=own[name].context,
                                       dtype=own[name].dtype)
                        for name in self._names if requests.get(name, "null") != "null"}
        size = shapes[next(iter(axes))][next(iter(axes.values()))]
        self._parts = parts_of(size, len(executors))
        self._states_differ = False

    @property
    def arg_dict(self):
        """Parameters, and the whole batch."""
        return {**self.executors[0].arg_dict, **self._whole}

    @property
    def grad_dict(self):
        """Sums over the contexts; of the batch, all of it."""
        return {name: self._totals.get(name) for name in self._names}

    @property
    def aux_dict(self):
        """States, the same for all."""
        self._merge_states()
        return self.executors[0].aux_dict

    @property
    def outputs(self):
        """Those of all parts, one behind the other."""
        return [self._joined(parts, 0) for parts in self.parts_of_outputs()]

    def parts_of_outputs(self):
        """Each output's parts by context."""
        return [list(parts) for parts in zip(*(one.outputs for one in self.executors))]

    def _joined(self, parts, axis):
        place = parts[0].context
        return nd.concat(*(part.as_in_context(place) for part in parts), dim=axis)

    def _merge_states(self):
        if not self._states_differ:
            return
        self._states_differ = False
        for one in self.executors:
            one.outputs  # noqa: B018: what is pending is computed, and the states with it
        for name, state in self.executors[0].aux_dict.items():
            total = sum((one.aux_dict[name].as_in_context(state.context)
                         for one in self.executors[1:]), state)
            (total / len(self.executors)).astype(state.dtype).copyto(state)

    def _spread(self):
        """The first context's parameters and states to the others, and to all their parts."""
        self._merge_states()
        first = self.executors[0]
        for one in self.executors[1:]:
            for name, array in first.arg_dict.items():
                if name not in self._axes:
                    array.copyto(one.arg_dict[name])
            for name, array in first.aux_dict.items():
                array.copyto(one.aux_dict[name])
        for name, axis in self._axes.items():
            for one, (begin, end) in zip(self.executors, self._parts):
                self._whole[name].slice_axis(axis, begin, end).copyto(one.arg_dict[name])

    def forward(self, is_train=False):
        """All parts."""
        self._spread()
        for one in self.executors:
            one.forward(is_train)
        self._states_differ = bool(is_train and self._states)

    def backward(self, out_grads=None):
        """Gradients of all parts."""
        if out_grads is not None and not isinstance(out_grads, (list, tuple)):
            out_grads = [out_grads]
        for one, (begin, end) in zip(self.executors, self._parts):
            one.backward(None if out_grads is None else [
                gradient.slice_axis(0, begin, end).as_in_context(one._ctx)
                for gradient in out_grads])
        for name, total in self._totals.items():
            parts = [one.grad_dict[name] for one in self.executors]
            if name in self._axes:
                made = self._joined(parts, self._axes[name])
            else:
                made = sum((part.as_in_context(total.context) for part in parts[1:]),
                           parts[0].as_in_context(total.context))
            if self._requests[name] == "add":
                made = total + made
            made.copyto(total)

    def reshape(self, **shapes):
        """For batches of another size."""
        size = next(shapes[name][axis] for name, axis in self._axes.items() if name in shapes)
        made = [one.reshape(**{name: part_shape(shape, self._axes.get(name), part)
                               for name, shape in shapes.items()})
                for one, part in zip(self.executors, parts_of(size, len(self.executors)))]
        kept = {name: array.shape for name, array in self._whole.items()}
        return ExecutorGroup(made, {**kept, **shapes}, self._axes, self._requests)

    def copy_params_from(self, arg_params, aux_params=None, allow_extra_params=False):
        """Takes parameters by name."""
        self._states_differ = False
        self.executors[0].copy_params_from(arg_params, aux_params, allow_extra_params)

    def set_monitor_callback(self, callback, monitor_all=False):
        """Has all contexts' nodes told."""
        for one in self.executors:
            one.set_monitor_callback(callback, monitor_all)


def part_shape(shape, axis, part):
    """A part's shape."""
    if axis is None:
        return tuple(shape)
    shape = list(shape)
    shape[axis] = part[1] - part[0]
    return tuple(shape)
