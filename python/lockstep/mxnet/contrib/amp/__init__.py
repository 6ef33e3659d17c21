# SPDX-License-Identifier: Apache-2.0
"""Mixed precision; see amp.py."""

from lockstep.mxnet.contrib.amp import amp
from lockstep.mxnet.contrib.amp.amp import (LossScaler, convert_hybrid_block, convert_model,
                                            convert_symbol, init, init_trainer, list_fp32_ops,
                                            list_lp16_ops, scale_loss, unscale)

__all__ = ["LossScaler", "amp", "convert_hybrid_block", "convert_model", "convert_symbol",
           "init", "init_trainer", "list_fp32_ops", "list_lp16_ops", "scale_loss", "unscale"]
