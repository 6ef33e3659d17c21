# SPDX-License-Identifier: Apache-2.0
"""mx.contrib: text, mixed precision, iterators of data loaders, and the ops of that name."""

from lockstep.mxnet.contrib import amp, io, ndarray, svrg_optimization, symbol, tensorboard, text

nd, sym = ndarray, symbol

__all__ = ["amp", "io", "nd", "ndarray", "svrg_optimization", "sym", "symbol",
           "tensorboard", "text"]

_NOT_HERE = {
    "quantization": "nets are not quantized here",
    "onnx": "ONNX files are neither read nor written here; `lockstep convert` has safetensors",
    "tensorrt": "there is no TensorRT",
    "autograd": "mx.autograd has record and backward",
}


def __getattr__(name):
    if name in _NOT_HERE:
        raise AttributeError(f"'mxnet.contrib.{name}' is not in lockstep.mxnet: {_NOT_HERE[name]}")
    raise AttributeError(f"'mxnet.contrib.{name}' is not in lockstep.mxnet")
