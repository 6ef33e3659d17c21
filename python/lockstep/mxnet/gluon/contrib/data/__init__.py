# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.data."""

from lockstep.mxnet.gluon.contrib.data import text
from lockstep.mxnet.gluon.data.sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
