# SPDX-License-Identifier: Apache-2.0
"""gluon.nn: layers."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.block import Block, HybridBlock, SymbolBlock
from lockstep.mxnet.gluon.nn import activations, basic_layers, conv_layers
from lockstep.mxnet.gluon.nn.activations import *  # noqa: F401,F403
from lockstep.mxnet.gluon.nn.basic_layers import *  # noqa: F401,F403
from lockstep.mxnet.gluon.nn.conv_layers import *  # noqa: F401,F403

__all__ = ["Block", "HybridBlock", "SymbolBlock", *activations.__all__, *basic_layers.__all__,
           *conv_layers.__all__]
__getattr__ = attributes_of(globals(), {
    "ReLU": "write gluon.nn.Activation('relu')",
    "Sigmoid": "write gluon.nn.Activation('sigmoid')",
    "Tanh": "write gluon.nn.Activation('tanh')",
    "Softmax": "the loss applies log-softmax; for probabilities write mx.nd.softmax(x)",
    "MaxPooling2D": "write gluon.nn.MaxPool2D(pool_size, strides)",
    "AveragePooling2D": "write gluon.nn.AvgPool2D(pool_size, strides)",
    "Linear": "write gluon.nn.Dense(units)",
    "LSTM": "write gluon.rnn.LSTM(hidden_size); its layout is TNC and it takes no activation",
    "GRU": "write gluon.rnn.GRU(hidden_size)",
    "RNN": "write gluon.rnn.RNN(hidden_size)",
    "parallel": "nothing is needed: trainer.step adds the gradients of all devices and workers; "
                "gluon.contrib.nn.SyncBatchNorm is what shares statistics",
    "Module": "derive from gluon.nn.Block or gluon.nn.HybridBlock",
})
