# SPDX-License-Identifier: Apache-2.0
"""gluon.data: data sets, samplers and the DataLoader."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.data import batchify, dataloader, dataset, sampler
from lockstep.mxnet.gluon.data.dataloader import *  # noqa: F401,F403
from lockstep.mxnet.gluon.data.dataset import *  # noqa: F401,F403
from lockstep.mxnet.gluon.data.sampler import *  # noqa: F401,F403
from lockstep.mxnet.gluon.data import vision

__all__ = ["batchify", "vision", *dataloader.__all__, *dataset.__all__, *sampler.__all__]
__getattr__ = attributes_of(globals(), {
    "text": "write mx.contrib.text.utils and mx.contrib.text.vocab, or use gluonnlp",
})
