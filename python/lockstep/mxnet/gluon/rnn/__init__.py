# SPDX-License-Identifier: Apache-2.0
"""gluon.rnn: recurrent layers and cells."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.rnn import rnn_cell, rnn_layer
from lockstep.mxnet.gluon.rnn.rnn_cell import *  # noqa: F401,F403
from lockstep.mxnet.gluon.rnn.rnn_layer import *  # noqa: F401,F403

__all__ = [*rnn_cell.__all__, *rnn_layer.__all__]
__getattr__ = attributes_of(globals())
