# SPDX-License-Identifier: Apache-2.0
"""mx.gluon: blocks, losses, data and the Trainer."""

import importlib

from lockstep.mxnet.base import missing_name as _missing_name
from lockstep.mxnet.gluon.parameter import (Constant, DeferredInitializationError, Parameter,
                                            ParameterDict)
from lockstep.mxnet.gluon.block import Block, HybridBlock, SymbolBlock
from lockstep.mxnet.gluon import loss, nn, utils
from lockstep.mxnet.gluon.trainer import Trainer

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
           "ParameterDict", "SymbolBlock", "Trainer", "contrib", "data", "loss", "model_zoo", "nn",
           "rnn", "utils"]
_LATER = ("contrib", "data", "model_zoo", "rnn")
_HINTS = {
    "optimizers": "write gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1}) and "
                  "trainer.step(batch_size)",
    "model": "write gluon.nn.Sequential(); gluon.model_zoo has known architectures",
    "metric": "in MXNet 1.9 it is mx.metric",
}


def __getattr__(name):
    if name in _LATER:
        module = importlib.import_module(f"{__name__}.{name}")
        globals()[name] = module
        return module
    if name == "metric":
        from lockstep.mxnet import metric

        return metric
    if name.startswith("__"):
        raise AttributeError(name)
    raise _missing_name("mxnet.gluon", name, __all__, _HINTS)
