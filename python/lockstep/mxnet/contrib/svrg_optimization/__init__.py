# SPDX-License-Identifier: Apache-2.0
"""contrib.svrg_optimization: gradients of batches with less variance."""

from lockstep.mxnet.contrib.svrg_optimization import svrg_module
from lockstep.mxnet.contrib.svrg_optimization.svrg_module import SVRGModule

__all__ = ["SVRGModule", "svrg_module"]
