# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as ops: the engine's, and LSTMs whose output is projected or clipped."""

from lockstep import _core, functions, ops
from lockstep.mxnet.ndarray.ops_nn import dropout
from lockstep.mxnet.ndarray.registry import register


def gate_count(mode):
    """How many blocks of rows a weight has."""
    return {"lstm": 4, "gru": 3}.get(mode, 1)


def _flat_shapes(mode, inputs, hidden, layers, directions, projection):
    """The shapes of a layer's and direction's weights, in the order of the flat array."""
    rows, output = gate_count(mode) * hidden, projection or hidden
    for layer in range(layers):
        width = inputs if layer == 0 else output * directions
        for _ in range(directions):
            shapes = [(rows, width), (rows, output)]
            yield shapes + [(projection, hidden)] if projection else shapes


def flat_size(mode, inputs, hidden, layers, directions, projection=None):
    """How many parameters the flat array has."""
    return sum(sum(a * b for a, b in shapes) + 2 * shapes[0][0]
               for shapes in _flat_shapes(mode, inputs, hidden, layers, directions, projection))


def unpack_rnn(parameters, mode, inputs, hidden, layers, directions, projection=None):
    """(w_input, w_hidden, b_input, b_hidden[, w_projection]) of each layer and direction."""
    sizes = list(_flat_shapes(mode, inputs, hidden, layers, directions, projection))
    place, weights, made = 0, [], []
    for shapes in sizes:
        weights.append([])
        for shape in shapes:
            count = shape[0] * shape[1]
            weights[-1].append(ops.reshape(parameters[place:place + count], shape))
            place += count
    for shapes, (w_input, w_hidden, *projected) in zip(sizes, weights):
        rows = shapes[0][0]
        made.append((w_input, w_hidden, parameters[place:place + rows],
                     parameters[place + rows:place + 2 * rows], *projected))
        place += 2 * rows
    return made


def _lstm_by_steps(x, h, c, weights, reverse, lengths, clip):
    """An LSTM whose cells are clipped and whose outputs are projected, where that is wanted."""
    w_input, w_hidden, b_input, b_hidden, *projected = weights
    gates = ops.dense(x, w_input, b_input, False)
    outputs = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        i, f, g, o = functions.split(gates[t] + ops.dense(h, w_hidden, b_hidden), 4, 1)
        cell = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        if clip is not None:
            cell = ops.clip(cell, *clip)
        output = ops.sigmoid(o) * ops.tanh(cell)
        if projected:
            output = ops.dense(output, projected[0])
        if lengths is None:
            h, c, outputs[t] = output, cell, output
            continue
        # Behind its end a sequence keeps its states and gives zeros.
        live = ops.cast(ops.reshape(lengths > t, (-1, 1)), x.dtype)
        h, c = output * live + h * (1 - live), cell * live + c * (1 - live)
        outputs[t] = output * live
    return _core.stack(outputs, 0), h, c


def _layer(x, states, place, weights, mode, reverse, lengths, clip):
    """(outputs, last state[, last cell]) of one layer and direction."""
    if mode == "lstm" and (len(weights) > 4 or clip is not None):
        return _lstm_by_steps(x, states[0][place], states[1][place], weights, reverse, lengths,
                              clip)
    w_input, w_hidden, b_input, b_hidden = weights
    given = {"x": x, "h0": states[0][place], "mode": mode, "reverse": reverse}
    if mode == "lstm":
        given["c0"] = states[1][place]
    if lengths is not None:
        given["lengths"], given["with_lengths"] = lengths, True
    y, *last = ops.rnn_layer(w_input=w_input, w_hidden=w_hidden, b_input=b_input,
                             b_hidden=b_hidden, **given)
    # The engine's op repeats a sequence's last output behind its end.
    return y if lengths is None else _zero_behind(y, lengths), *last


def _zero_behind(y, lengths):
    steps = ops.reshape(ops.arange(0, y.shape[0], 1, "int64", y.device), (-1, 1, 1))
    return ops.where(steps < ops.reshape(lengths, (1, -1, 1)), y, 0.0)


class _OutputsOfOneOp:
    """Outputs and last states as results of one call on the tape: when backward has used the
    outputs up, the states, which go on to the next batch, are constant too."""

    def __init__(self, count):
        self._count = count

    def forward(self, y, *states):
        n = self._count
        return (y, *[_core.stack(list(states[i:i + n]), 0) for i in range(0, len(states), n)])

    def symbols(self, y, *states):
        """What forward does, of symbols."""
        from lockstep.mxnet import symbol

        n = self._count
        return [y, *[symbol.stack(*states[i:i + n], axis=0) for i in range(0, len(states), n)]]

    def backward(self, dy, *grads):
        return (dy, *[grad[i] for grad in grads for i in range(self._count)])


def run_rnn(x, states, weights, mode, layers, directions, p=0.0, lengths=None, clip=None):
    """All layers of a recurrent net over [T, N, C]: the outputs, and the last states."""
    hidden, cells = [], []
    for layer in range(layers):
        if layer and p and _core.is_training():
            x = dropout(x, p)
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            made = _layer(x, states, place, weights[place], mode, direction == 1, lengths, clip)
            outputs.append(made[0])
            hidden.append(made[1])
            if mode == "lstm":
                cells.append(made[2])
        x = outputs[0] if len(outputs) == 1 else ops.concat(outputs, axis=2)
    function = _OutputsOfOneOp(len(hidden))
    if not _core.is_recording() or x.is_symbolic:
        y, *last = function.forward(x, *hidden, *cells)
    else:
        y, *last = _core._call_function(function, [x, *hidden, *cells])
    return y, last


def clip_of(low, high):
    """The range that cells are clipped to, or None."""
    return None if low is None or high is None else (float(low), float(high))


@register("RNN")
def rnn(data, parameters, state, state_cell=None, sequence_length=None, state_size=None,
        num_layers=1, bidirectional=False, mode="lstm", p=0.0, state_outputs=False,
        projection_size=None, use_sequence_length=False, lstm_state_clip_min=None,
        lstm_state_clip_max=None, lstm_state_clip_nan=False):
    """Recurrent layers with their parameters in one flat array. What has no cells takes lengths in
    the cells' place."""
    directions = 2 if bidirectional else 1
    weights = unpack_rnn(parameters, mode, data.shape[2], int(state_size), int(num_layers),
                         directions, projection_size and int(projection_size))
    if sequence_length is None and mode != "lstm":
        sequence_length = state_cell
    lengths = ops.cast(sequence_length, "int64") if use_sequence_length else None
    y, last = run_rnn(data, [state, state_cell], weights, mode, int(num_layers), directions,
                      float(p), lengths, clip_of(lstm_state_clip_min, lstm_state_clip_max))
    return (y, *last) if state_outputs else y
