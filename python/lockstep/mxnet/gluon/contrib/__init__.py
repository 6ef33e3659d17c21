# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib: what was on its way into Gluon."""

from lockstep.mxnet.gluon.contrib import data, estimator, nn, rnn

__all__ = ["data", "estimator", "nn", "rnn"]
