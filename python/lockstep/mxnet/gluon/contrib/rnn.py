# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.rnn: cells that became gluon.rnn's."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.rnn import VariationalDropoutCell

__all__ = ["VariationalDropoutCell"]
__getattr__ = attributes_of(globals())
