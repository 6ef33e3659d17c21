# SPDX-License-Identifier: Apache-2.0
"""Hybridized blocks: forward compiled by the engine, and its gradient too.

A block is traced once for each combination of its inputs' shapes, mode and wanted gradients. While
recording, a call is one function on the tape: backward runs a compiled function that computes
forward again and its gradient, with the same random numbers.
"""

from collections import OrderedDict

import lockstep
from lockstep import _core
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.gluon import _tracing
from lockstep.mxnet.ndarray.ndarray import NDArray

_ARRAY = "<array>"
_PLANS = 32


def flatten(value, arrays):
    """A template of nested lists of arrays; the arrays are added to the list."""
    if isinstance(value, NDArray):
        arrays.append(value)
        return _ARRAY
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[flatten(item, arrays) for item in value])
    return ("=", value)


def fill(template, arrays):
    """What flatten() was given, with other arrays."""
    if template == _ARRAY:
        return next(arrays)
    if template[0] == "=":
        return template[1]
    items = [fill(item, arrays) for item in template[1:]]
    return items if template[0] == "list" else tuple(items)


class _Plan:
    """One traced combination."""

    def __init__(self, block, parameters, template, inputs, kind, training, wanted):
        self._block, self._parameters, self._template = block, parameters, template
        self._inputs, self._kind, self._training = inputs, kind, training
        self.wanted = wanted
        self.updated = None  # places of parameters that forward changes
        self.answer = None  # the template of the outputs
        self._floating = None  # which outputs have gradients
        self.forward = lockstep.compile(self._forward)
        self._gradient = lockstep.compile(self._gradient_of)

    def _run(self, tensors):
        """The outputs' tensors, and the parameters' arrays as forward left them."""
        arrays = [self._kind(t) for t in tensors]
        stand_ins = arrays[self._inputs:]
        with _tracing.substituted({id(p): a for p, a in zip(self._parameters, stand_ins)}):
            args = fill(self._template, iter(arrays[:self._inputs]))
            made = self._block._forward_now(*args)
        outputs = []
        self.answer = flatten(made, outputs)
        return [a._tensor for a in outputs], stand_ins

    def _forward(self, *tensors):
        outputs, stand_ins = self._run(tensors)
        before = tensors[self._inputs:]
        self.updated = [i for i, (a, t) in enumerate(zip(stand_ins, before)) if a._tensor is not t]
        self._floating = [i for i, t in enumerate(outputs) if t.dtype.is_floating]
        self.count = len(outputs)
        return outputs + [stand_ins[i]._tensor for i in self.updated]

    def _gradient_of(self, *tensors):
        count = len(tensors) - len(self._floating)
        own, heads = tensors[:count], list(tensors[count:])
        with _core._record(self._training):
            for i in self.wanted:
                _core.attach_grad(own[i])
            outputs, _ = self._run(own)
            chosen = [outputs[i] for i in self._floating]
            # An output that no wanted tensor leads to sends nothing back.
            pairs = [(o, h) for o, h in zip(chosen, heads) if o.requires_grad]
        return _core.grad([o for o, _ in pairs], [own[i] for i in self.wanted],
                          [h for _, h in pairs], False, False)

    def gradients(self, tensors, heads):
        """One for each wanted tensor."""
        with _core._mode(self._training):
            made = self._gradient(*tensors, *[heads[i] for i in self._floating])
        return [made] if isinstance(made, _core.Tensor) else list(made)


class _Recorded:
    """A call on the tape."""

    def __init__(self, plan):
        self._plan = plan
        self._key = _random_state.next_key()

    def forward(self, *tensors):
        self._tensors = tensors
        with _core._random_scope(*self._key), _core._mode(self._plan._training):
            made = self._plan.forward(*tensors)
        made = [made] if isinstance(made, _core.Tensor) else list(made)
        self.updates = made[self._plan.count:]
        return tuple(made[:self._plan.count])

    def backward(self, *heads):
        if _core.is_recording():
            raise MXNetError("create_graph: the gradient of a hybridized block is not recorded; "
                             "call net.hybridize(False) for gradients of gradients")
        with _core._random_scope(*self._key):
            made = self._plan.gradients(self._tensors, heads)
        gradients = [None] * len(self._tensors)
        for place, gradient in zip(self._plan.wanted, made):
            gradients[place] = gradient
        return tuple(gradients)


class CachedGraph:
    """The compiled calls of one block."""

    def __init__(self, block):
        self._block = block
        self._plans = OrderedDict()
        self._parameters = None

    def clear(self):
        """Forgets what was traced."""
        self._plans.clear()
        self._parameters = None

    def _parameter_arrays(self, context):
        if self._parameters is None:
            self._parameters = list(self._block.collect_params().values())
        return [p._on(context) for p in self._parameters]

    def is_ready(self):
        """Whether all parameters have contents."""
        return all(p._data is not None for p in self._block.collect_params().values())

    def __call__(self, args):
        """The block's outputs, or NotImplemented where it cannot be compiled for these."""
        arrays = []
        template = flatten(args, arrays)
        if not arrays or any(a._tensor.is_symbolic for a in arrays):
            return NotImplemented
        if self._parameters is None and not self.is_ready():
            return NotImplemented
        kind = arrays[0]._out
        owned = self._parameter_arrays(arrays[0].context if len(arrays) else None)
        tensors = [a._tensor for a in arrays] + [a._tensor for a in owned]
        recording, training = _core.is_recording(), _core.is_training()
        wanted = ()
        if recording:
            wanted = tuple(i for i, t in enumerate(tensors) if t.requires_grad)
        plan = self._plan(template, tensors, len(arrays), kind, training, wanted)
        if wanted:
            call = _Recorded(plan)
            made = _core._call_function(call, tensors)
            updates = call.updates
        else:
            with _core._pause(training), _random_state.scope():
                made = plan.forward(*tensors)
            made = [made] if isinstance(made, _core.Tensor) else list(made)
            made, updates = made[:plan.count], made[plan.count:]
        for place, value in zip(plan.updated, updates):
            owned[place]._tensor.assign(value)
        return fill(plan.answer, iter([kind(t) for t in made]))

    def _plan(self, template, tensors, inputs, kind, training, wanted):
        try:
            key = (template, tuple([(t.shape, t.dtype.name) for t in tensors[:inputs]]), training,
                   wanted, kind, tensors[0].device.index)
            plan = self._plans.get(key)
        except TypeError:
            raise MXNetError(f"hybridize: {type(self._block).__name__} was given an argument that "
                             f"cannot be told apart from others: {template}") from None
        if plan is None:
            plan = _Plan(self._block, self._parameters, template, inputs, kind, training, wanted)
            self._plans[key] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan
