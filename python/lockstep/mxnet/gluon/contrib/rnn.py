# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.rnn: cells that became gluon.rnn's, cells on pictures, and an LSTM whose output is
projected."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.contrib import _conv_cells
from lockstep.mxnet.gluon.contrib._conv_cells import *  # noqa: F403 - nine names alike
from lockstep.mxnet.gluon.rnn import VariationalDropoutCell
from lockstep.mxnet.gluon.rnn.rnn_cell import _GatedCell, _module_of

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll", *_conv_cells.__all__]


class LSTMPCell(_GatedCell):
    """An LSTM's step whose hidden state is projected to fewer features; states [r, c]."""

    _gates = 4

    def __init__(self, hidden_size, projection_size, i2h_weight_initializer=None,
                 h2h_weight_initializer=None, h2r_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None):
        self._projection = projection_size
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)
        self.h2r_weight = self.params.get("h2r_weight", shape=(projection_size, hidden_size),
                                          init=h2r_weight_initializer, allow_deferred_init=True)

    def _state_width(self):
        return self._projection

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, size), "__layout__": "NC"}
                for size in (self._projection, self._hidden_size)]

    def hybrid_forward(self, F, inputs, states, h2r_weight, **own):  # noqa: N803
        i2h, h2h = self._products(F, inputs, states, own)
        i, f, g, o = F.split(i2h + h2h, num_outputs=4, axis=-1)
        cell = F.sigmoid(f) * states[1] + F.sigmoid(i) * F.tanh(g)
        output = F.FullyConnected(F.sigmoid(o) * F.tanh(cell), h2r_weight, no_bias=True,
                                  num_hidden=self._projection, name=self._step_name())
        return output, [output, cell]


def dynamic_unroll(cell, inputs, begin_state, drop_inputs=0, drop_outputs=0, layout="TNC",
                   valid_length=None):
    """(outputs, states) of as many steps as the inputs have; a dropout is the same at each."""
    F, axis = _module_of(inputs), layout.index("T")  # noqa: N806 - MXNet's name
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    outputs, states = cell.unroll(inputs.shape[axis], inputs, begin_state, layout, True,
                                  valid_length)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    return outputs, states


__getattr__ = attributes_of(globals())
