# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: all steps in one call of the engine."""

from lockstep import _core, ops
from lockstep.mxnet import _hints
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray.ops_rnn import clip_of, gate_count, run_rnn

__all__ = ["GRU", "LSTM", "RNN"]
_NAMES = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")


class _Layer(HybridBlock):
    """Layers of one or two directions; parameters l0_i2h_weight, r0_i2h_weight, ..."""

    def __init__(self, hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                 i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                 h2h_bias_initializer, mode, use_sequence_length=False, dtype="float32",
                 projection_size=None, h2r_weight_initializer=None, state_clip_min=None,
                 state_clip_max=None, state_clip_nan=False, **kwargs):
        if "activation" in kwargs:
            raise TypeError(f"{type(self).__name__} {_hints.NO_ACTIVATION}")
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        if projection_size and mode != "lstm":
            raise AssertionError(f"projection_size is a property of an LSTM, the layer is {mode}")
        self._projection, self._clip = projection_size, (state_clip_min, state_clip_max)
        self._hidden_size, self._num_layers, self._mode = hidden_size, num_layers, mode
        self._layout, self._dropout = layout, dropout
        self._dir = 2 if bidirectional else 1
        self._input_size, self._dtype = input_size, dtype
        self._use_sequence_length = use_sequence_length
        rows, output = gate_count(mode) * hidden_size, projection_size or hidden_size
        inits = (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                 h2h_bias_initializer, h2r_weight_initializer)
        self._names = _NAMES + (("h2r_weight",) if projection_size else ())
        inputs = input_size
        for layer in range(num_layers):
            for side in "lr"[:self._dir]:
                shapes = ((rows, inputs), (rows, output), (rows,), (rows,),
                          (projection_size, hidden_size))
                for name, shape, init in zip(self._names, shapes, inits):
                    full = f"{side}{layer}_{name}"
                    setattr(self, full, self.params.get(full, shape=shape, init=init, dtype=dtype,
                                                        allow_deferred_init=True))
            inputs = output * self._dir

    def __repr__(self):
        text = f"{type(self).__name__}({self._input_size or None} -> {self._hidden_size}, "
        text += self._layout
        if self._num_layers != 1:
            text += f", num_layers={self._num_layers}"
        if self._dropout:
            text += f", dropout={self._dropout}"
        return text + (", bidirectional)" if self._dir == 2 else ")")

    def infer_shape(self, x, *args):
        inputs = x.shape[2]
        rows = gate_count(self._mode) * self._hidden_size
        for side in "lr"[:self._dir]:
            getattr(self, f"{side}0_i2h_weight").shape = (rows, inputs)

    def unfuse(self):
        """A stack of cells that has this layer's parameters."""
        from lockstep.mxnet.gluon.rnn import rnn_cell

        if self._projection:
            raise NotImplementedError("unfuse: cells have no projection")
        activation = {"rnn_tanh": {"activation": "tanh"}, "rnn_relu": {"activation": "relu"}}
        kind = {"lstm": rnn_cell.LSTMCell, "gru": rnn_cell.GRUCell}.get(self._mode,
                                                                       rnn_cell.RNNCell)
        options = activation.get(self._mode, {})
        stack = rnn_cell.SequentialRNNCell(prefix=self.prefix, params=self.params)
        inputs = self._input_size
        with stack.name_scope():
            for layer in range(self._num_layers):
                cells = [kind(self._hidden_size, input_size=inputs, prefix=f"{side}{layer}_",
                              **options) for side in "lr"[:self._dir]]
                stack.add(cells[0] if self._dir == 1 else rnn_cell.BidirectionalCell(*cells))
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(rnn_cell.DropoutCell(self._dropout))
                inputs = self._hidden_size * self._dir
        return stack

    _unfuse = unfuse

    def state_info(self, batch_size=0):
        """The states' shapes."""
        sizes = (self._projection or self._hidden_size, self._hidden_size)
        return [{"shape": (self._num_layers * self._dir, batch_size, size), "__layout__": "LNC",
                 "dtype": self._dtype} for size in sizes[:2 if self._mode == "lstm" else 1]]

    def begin_state(self, batch_size=0, func=None, **kwargs):
        """States to begin with: zeros, or what func makes."""
        from lockstep.mxnet import ndarray

        func = ndarray.zeros if func is None else func
        states = []
        for info in self.state_info(batch_size):
            given = {key: value for key, value in info.items() if key != "__layout__"}
            states.append(func(**{**given, **kwargs}))
        return states

    def __call__(self, inputs, states=None, sequence_length=None, **kwargs):
        args = [] if states is None else [states]
        if self._use_sequence_length:
            args = [states, sequence_length]
        if states is not None and not isinstance(states, (list, tuple)):
            args[0] = [states]
        return super().__call__(inputs, *args)

    def hybrid_forward(self, F, inputs, states=None, sequence_length=None, **own):  # noqa: N803
        if not isinstance(inputs, NDArray):
            return self._symbolic(F, inputs, states, sequence_length, own)
        gives_states = states is not None
        x = inputs._tensor
        if self._layout == "NTC":
            x = _core.swap_axes(x, 0, 1)
        hidden = self._start(x, states)
        weights = [tuple(own[f"{side}{layer}_{name}"]._tensor for name in self._names)
                   for layer in range(self._num_layers) for side in "lr"[:self._dir]]
        lengths = None if sequence_length is None else ops.cast(sequence_length._tensor, "int64")
        y, last = run_rnn(x, hidden, weights, self._mode, self._num_layers, self._dir,
                          float(self._dropout), lengths, clip_of(*self._clip))
        if self._layout == "NTC":
            y = _core.swap_axes(y, 0, 1)
        kind = inputs._out
        return (kind(y), [kind(s) for s in last]) if gives_states else kind(y)

    def _start(self, x, states):
        batch = x.shape[1]
        if states is None:
            return [ops.full(info["shape"], 0.0, x.dtype, x.device)
                    for info in self.state_info(batch)]
        states = list(states) if isinstance(states, (list, tuple)) else [states]
        for state, info in zip(states, self.state_info(batch)):
            if state.shape != info["shape"]:
                raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got "
                                 f"{state.shape}.")
        return [s._tensor for s in states]

    def _symbolic(self, F, inputs, states, sequence_length, own):  # noqa: N803
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, dim1=0, dim2=1)
        parts = [F.reshape(own[f"{side}{layer}_{name}_{kind}"], shape=(-1,))
                 for kind in ("weight", "bias") for layer in range(self._num_layers)
                 for side in "lr"[:self._dir] for name in ("i2h", "h2h", "h2r")
                 if f"{name}_{kind}" in self._names]
        first = self.begin_state(0, func=F.zeros) if states is None else states
        lengths = [] if sequence_length is None else [sequence_length]
        y, *last = F.RNN(inputs, F.concat(*parts, dim=0), *first, *lengths,
                         state_size=self._hidden_size, num_layers=self._num_layers,
                         bidirectional=self._dir == 2, p=self._dropout, mode=self._mode,
                         state_outputs=True, projection_size=self._projection,
                         use_sequence_length=bool(lengths), lstm_state_clip_min=self._clip[0],
                         lstm_state_clip_max=self._clip[1])
        y = F.swapaxes(y, dim1=0, dim2=1) if self._layout == "NTC" else y
        return y if states is None else (y, last)


class RNN(_Layer):
    """Plain recurrent layers with relu or tanh."""

    def __init__(self, hidden_size, num_layers=1, activation="relu", layout="TNC", dropout=0,
                 bidirectional=False, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, f"rnn_{activation}", **kwargs)


class LSTM(_Layer):
    """Long short-term memory."""

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False,
                 input_size=0, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "lstm", **kwargs)


class GRU(_Layer):
    """Gated recurrent units."""

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False,
                 input_size=0, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "gru", **kwargs)
