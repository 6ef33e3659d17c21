# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells: one step, and unroll() for many."""

from lockstep.mxnet.gluon.block import Block, HybridBlock
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell",
           "HybridSequentialRNNCell", "LSTMCell", "ModifierCell", "RNNCell", "RecurrentCell",
           "ResidualCell", "SequentialRNNCell", "VariationalDropoutCell", "ZoneoutCell"]


def _nd():
    from lockstep.mxnet import ndarray

    return ndarray


def _module_of(x):
    """mx.nd, or mx.sym for symbols."""
    if isinstance(x, NDArray):
        return _nd()
    from lockstep.mxnet import symbol

    return symbol


def _steps(length, inputs, layout):
    """A list of the inputs of each step, the axis of time, and the batch size."""
    axis = layout.find("T")
    if isinstance(inputs, (list, tuple)):
        batch = inputs[0].shape[0] if isinstance(inputs[0], NDArray) else 0
        return list(inputs), axis, batch
    F = _module_of(inputs)  # noqa: N806 - MXNet's name
    batch = inputs.shape[layout.find("N")] if isinstance(inputs, NDArray) else 0
    return _parts(F, inputs, length, axis), axis, batch


def _parts(F, whole, length, axis):  # noqa: N803
    """The steps of a sequence, of one step too."""
    made = F.split(whole, num_outputs=length, axis=axis, squeeze_axis=True)
    return [made] if length == 1 else list(made)


def _begin(cell, steps, batch):
    """A cell's first states, arrays or symbols as the steps are."""
    first = steps[0]
    if isinstance(first, NDArray):
        return cell.begin_state(batch, ctx=first.context)
    return cell.begin_state(batch, func=_module_of(first).zeros)


def _merged(outputs, axis, wanted):
    if wanted is False or wanted is None:
        return outputs
    return _module_of(outputs[0]).stack(*outputs, axis=axis)


class RecurrentCell(Block):
    """output, states = cell(input, states)."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self):
        """Before it is used for another sequence."""
        self._init_counter = self._counter = -1
        for child in self._children.values():
            if hasattr(child, "reset"):
                child.reset()

    def state_info(self, batch_size=0):
        """The states' shapes."""
        raise NotImplementedError(f"{type(self).__name__} has no state_info")

    def begin_state(self, batch_size=0, func=None, **kwargs):
        """States to begin with."""
        if self._modified:
            raise AssertionError("After applying modifier cells (e.g. ZoneoutCell) the base cell "
                                 "cannot be called directly. Call the modifier cell instead.")
        func = _nd().zeros if func is None else func
        return [func(**{**{k: v for k, v in info.items() if k != "__layout__"}, **kwargs})
                for info in self.state_info(batch_size)]

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None,
               valid_length=None):
        """(outputs, states) of as many steps."""
        self.reset()
        steps, axis, batch = _steps(length, inputs, layout)
        if begin_state is None:
            begin_state = _begin(self, steps, batch)
        states, outputs, all_states = begin_state, [], []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
            if valid_length is not None:
                all_states.append(states)
        if valid_length is not None:
            F = _module_of(steps[0])  # noqa: N806
            states = [F.SequenceLast(F.stack(*column, axis=0), sequence_length=valid_length,
                                     use_sequence_length=True) for column in zip(*all_states)]
            whole = F.SequenceMask(F.stack(*outputs, axis=axis), sequence_length=valid_length,
                                   use_sequence_length=True, axis=axis)
            if merge_outputs is False:
                return _parts(F, whole, length, axis), states
            return whole, states
        if merge_outputs is None:
            merge_outputs = not isinstance(inputs, (list, tuple))
        return _merged(outputs, axis, merge_outputs), states

    def _get_activation(self, F, inputs, activation, **kwargs):  # noqa: N803
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def __call__(self, inputs, states, *args):
        self._counter += 1
        if not isinstance(states, (list, tuple)):
            states = [states]
        return super().__call__(inputs, states, *args)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell whose step is hybrid_forward."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def forward(self, inputs, states):
        return HybridBlock.forward(self, inputs, states)

    def _forward_now(self, x, *args):
        return self._by_hybrid_forward(x, *args)


class _GatedCell(HybridRecurrentCell):
    """Products of input and state, in gates one after another."""

    _gates, _gate_axis = 1, -1

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None, **kwargs):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size = hidden_size, input_size
        rows = self._gates * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, self._state_width()),
                                   h2h_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer),
                                  ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init,
                                                allow_deferred_init=True))

    def _state_width(self):
        """How many features the state has that goes into the gates."""
        return self._hidden_size

    def infer_shape(self, x, *args):
        self.i2h_weight.shape = (self._gates * self._hidden_size, x.shape[-1])

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}] * self._states

    _states = 1

    def _step_name(self):
        """What a symbol of this step's output is called."""
        return f"t{self._counter}_out"

    def _products(self, F, inputs, states, own):  # noqa: N803
        rows = self._gates * self._hidden_size
        return (F.FullyConnected(inputs, own["i2h_weight"], own["i2h_bias"], num_hidden=rows),
                F.FullyConnected(states[0], own["h2h_weight"], own["h2h_bias"], num_hidden=rows))

    def __repr__(self):
        return (f"{type(self).__name__}({self.i2h_weight.shape[1] or None} -> "
                f"{self.i2h_weight.shape[0]})")


class RNNCell(_GatedCell):
    """activation(W x + U h + b)."""

    def __init__(self, hidden_size, activation="tanh", i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation

    def hybrid_forward(self, F, inputs, states, **own):  # noqa: N803
        i2h, h2h = self._products(F, inputs, states, own)
        output = self._get_activation(F, i2h + h2h, self._activation, name=self._step_name())
        return output, [output]


class _TwoActivationsCell(_GatedCell):
    """One activation for the gates, one for what passes them."""

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None, activation="tanh", recurrent_activation="sigmoid"):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)
        self._activation, self._gate = activation, recurrent_activation


class LSTMCell(_TwoActivationsCell):
    """Long short-term memory; states [h, c]."""

    _gates, _states = 4, 2

    def hybrid_forward(self, F, inputs, states, **own):  # noqa: N803
        i2h, h2h = self._products(F, inputs, states, own)
        i, f, g, o = F.split(i2h + h2h, num_outputs=4, axis=self._gate_axis)
        i, f, o = (self._get_activation(F, part, self._gate) for part in (i, f, o))
        cell = f * states[1] + i * self._get_activation(F, g, self._activation)
        hidden = F.elemwise_mul(o, F.Activation(cell, act_type=self._activation),
                                name=self._step_name())
        return hidden, [hidden, cell]


class GRUCell(_TwoActivationsCell):
    """Gated recurrent unit."""

    _gates = 3

    def hybrid_forward(self, F, inputs, states, **own):  # noqa: N803
        i2h, h2h = self._products(F, inputs, states, own)
        i2h_r, i2h_z, i2h_n = F.split(i2h, num_outputs=3, axis=self._gate_axis)
        h2h_r, h2h_z, h2h_n = F.split(h2h, num_outputs=3, axis=self._gate_axis)
        reset = self._get_activation(F, i2h_r + h2h_r, self._gate)
        update = self._get_activation(F, i2h_z + h2h_z, self._gate)
        candidate = self._get_activation(F, i2h_n + reset * h2h_n, self._activation)
        output = F.elemwise_add((1.0 - update) * candidate, update * states[0],
                                name=self._step_name())
        return output, [output]


class _Stack:
    """Cells on top of each other."""

    def add(self, cell):
        """One more on top."""
        self.register_child(cell)

    def __len__(self):
        return len(self._children)

    def __getitem__(self, i):
        return list(self._children.values())[i]

    def state_info(self, batch_size=0):
        return [info for cell in self._children.values() for info in cell.state_info(batch_size)]

    def begin_state(self, batch_size=0, func=None, **kwargs):
        return [state for cell in self._children.values()
                for state in cell.begin_state(batch_size, func, **kwargs)]

    def _run(self, inputs, states):
        after, place = [], 0
        for cell in self._children.values():
            count = len(cell.state_info())
            inputs, made = cell(inputs, states[place:place + count])
            place += count
            after.extend(made)
        return inputs, after

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None,
               valid_length=None):
        """Cell after cell, each over all steps."""
        self.reset()
        steps, _, batch = _steps(length, inputs, layout)
        if begin_state is None:
            begin_state = _begin(self, steps, batch)
        cells, place, after = list(self._children.values()), 0, []
        for i, cell in enumerate(cells):
            count = len(cell.state_info())
            inputs, states = cell.unroll(
                length, inputs, begin_state[place:place + count], layout,
                merge_outputs if i == len(cells) - 1 else None, valid_length)
            place += count
            after.extend(states)
        return inputs, after


class SequentialRNNCell(_Stack, RecurrentCell):
    """Cells on top of each other."""

    def forward(self, inputs, states):
        return self._run(inputs, states)


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Cells on top of each other, compiled."""

    def hybrid_forward(self, F, inputs, states):  # noqa: N803
        return self._run(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        super().__init__(prefix, params)
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size=0):
        return []

    def hybrid_forward(self, F, inputs, states):  # noqa: N803
        if self._rate > 0:
            inputs = F.Dropout(inputs, p=self._rate, axes=self._axes)
        return inputs, states


class ModifierCell(HybridRecurrentCell):
    """Changes what another cell does."""

    def __init__(self, base_cell):
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias() + "_", params=None)
        self.base_cell = base_cell

    @property
    def params(self):
        """The other cell's."""
        return self.base_cell.params if "base_cell" in self.__dict__ else self._params

    def state_info(self, batch_size=0):
        return self.base_cell.state_info(batch_size)

    def begin_state(self, batch_size=0, func=None, **kwargs):
        self.base_cell._modified = False
        begin = self.base_cell.begin_state(batch_size, func, **kwargs)
        self.base_cell._modified = True
        return begin


class ZoneoutCell(ModifierCell):
    """Keeps outputs and states as they were, by chance."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        super().__init__(base_cell)
        self._zoneout = (zoneout_outputs, zoneout_states)
        self._previous = None

    def _alias(self):
        return "zoneout"

    def _compiled(self, args, checked=False):
        # What one step leaves for the next is no value of a trace: the cell inside is compiled.
        return NotImplemented

    def reset(self):
        super().reset()
        self._previous = None

    def hybrid_forward(self, F, inputs, states):  # noqa: N803
        output, after = self.base_cell(inputs, states)
        p_output, p_state = self._zoneout

        def mixed(p, new, old):
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old) if p else new

        previous = F.zeros_like(output) if self._previous is None else self._previous
        output = mixed(p_output, output, previous)
        self._previous = output
        return output, [mixed(p_state, new, old) for new, old in zip(after, states)]


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def hybrid_forward(self, F, inputs, states):  # noqa: N803
        output, states = self.base_cell(inputs, states)
        return output + inputs, states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None,
               valid_length=None):
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, True,
                                                valid_length)
        self.base_cell._modified = True
        steps, axis, _ = _steps(length, inputs, layout)
        added = _merged(steps, axis, True)
        if valid_length is not None:
            added = _module_of(added).SequenceMask(added, sequence_length=valid_length,
                                                   use_sequence_length=True, axis=axis)
        whole = outputs + added
        if merge_outputs is None:
            merge_outputs = not isinstance(inputs, (list, tuple))
        if not merge_outputs:
            return _parts(_module_of(whole), whole, length, axis), states
        return whole, states


class VariationalDropoutCell(ModifierCell):
    """The same places dropped at every step."""

    def __init__(self, base_cell, drop_inputs=0.0, drop_states=0.0, drop_outputs=0.0):
        super().__init__(base_cell)
        self._rates = {"inputs": drop_inputs, "states": drop_states, "outputs": drop_outputs}
        self._masks = {}

    def _alias(self):
        return "vardrop"

    def _compiled(self, args, checked=False):
        # What one step leaves for the next is no value of a trace: the cell inside is compiled.
        return NotImplemented

    def reset(self):
        super().reset()
        self._masks = {}

    def _dropped(self, F, what, x):  # noqa: N803
        if not self._rates[what]:
            return x
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(x), p=self._rates[what])
        return x * self._masks[what]

    def hybrid_forward(self, F, inputs, states):  # noqa: N803
        states = [self._dropped(F, "states", states[0]), *states[1:]]
        output, after = self.base_cell(self._dropped(F, "inputs", inputs), states)
        return self._dropped(F, "outputs", output), after


class BidirectionalCell(HybridRecurrentCell):
    """Two cells, one from each end; unroll() alone."""

    def __init__(self, l_cell, r_cell, output_prefix="bi_"):
        super().__init__(prefix="", params=None)
        self._output_prefix = output_prefix
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def state_info(self, batch_size=0):
        return [info for cell in self._children.values() for info in cell.state_info(batch_size)]

    def begin_state(self, batch_size=0, func=None, **kwargs):
        return [state for cell in self._children.values()
                for state in cell.begin_state(batch_size, func, **kwargs)]

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None,
               valid_length=None):
        self.reset()
        steps, axis, batch = _steps(length, inputs, layout)
        F = _module_of(steps[0])  # noqa: N806
        if begin_state is None:
            begin_state = _begin(self, steps, batch)

        def backwards(items):
            if valid_length is None:
                return list(reversed(items))
            made = F.SequenceReverse(F.stack(*items, axis=0), sequence_length=valid_length,
                                     use_sequence_length=True)
            return _parts(F, made, length, 0)

        left, right = self._children["l_cell"], self._children["r_cell"]
        count = len(left.state_info())
        l_out, l_states = left.unroll(length, steps, begin_state[:count], layout, False,
                                      valid_length)
        r_out, r_states = right.unroll(length, backwards(steps), begin_state[count:], layout, False,
                                       valid_length)
        outputs = [F.concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
                   for i, (a, b) in enumerate(zip(l_out, backwards(r_out)))]
        if merge_outputs is None:
            merge_outputs = not isinstance(inputs, (list, tuple))
        return _merged(outputs, axis, merge_outputs), l_states + r_states
