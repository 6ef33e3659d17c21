# SPDX-License-Identifier: Apache-2.0
"""mx.contrib.symbol: the ops of mx.sym.contrib."""

from lockstep.mxnet.symbol import contrib as _family


def __getattr__(name):
    return getattr(_family, name)
