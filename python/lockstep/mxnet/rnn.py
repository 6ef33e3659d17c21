# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells made of symbols, and sentences in buckets: what came before gluon.rnn."""

import numpy as np

from lockstep.mxnet import initializer, model
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet import symbol as sym
from lockstep.mxnet._sentences import BucketSentenceIter, encode_sentences  # noqa: F401


class RNNParams:
    """Variables by name, which cells share."""

    def __init__(self, prefix=""):
        self._prefix, self._params = prefix, {}

    def get(self, name, **kwargs):
        """The variable of a name."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = sym.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """One step of a recurrent net: called with an input and states, it gives both anew."""

    def __init__(self, prefix="", params=None):
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix, self._modified = prefix, False
        self.reset()

    def reset(self):
        """Begins to count steps anew."""
        self._init_counter = self._counter = -1

    @property
    def params(self):
        self._own_params = False
        return self._params

    @property
    def state_shape(self):
        return [info["shape"] for info in self.state_info]

    def begin_state(self, func=None, **kwargs):
        """States to begin with: zeros, or what func(name=, shape=) gives."""
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            if func is None:
                states.append(sym.zeros(shape=info["shape"], name=name))
            elif func is sym.Variable or func is sym.var:
                states.append(func(name, **kwargs))
            else:
                states.append(func(name=name, **dict(info, **kwargs)))
        return states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """So many steps: (outputs, states). Inputs are one symbol or a list of them."""
        self.reset()
        inputs, axis = _steps(length, inputs, layout)
        states = begin_state if begin_state is not None else self.begin_state()
        outputs = []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
        return (_merged(outputs, axis) if merge_outputs else outputs), states

    def _name(self):
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def unpack_weights(self, args):
        """Each gate's part of the weights by name."""
        args, gates = dict(args), self._gate_names
        if not gates:
            return args
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                whole = args.pop(f"{self._prefix}{group}_{kind}")
                size = whole.shape[0] // len(gates)
                for i, gate in enumerate(gates):
                    args[f"{self._prefix}{group}{gate}_{kind}"] = whole[i * size:(i + 1) * size].copy()
        return args

    def pack_weights(self, args):
        """The gates' parts as one again."""
        args, gates = dict(args), self._gate_names
        for group in ("i2h", "h2h") if gates else ():
            for kind in ("weight", "bias"):
                parts = [args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in gates]
                args[f"{self._prefix}{group}_{kind}"] = nd.concat(*parts, dim=0)
        return args

    def _get_activation(self, inputs, activation, **kwargs):
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    _gate_names = ()


def _steps(length, inputs, layout):
    axis = layout.find("T")
    if isinstance(inputs, sym.Symbol):
        if len(inputs) == 1:
            inputs = sym.SliceChannel(inputs, axis=axis, num_outputs=length, squeeze_axis=1)
        inputs = list(inputs)
    if len(inputs) != length:
        raise ValueError(f"unroll: {len(inputs)} inputs for {length} steps")
    return inputs, axis


def _merged(outputs, axis):
    return sym.Concat(*[sym.expand_dims(output, axis=axis) for output in outputs], dim=axis)


class _GatedCell(BaseRNNCell):
    def __init__(self, num_hidden, prefix, params, **init):
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", **init)
        self._hW, self._hB = self.params.get("h2h_weight"), self.params.get("h2h_bias")

    def _products(self, inputs, state, name, gates):
        size = self._num_hidden * gates
        return (sym.FullyConnected(data=inputs, weight=self._iW, bias=self._iB, num_hidden=size,
                                   name=f"{name}i2h"),
                sym.FullyConnected(data=state, weight=self._hW, bias=self._hB, num_hidden=size,
                                   name=f"{name}h2h"))

    def _info(self):
        return {"shape": (0, self._num_hidden), "__layout__": "NC"}

    @property
    def state_info(self):
        return [self._info()]


class RNNCell(_GatedCell):
    """tanh or relu of what comes in and what was."""

    _gate_names = ("",)

    def __init__(self, num_hidden, activation="tanh", prefix="rnn_", params=None):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs, states):
        name = self._name()
        i2h, h2h = self._products(inputs, states[0], name, 1)
        output = sym.Activation(i2h + h2h, act_type=self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_GatedCell):
    """A cell with a memory of its own; gates i, f, c, o."""

    _gate_names = ("_i", "_f", "_c", "_o")

    def __init__(self, num_hidden, prefix="lstm_", params=None, forget_bias=1.0):
        import json

        super().__init__(num_hidden, prefix, params,
                         init=json.dumps(["lstmbias", {"forget_bias": forget_bias}]))

    @property
    def state_info(self):
        return [self._info(), self._info()]

    def __call__(self, inputs, states):
        name = self._name()
        i2h, h2h = self._products(inputs, states[0], name, 4)
        gates = sym.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        let_in = sym.Activation(gates[0], act_type="sigmoid", name=f"{name}i")
        forget = sym.Activation(gates[1], act_type="sigmoid", name=f"{name}f")
        new = sym.Activation(gates[2], act_type="tanh", name=f"{name}c")
        out = sym.Activation(gates[3], act_type="sigmoid", name=f"{name}o")
        memory = sym.elemwise_add(forget * states[1], let_in * new, name=f"{name}state")
        hidden = sym.elemwise_mul(out, sym.Activation(memory, act_type="tanh"), name=f"{name}out")
        return hidden, [hidden, memory]


class GRUCell(_GatedCell):
    """A cell with two gates and no memory apart; gates r, z, o."""

    _gate_names = ("_r", "_z", "_o")

    def __init__(self, num_hidden, prefix="gru_", params=None):
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs, states):
        name, before = self._name(), states[0]
        i2h, h2h = self._products(inputs, before, name, 3)
        i_r, i_z, i_n = sym.SliceChannel(i2h, num_outputs=3, name=f"{name}i2h_slice")
        h_r, h_z, h_n = sym.SliceChannel(h2h, num_outputs=3, name=f"{name}h2h_slice")
        reset = sym.Activation(i_r + h_r, act_type="sigmoid", name=f"{name}r_act")
        update = sym.Activation(i_z + h_z, act_type="sigmoid", name=f"{name}z_act")
        new = sym.Activation(i_n + reset * h_n, act_type="tanh", name=f"{name}h_act")
        output = sym.elemwise_add((1.0 - update) * new, update * before, name=f"{name}out")
        return output, [output]


class SequentialRNNCell(BaseRNNCell):
    """Cells one above the other."""

    def __init__(self, params=None):
        super().__init__("", params)
        self._cells = []

    def add(self, cell):
        """One more on top."""
        self._cells.append(cell)
        self._params._params.update(cell.params._params)

    def reset(self):
        super().reset()
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    @property
    def state_info(self):
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs):
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def __call__(self, inputs, states):
        made, at = [], 0
        for cell in self._cells:
            count = len(cell.state_info)
            inputs, new = cell(inputs, states[at:at + count])
            at += count
            made += new
        return inputs, made

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        inputs, axis = _steps(length, inputs, layout)
        states, made, at = begin_state if begin_state is not None else self.begin_state(), [], 0
        for cell in self._cells:
            count = len(cell.state_info)
            own = states[at:at + count]
            inputs, new = cell.unroll(length, inputs, own, layout, False)
            at += count
            made += new
        return (_merged(inputs, axis) if merge_outputs else inputs), made

    def unpack_weights(self, args):
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args):
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args


class DropoutCell(BaseRNNCell):
    """Drops a part of what comes in."""

    def __init__(self, dropout, prefix="dropout_", params=None):
        super().__init__(prefix, params)
        self.dropout = dropout

    state_info = ()

    def __call__(self, inputs, states):
        return (sym.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), states


class BidirectionalCell(BaseRNNCell):
    """Two cells, of which one reads from the end."""

    def __init__(self, l_cell, r_cell, params=None, output_prefix="bi_"):
        super().__init__("", params)
        self._cells, self._output_prefix = (l_cell, r_cell), output_prefix
        for cell in self._cells:
            self._params._params.update(cell.params._params)

    def reset(self):
        super().reset()
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def unpack_weights(self, args):
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args):
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    @property
    def state_info(self):
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs):
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        inputs, axis = _steps(length, inputs, layout)
        states = begin_state if begin_state is not None else self.begin_state()
        left, right = self._cells
        count = len(left.state_info)
        there, a = left.unroll(length, inputs, states[:count], layout, False)
        back, b = right.unroll(length, inputs[::-1], states[count:], layout, False)
        outputs = [sym.Concat(x, y, dim=1, name=f"{self._output_prefix}t{i}")
                   for i, (x, y) in enumerate(zip(there, back[::-1]))]
        return (_merged(outputs, axis) if merge_outputs else outputs), a + b


class ModifierCell(BaseRNNCell):
    """A cell that changes what another one does."""

    def __init__(self, base_cell):
        super().__init__()
        base_cell._modified, self.base_cell = True, base_cell

    def reset(self):
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()

    @property
    def params(self):
        return self.base_cell.params

    @property
    def state_info(self):
        return self.base_cell.state_info

    def begin_state(self, **kwargs):
        return self.base_cell.begin_state(**kwargs)

    def unpack_weights(self, args):
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args):
        return self.base_cell.pack_weights(args)


class ResidualCell(ModifierCell):
    """What comes in is added to what comes out."""

    def __call__(self, inputs, states):
        output, states = self.base_cell(inputs, states)
        return sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual"), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        steps, axis = _steps(length, inputs, layout)
        outputs, states = self.base_cell.unroll(length, steps, begin_state, layout, False)
        outputs = [sym.elemwise_add(o, i, name=f"{o.name}_plus_residual")
                   for o, i in zip(outputs, steps)]
        return (_merged(outputs, axis) if merge_outputs else outputs), states


class ZoneoutCell(ModifierCell):
    """Some of the outputs and states stay as they were."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self.prev_output = None

    def reset(self):
        super().reset()
        self.prev_output = None

    @staticmethod
    def _mixed(rate, new, old):
        mask = sym.Dropout(sym.ones_like(new), p=rate)
        return sym.where(mask, new, old)

    def __call__(self, inputs, states):
        output, new = self.base_cell(inputs, states)
        before = self.prev_output if self.prev_output is not None else output * 0
        if self.zoneout_outputs:
            output = self._mixed(self.zoneout_outputs, output, before)
        if self.zoneout_states:
            new = [self._mixed(self.zoneout_states, n, o + n * 0) for n, o in zip(new, states)]
        self.prev_output = output
        return output, new


class FusedRNNCell(BaseRNNCell):
    """All layers and steps in one op."""

    _GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"),
              "gru": ("_r", "_z", "_o")}

    def __init__(self, num_hidden, num_layers=1, mode="lstm", bidirectional=False, dropout=0.0,
                 get_next_state=False, forget_bias=1.0, prefix=None, params=None):
        self._mode, self._num_hidden, self._num_layers = mode, num_hidden, num_layers
        self._bidirectional, self._dropout = bidirectional, dropout
        self._get_next_state, self._forget_bias = get_next_state, forget_bias
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        # Piece by piece, by the net's own initialiser.
        self._parameter = self.params.get("parameters", init=initializer.FusedRNN(
            None, num_hidden, num_layers, mode, bidirectional, forget_bias))

    @property
    def state_info(self):
        ways = 2 if self._bidirectional else 1
        info = {"shape": (self._num_layers * ways, 0, self._num_hidden), "__layout__": "LNC"}
        return [dict(info) for _ in range(2 if self._mode == "lstm" else 1)]

    def __call__(self, inputs, states):
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        self.reset()
        axis = layout.find("T")
        if isinstance(inputs, (list, tuple)):
            inputs = _merged(list(inputs), 0)
        elif axis == 1:
            inputs = sym.SwapAxis(inputs, dim1=0, dim2=1)
        states = begin_state if begin_state is not None else self.begin_state()
        made = sym.RNN(inputs, self._parameter, *states, state_size=self._num_hidden,
                       num_layers=self._num_layers, bidirectional=self._bidirectional,
                       p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
                       name=f"{self._prefix}rnn")
        outputs, after = made[0], [made[i] for i in range(1, len(made))]
        if axis == 1:
            outputs = sym.SwapAxis(outputs, dim1=0, dim2=1)
        if merge_outputs is False:
            outputs = list(sym.SliceChannel(outputs, axis=axis, num_outputs=length, squeeze_axis=1))
        return outputs, after

    def unfuse(self):
        """The same as cells one above the other."""
        make = {"rnn_relu": lambda p: RNNCell(self._num_hidden, "relu", p),
                "rnn_tanh": lambda p: RNNCell(self._num_hidden, "tanh", p),
                "lstm": lambda p: LSTMCell(self._num_hidden, p),
                "gru": lambda p: GRUCell(self._num_hidden, p)}[self._mode]
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            if self._bidirectional:
                stack.add(BidirectionalCell(make(f"{self._prefix}l{layer}_"),
                                            make(f"{self._prefix}r{layer}_"),
                                            output_prefix=f"{self._prefix}bi_l{layer}_"))
            else:
                stack.add(make(f"{self._prefix}l{layer}_"))
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    def _pieces(self, inputs):
        """(name, shape) of the parts of the vector: all weights, then all biases."""
        gates, hidden = self._GATES[self._mode], self._num_hidden
        ways = ("l", "r") if self._bidirectional else ("l",)
        for kind in ("weight", "bias"):
            for layer in range(self._num_layers):
                size = inputs if layer == 0 else hidden * len(ways)
                for way in ways:
                    for group, width in (("i2h", size), ("h2h", hidden)):
                        for gate in gates:
                            shape = (hidden, width) if kind == "weight" else (hidden,)
                            yield f"{self._prefix}{way}{layer}_{group}{gate}_{kind}", shape

    def _input_size(self, count):
        """The data's width, of the length of the vector."""
        gates, hidden, ways = len(self._GATES[self._mode]), self._num_hidden, (
            2 if self._bidirectional else 1)
        later = (self._num_layers - 1) * ways * gates * hidden * (hidden * ways + hidden + 2)
        return (count - later) // (ways * gates * hidden) - hidden - 2

    def unpack_weights(self, args):
        args = dict(args)
        whole = args.pop(f"{self._prefix}parameters").asnumpy()
        at = 0
        for name, shape in self._pieces(self._input_size(whole.size)):
            size = int(np.prod(shape))
            args[name] = nd.array(whole[at:at + size].reshape(shape))
            at += size
        return args

    def pack_weights(self, args):
        args = dict(args)
        width = args[f"{self._prefix}l0_i2h{self._GATES[self._mode][0]}_weight"].shape[1]
        parts = [args.pop(name).asnumpy().reshape(-1) for name, _ in self._pieces(width)]
        args[f"{self._prefix}parameters"] = nd.array(np.concatenate(parts))
        return args


# Checkpoints.


def _cells(cells):
    return cells if isinstance(cells, (list, tuple)) else [cells]


def save_rnn_checkpoint(cells, prefix, epoch, symbol, arg_params, aux_params):
    """A checkpoint with each gate's weights by name."""
    for cell in _cells(cells):
        arg_params = cell.unpack_weights(arg_params)
    model.save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells, prefix, epoch):
    """(symbol, arg_params, aux_params) of such a checkpoint."""
    symbol, args, states = model.load_checkpoint(prefix, epoch)
    for cell in _cells(cells):
        args = cell.pack_weights(args)
    return symbol, args, states


def do_rnn_checkpoint(cells, prefix, period=1):
    """Saves such checkpoints every so many epochs."""
    period = max(1, int(period))

    def callback(iter_no, symbol=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, symbol, arg, aux)

    return callback
