# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.estimator: a training loop whose parts are event handlers."""

from lockstep.mxnet.gluon.contrib.estimator import batch_processor, estimator, event_handler
from lockstep.mxnet.gluon.contrib.estimator.batch_processor import *  # noqa: F401,F403
from lockstep.mxnet.gluon.contrib.estimator.estimator import *  # noqa: F401,F403
from lockstep.mxnet.gluon.contrib.estimator.event_handler import *  # noqa: F401,F403

__all__ = [*batch_processor.__all__, *estimator.__all__, *event_handler.__all__]
