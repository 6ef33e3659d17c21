# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib: what was on its way into Gluon."""

from lockstep.mxnet.gluon.contrib import data, nn, rnn

__all__ = ["data", "nn", "rnn"]
