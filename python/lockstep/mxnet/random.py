# SPDX-License-Identifier: Apache-2.0
"""mx.random: the seed, and random arrays."""

from lockstep.mxnet import _random_state
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.ndarray.random import *  # noqa: F401,F403
from lockstep.mxnet.ndarray import random as _nd_random

__all__ = ["seed", *_nd_random.__all__]


def seed(seed_state, ctx="all"):
    """Begins the sequence of draws anew."""
    _random_state.seed(int(seed_state))


__getattr__ = attributes_of(globals())
