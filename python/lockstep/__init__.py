# SPDX-License-Identifier: Apache-2.0
"""Lockstep: deep learning on one machine or many, with the same bits on any number of workers.

>>> import lockstep as ls
>>> x = ls.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> (x @ x + 1).sum().item()
58.0
"""

from lockstep import dtypes, errors
from lockstep import _core
from lockstep._core import (Device, Job, Tensor, __version__, compile, cpu, from_dlpack, join_job,
                            memory_stats, random_key)
from lockstep.dtypes import (DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32,
                             int64, uint8)
from lockstep.errors import *  # noqa: F401,F403
from lockstep import ops
from lockstep.ops import *  # noqa: F401,F403
from lockstep.functions import *  # noqa: F401,F403
from lockstep._convert import asarray, from_numpy, tensor
from lockstep import _tensor, autograd, random
from lockstep import data, graph, io, kvstore, metrics, nn, optim, recipes, train
from lockstep.io import load as load_arrays, save
from lockstep.recipes import load
from lockstep.train import Trainer

_tensor.complete()
