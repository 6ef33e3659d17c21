# SPDX-License-Identifier: Apache-2.0
"""mx.optimizer: update rules."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.optimizer import optimizer, rules
from lockstep.mxnet.optimizer.optimizer import (Optimizer, Updater, create, get_updater, register)
from lockstep.mxnet.optimizer.rules import *  # noqa: F401,F403

opt = optimizer
__all__ = ["Optimizer", "Updater", "create", "get_updater", "register", *rules.__all__]
__getattr__ = attributes_of(globals())
