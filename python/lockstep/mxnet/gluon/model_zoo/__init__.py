# SPDX-License-Identifier: Apache-2.0
"""gluon.model_zoo: known architectures."""

from lockstep.mxnet.gluon.model_zoo import model_store, vision
from lockstep.mxnet.gluon.model_zoo.vision import get_model

__all__ = ["get_model", "model_store", "vision"]
