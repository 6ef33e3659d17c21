# SPDX-License-Identifier: Apache-2.0
"""gluon.data.vision: sets of pictures, and transforms."""

import importlib

from lockstep.mxnet.base import missing_name as _missing_name
from lockstep.mxnet.gluon.data.vision import datasets
from lockstep.mxnet.gluon.data.vision.datasets import *  # noqa: F401,F403

__all__ = [*datasets.__all__, "transforms"]


def __getattr__(name):
    if name == "transforms":
        return importlib.import_module(f"{__name__}.transforms")
    if name.startswith("__"):
        raise AttributeError(name)
    raise _missing_name("mxnet.gluon.data.vision", name, __all__)
