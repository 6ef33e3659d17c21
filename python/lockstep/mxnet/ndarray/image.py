# SPDX-License-Identifier: Apache-2.0
"""mx.nd.image: pictures [H, W, C], and what training does to them."""

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.ndarray import ops_image  # noqa: F401 - its ops are in the table from then on
from lockstep.mxnet.ndarray.registry import op

_NAMES = ("adjust_lighting", "crop", "flip_left_right", "flip_top_bottom", "normalize",
          "random_brightness", "random_color_jitter", "random_contrast", "random_flip_left_right",
          "random_flip_top_bottom", "random_hue", "random_lighting", "random_saturation", "resize",
          "to_tensor")
for _name in _NAMES:
    globals()[_name] = op(f"_image_{_name}")

__all__ = list(_NAMES)
__getattr__ = attributes_of(globals())
