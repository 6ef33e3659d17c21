# SPDX-License-Identifier: Apache-2.0
"""Hybridized blocks: forward compiled by the engine, and its gradient too.

A block is traced once for each combination of its inputs' shapes, mode and wanted gradients. While
recording, a call is one function on the tape: forward keeps what the gradient reads, and backward
is compiled too.
"""

from collections import OrderedDict

import lockstep
from lockstep import _core
from lockstep.errors import InvalidArgument
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


def _not_an_array(template):
    """The first argument that is neither an array nor None."""
    if template == _ARRAY:
        return None
    if template[0] == "=":
        return template[1]
    return next((found for item in template[1:]
                 if (found := _not_an_array(item)) is not None), None)


def _without_trailing_none(template):
    end = len(template)
    while end > 1 and template[end - 1] == ("=", None):
        end -= 1
    return template[:end]


def _shown(template):
    if template == _ARRAY:
        return "array"
    if template[0] == "=":
        return repr(template[1])
    return "(" + ", ".join(_shown(item) for item in template[1:]) + ")"


class _Plan:
    """One traced combination."""

    def __init__(self, block, parameters, template, inputs, kind):
        self._block, self._parameters, self._template = block, parameters, template
        self._inputs, self._kind = inputs, kind
        self.updated = None  # places of parameters that forward changes
        self.answer = None  # the template of the outputs
        self._forward = None
        self._recorded = None
        self.needs_values = False

    def _run(self, *tensors):
        """The outputs, and the parameters that forward has changed."""
        arrays = [self._kind(t) for t in tensors]
        stand_ins = arrays[self._inputs:]
        with _tracing.substituted({id(p): a for p, a in zip(self._parameters, stand_ins)}):
            args = fill(self._template, iter(arrays[:self._inputs]))
            made = self._block._forward_now(*args)
        outputs = []
        self.answer = flatten(made, outputs)
        before = tensors[self._inputs:]
        self.updated = [i for i, (a, t) in enumerate(zip(stand_ins, before)) if a._tensor is not t]
        return [a._tensor for a in outputs], [stand_ins[i]._tensor for i in self.updated]

    def _run_flat(self, *tensors):
        outputs, updates = self._run(*tensors)
        self._count = len(outputs)
        return outputs + updates

    def record(self, tensors, wanted):
        """(outputs, updates) as one function on the tape; None where forward calls a function with
        a gradient of its own, which the tape alone knows."""
        if self._recorded is None:
            try:
                self._recorded = _core._RecordedFunction(self._run, tensors, wanted)
            except InvalidArgument as error:
                if "autograd::Function" not in str(error):
                    raise
                self._recorded = False
        return self._recorded(tensors) if self._recorded else None

    def call(self, tensors):
        """(outputs, updates), not recorded."""
        if self._forward is None:
            self._forward = lockstep.compile(self._run_flat)
        with _core._pause(_core.is_training()):
            made = self._forward(*tensors)
        made = [made] if isinstance(made, _core.Tensor) else list(made)
        return made[:self._count], made[self._count:]


class CachedGraph:
    """The compiled calls of one block."""

    def __init__(self, block):
        self._block = block
        self._plans = OrderedDict()
        self._parameters = None
        self._structure = None  # of the first call's arguments
        self._checked = set()  # templates that fit it

    def clear(self):
        """Forgets what was traced."""
        self._plans.clear()
        self._parameters = None
        self._structure = None
        self._checked = set()

    def _parameter_arrays(self, context):
        if self._parameters is None:
            self._parameters = list(self._block.collect_params().values())
        return [p._on(context) for p in self._parameters]

    def is_ready(self):
        """Whether all parameters have contents."""
        return all(p._data is not None for p in self._block.collect_params().values())

    def _check(self, template, arrays):
        """Arguments are arrays or None, in the same places as in the first call, on one context."""
        name = type(self._block).__name__
        if template not in self._checked:
            other = _not_an_array(template)
            if other is not None:
                raise ValueError(f"{name}: a hybridized block takes arrays, got {other!r}; keep it "
                                 "in the block, or do not hybridize")
            structure = _without_trailing_none(template)
            if self._structure not in (None, structure):
                raise ValueError(f"{name}: the arguments {_shown(structure)} are not those that it "
                                 f"was hybridized with, {_shown(self._structure)}; call "
                                 "hybridize() again")
            self._structure = structure
            self._checked.add(template)
        if len(arrays) > 1 and len({a._tensor.device.index for a in arrays}) > 1:
            raise ValueError(f"{name}: the arguments are on several contexts: "
                             f"{sorted({str(a.context) for a in arrays})}")

    def __call__(self, args, checked=False):
        """The block's outputs, or NotImplemented where it cannot be compiled for these."""
        arrays = []
        template = flatten(args, arrays)
        if checked:
            self._check(template, arrays)
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
        results = None
        if not plan.needs_values:
            try:
                with _random_state.scope():
                    results = plan.record(tensors, wanted) if wanted else plan.call(tensors)
            except InvalidArgument as error:
                if "has no data while tracing" not in str(error) and (
                        "stands for a value of a trace" not in str(error)):
                    raise
                # Forward computes with values, as functions of NumPy's do: op by op from now on.
                plan.needs_values = True
        if results is None:
            return NotImplemented
        made, updates = results
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
            plan = _Plan(self._block, self._parameters, template, inputs, kind)
            self._plans[key] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan
