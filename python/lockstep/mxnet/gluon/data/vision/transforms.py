# SPDX-License-Identifier: Apache-2.0
"""Changes of pictures: [H, W, C] of bytes, before ToTensor makes [C, H, W] of floats."""

import random

import numpy as np

from lockstep import ops
from lockstep.mxnet import image
from lockstep.mxnet.base import as_pair, attributes_of, dtype_name
from lockstep.mxnet.gluon.block import Block, HybridBlock
from lockstep.mxnet.gluon.nn import HybridSequential, Sequential
from lockstep.mxnet.ndarray import ops_image
from lockstep.mxnet.ndarray.memory import apart
from lockstep.mxnet.ndarray.ndarray import NDArray, to_tensor

__all__ = ["Cast", "CenterCrop", "Compose", "CropResize", "HybridCompose", "HybridRandomApply",
           "Normalize", "RandomApply", "RandomBrightness", "RandomColorJitter", "RandomContrast",
           "RandomCrop", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomGray", "RandomHue",
           "RandomLighting", "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize",
           "Rotate", "ToTensor"]


class Compose(Sequential):
    """Transforms one after the other."""

    def __init__(self, transforms):
        super().__init__()
        for transform in transforms:
            self.add(transform if isinstance(transform, Block) else _Function(transform))


class _Function(Block):
    """A plain function as a transform."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, x):
        return self._function(x)


class HybridCompose(HybridSequential):
    """Transforms one after the other."""

    def __init__(self, transforms):
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"{transform} is not a HybridBlock, try use `Compose` instead")
            self.add(transform)


class _Transform(HybridBlock):
    """One array in, one out."""

    def __call__(self, x, *rest):
        if not isinstance(x, NDArray):
            x = NDArray(to_tensor(x, np.asarray(x).dtype.name))
        made = self.forward(x)
        return (made, *rest) if rest else made


class Cast(_Transform):
    """Another dtype."""

    def __init__(self, dtype="float32"):
        super().__init__()
        self._dtype = dtype_name(dtype)

    def forward(self, x):
        return x._out(ops.cast(x._tensor, self._dtype))


class ToTensor(_Transform):
    """[H, W, C] of 0 to 255 as float32 [C, H, W] of 0 to 1; batches too."""

    def forward(self, x):
        return x._out(ops_image.to_tensor(x._tensor))


class Normalize(_Transform):
    """(x - mean) / std of each channel of [C, H, W]; batches too."""

    def __init__(self, mean=0.0, std=1.0):
        super().__init__()
        self._mean, self._std = mean, std

    def forward(self, x):
        return x._out(ops_image.normalize(x._tensor, self._mean, self._std))


class Resize(_Transform):
    """Another size (width, height), or another shorter side; batches too."""

    def __init__(self, size, keep_ratio=False, interpolation=1):
        super().__init__()
        self._arguments = size, keep_ratio, interpolation

    def forward(self, x):
        return x._out(ops_image.resize(x._tensor, *self._arguments))


class CenterCrop(_Transform):
    """The middle."""

    def __init__(self, size, interpolation=1):
        super().__init__()
        self._size, self._interpolation = as_pair(size, 2, 1), interpolation

    def forward(self, x):
        return image.center_crop(x, self._size, self._interpolation)[0]


class CropResize(_Transform):
    """A part, in another size; batches too."""

    def __init__(self, x, y, width, height, size=None, interpolation=None):
        super().__init__()
        self._box, self._size, self._interpolation = (x, y, width, height), size, interpolation

    def forward(self, x):
        made = ops_image.crop(x._tensor, *self._box)
        if self._size is None:
            return x._out(apart(made))
        return x._out(ops_image.resize(made, self._size, False, self._interpolation or 1))


class RandomCrop(_Transform):
    """A part by chance, after a margin was added."""

    def __init__(self, size, pad=None, pad_value=0, interpolation=1):
        super().__init__()
        self._size, self._pad, self._value = as_pair(size, 2, 1), pad, pad_value
        self._interpolation = interpolation

    def forward(self, x):
        if self._pad:
            p = as_pair(self._pad, 2, 0)
            x = x._out(ops.pad(x._tensor, (p[0], p[0], p[1], p[1], 0, 0), float(self._value)))
        return image.random_crop(x, self._size, self._interpolation)[0]


class RandomResizedCrop(_Transform):
    """A part of random size and shape, in a given size."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4.0, 4.0 / 3.0), interpolation=1,
                 max_trial=10):
        super().__init__()
        self._size, self._scale, self._ratio = as_pair(size, 2, 1), scale, ratio
        self._interpolation = interpolation

    def forward(self, x):
        area = self._scale if isinstance(self._scale, tuple) else (self._scale, 1.0)
        return image.random_size_crop(x, self._size, area, self._ratio, self._interpolation)[0]


class _RandomFlip(_Transform):
    """Mirrored, by chance."""

    _axis = 1

    def __init__(self, p=0.5):
        super().__init__()
        self._p = p

    def forward(self, x):
        if random.random() >= self._p:
            return x
        axis = self._axis if x.ndim == 3 else self._axis + 1
        return x._out(ops.flip(x._tensor, (axis,)))


class RandomFlipLeftRight(_RandomFlip):
    """Left and right exchanged, by chance."""


class RandomFlipTopBottom(_RandomFlip):
    """Top and bottom exchanged, by chance."""

    _axis = 0


def _changed(x, change, *arguments):
    """change(x, ...) in the picture's own dtype."""
    tensor = x._tensor
    return x._out(ops_image.as_before(tensor, change(ops_image.as_floats(tensor), *arguments)))


class _Jitter(_Transform):
    """A factor from 1 - limit to 1 + limit."""

    def __init__(self, limit):
        super().__init__()
        self._limits = limit if isinstance(limit, (tuple, list)) else (max(0, 1 - limit), 1 + limit)

    def _factor(self):
        return random.uniform(*self._limits)

    def forward(self, x):
        return _changed(x, self._change, self._factor())


class RandomBrightness(_Jitter):
    """Brighter or darker."""

    def __init__(self, brightness):
        super().__init__(brightness)

    def _change(self, x, factor):
        return x * factor


class RandomContrast(_Jitter):
    """Nearer to, or further from, the mean grey."""

    def __init__(self, contrast):
        super().__init__(contrast)

    _change = staticmethod(ops_image.contrasted)


class RandomSaturation(_Jitter):
    """Nearer to, or further from, grey."""

    def __init__(self, saturation):
        super().__init__(saturation)

    _change = staticmethod(ops_image.saturated)


class RandomHue(_Jitter):
    """Colours turned around the circle."""

    def __init__(self, hue):
        super().__init__(hue)

    _change = staticmethod(ops_image.hue_turned)


class RandomColorJitter(_Transform):
    """Brightness, contrast, saturation and hue in random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        wanted = ((RandomBrightness, brightness), (RandomContrast, contrast),
                  (RandomSaturation, saturation), (RandomHue, hue))
        self._parts = [kind(limit) for kind, limit in wanted if limit]

    def forward(self, x):
        for part in random.sample(self._parts, len(self._parts)):
            x = part(x)
        return x


class RandomLighting(_Transform):
    """Noise along the colours' main directions."""

    def __init__(self, alpha):
        super().__init__()
        self._alpha = alpha

    def forward(self, x):
        alphas = np.array([random.gauss(0, self._alpha) for _ in range(3)], dtype="float32")
        return _changed(x, ops_image.lit, alphas)


class RandomGray(_Transform):
    """Grey, by chance."""

    def __init__(self, p=0.5):
        super().__init__()
        self._p = p

    def forward(self, x):
        if random.random() >= self._p:
            return x
        return _changed(x, lambda tensor: apart(ops.expand(ops_image.grey(tensor), x.shape)))


class Rotate(_Transform):
    """Turned by an angle; [C, H, W] of floats."""

    def __init__(self, rotation_degrees, zoom_in=False, zoom_out=False):
        super().__init__()
        self._degrees, self._zoom = rotation_degrees, (zoom_in, zoom_out)

    def forward(self, x):
        return image.imrotate(x, self._degrees, *self._zoom)


class RandomRotation(_Transform):
    """Turned by a random angle; [C, H, W] of floats."""

    def __init__(self, angle_limits, zoom_in=False, zoom_out=False, rotate_with_proba=1.0):
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._limits, self._zoom, self._p = angle_limits, (zoom_in, zoom_out), rotate_with_proba

    def forward(self, x):
        if random.random() > self._p:
            return x
        return image.imrotate(x, random.uniform(*self._limits), *self._zoom)


class RandomApply(Sequential):
    """A transform, by chance."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, x):
        return x if random.random() >= self.p else self.transforms(x)


class HybridRandomApply(_Transform):
    """A transform, by chance."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self._p = transforms, p

    def forward(self, x):
        return x if random.random() >= self._p else self.transforms(x)


__getattr__ = attributes_of(globals())
