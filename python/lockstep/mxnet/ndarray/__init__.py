# SPDX-License-Identifier: Apache-2.0
"""mx.nd: arrays, and every op by MXNet's name."""

from lockstep.mxnet.ndarray import registry
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray import (ops_elementwise, ops_reduce, ops_shape, ops_nn,  # noqa: F401
                                    ops_rnn, ops_boxes, ops_loss, ops_update)
from lockstep.mxnet.ndarray import creation
from lockstep.mxnet.ndarray.creation import *  # noqa: F401,F403
from lockstep.mxnet.ndarray import random, linalg, sparse, contrib, image
from lockstep.mxnet.ndarray.sparse import CSRNDArray, RowSparseNDArray, cast_storage
from lockstep.mxnet.ndarray.methods import complete as _complete
from lockstep.mxnet.base import missing_name as _missing_name

_op = registry.op
_HINTS = {
    "uint8": "give a dtype by name, dtype='uint8'",
    "float32": "give a dtype by name, dtype='float32'",
    "int32": "give a dtype by name, dtype='int32'",
    "tensor": "write mx.nd.array(...)",
}

for _name in registry.op_names():
    if not _name.startswith("_"):
        globals().setdefault(_name, _op(_name))
uniform, normal, multinomial = random.uniform, random.normal, random.multinomial
_complete(NDArray)


class _Internal:
    """Ops whose names begin with an underscore: nd._internal._plus_scalar."""

    def __getattr__(self, name):
        return _op(name)


_internal = _Internal()
op = _internal

__all__ = ["CSRNDArray", "NDArray", "RowSparseNDArray", "cast_storage", "contrib", "image",
           "linalg", "random", "sparse", *creation.__all__,
           *[name for name in registry.op_names() if name[0] != "_"]]


def __getattr__(name):
    if name in ("np", "npx"):
        from lockstep.mxnet import numpy, numpy_extension

        return numpy if name == "np" else numpy_extension
    if name.startswith("_") and not name.startswith("__"):
        try:
            return _op(name)
        except Exception:
            raise AttributeError(name) from None
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "Custom":
        return _op(name)
    raise _missing_name("mxnet.nd", name, [key for key in globals() if key[0] != "_"], _HINTS)
