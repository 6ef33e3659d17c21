# SPDX-License-Identifier: Apache-2.0
"""mx.contrib.ndarray: the ops of mx.nd.contrib."""

from lockstep.mxnet.ndarray import contrib as _family


def __getattr__(name):
    return getattr(_family, name)
