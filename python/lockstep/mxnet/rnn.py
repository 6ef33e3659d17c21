# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells made of symbols, and sentences in buckets: what came before gluon.rnn."""

import bisect
import random as _random

import numpy as np

from lockstep.mxnet import io, model
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet import symbol as sym


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
        hidden = out * sym.Activation(memory, act_type="tanh")
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
        output = (1.0 - update) * new + update * before
        return output, [output]


class SequentialRNNCell(BaseRNNCell):
    """Cells one above the other."""

    def __init__(self, params=None):
        super().__init__("", params)
        self._cells = []

    def add(self, cell):
        """One more on top."""
        self._cells.append(cell)

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


# Sentences.


def encode_sentences(sentences, vocab=None, invalid_label=-1, invalid_key="\n", start_label=0,
                     unknown_token=None):
    """Sentences of numbers, and the vocabulary, made where none is given."""
    new = vocab is None
    vocab = {invalid_key: invalid_label} if new else vocab
    number, made = start_label, []
    for sentence in sentences:
        coded = []
        for word in sentence:
            if word not in vocab:
                if not new and unknown_token is None:
                    raise AssertionError(f"Unknown token {word}")
                if not new:
                    word = unknown_token
                else:
                    if number == invalid_label:
                        number += 1
                    vocab[word] = number
                    number += 1
            coded.append(vocab[word])
        made.append(coded)
    return made, vocab


class BucketSentenceIter(io.DataIter):
    """Sentences in batches of one length each; the label is the next word."""

    def __init__(self, sentences, batch_size, buckets=None, invalid_label=-1, data_name="data",
                 label_name="softmax_label", dtype="float32", layout="NT"):
        super().__init__(batch_size)
        if not buckets:
            lengths = np.bincount([len(s) for s in sentences])
            buckets = [i for i, count in enumerate(lengths) if count >= batch_size]
        self.buckets = sorted(buckets)
        self.data = [[] for _ in self.buckets]
        for sentence in sentences:
            at = bisect.bisect_left(self.buckets, len(sentence))
            if at == len(self.buckets):
                continue  # longer than the largest
            padded = np.full((self.buckets[at],), invalid_label, dtype=dtype)
            padded[:len(sentence)] = sentence
            self.data[at].append(padded)
        self.data = [np.asarray(rows, dtype=dtype).reshape(len(rows), size)
                     for rows, size in zip(self.data, self.buckets)]
        self.dtype, self.invalid_label, self.layout = dtype, invalid_label, layout
        self.data_name, self.label_name = data_name, label_name
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._descriptions(data_name, self.default_bucket_key)
        self.provide_label = self._descriptions(label_name, self.default_bucket_key)
        self.idx = [(i, at) for i, rows in enumerate(self.data)
                    for at in range(0, len(rows) - batch_size + 1, batch_size)]
        self.reset()

    def _descriptions(self, name, size):
        shape = (self.batch_size, size) if self.major_axis == 0 else (size, self.batch_size)
        return [io.DataDesc(name, shape, self.dtype, layout=self.layout)]

    def reset(self):
        self.curr_idx = 0
        _random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)

    def next(self):
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, at = self.idx[self.curr_idx]
        self.curr_idx += 1
        data = self.data[i][at:at + self.batch_size]
        label = np.full_like(data, self.invalid_label)
        label[:, :-1] = data[:, 1:]
        if self.major_axis == 1:
            data, label = data.T, label.T
        size = self.buckets[i]
        return io.DataBatch([nd.array(data, dtype=self.dtype)], [nd.array(label, dtype=self.dtype)],
                            pad=0, bucket_key=size,
                            provide_data=self._descriptions(self.data_name, size),
                            provide_label=self._descriptions(self.label_name, size))
