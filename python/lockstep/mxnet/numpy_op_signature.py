# SPDX-License-Identifier: Apache-2.0
"""Ops by the names that MXNet's registry has for those of mx.np: '_np_sum' is mx.np.sum."""

from lockstep.mxnet import numpy, numpy_extension
from lockstep.mxnet.ndarray import registry

_PREFIXES = (("_npx_", numpy_extension), ("_np_", numpy), ("_npi_", numpy))


def _get_builtin_op(op_name):
    """The function of an op, or None."""
    for prefix, module in _PREFIXES:
        if op_name.startswith(prefix):
            return getattr(module, op_name[len(prefix):], None)
    return registry.op(op_name) if op_name in registry.op_names() else None
