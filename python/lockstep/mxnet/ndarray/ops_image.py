# SPDX-License-Identifier: Apache-2.0
"""Pictures [H, W, C] of 0 to 255, or batches of them, and what training does to them."""

import numpy as np

from lockstep import _core, ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import MXNetError, as_pair
from lockstep.mxnet.ndarray.registry import register

_GREY = np.array([0.299, 0.587, 0.114], dtype="float32")
_VALUES = np.array([55.46, 4.794, 1.148], dtype="float32")
_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                     [-0.5836, -0.6948, 0.4203]], dtype="float32")


def as_floats(picture):
    """What is computed with."""
    return ops.cast(picture, "float32")


def as_before(picture, changed):
    """In the picture's own dtype, within its range."""
    if picture.dtype.name == "uint8":
        changed = ops.clip(changed, 0.0, 255.0)
    return ops.cast(changed, picture.dtype)


def grey(x):
    """[..., 1] of [..., 3]; of one channel itself."""
    return x if x.shape[-1] == 1 else ops.sum(x * _GREY, (-1,), True)


def contrasted(x, factor):
    """Nearer to, or further from, the mean grey of each picture."""
    return x * factor + ops.mean(grey(x), (-3, -2, -1), True) * (1 - factor)


def saturated(x, factor):
    """Nearer to, or further from, grey."""
    return x * factor + grey(x) * (1 - factor)


def hue_turned(x, turns):
    """Colours turned around the circle of hues, lightness and saturation kept."""
    if x.shape[-1] == 1:
        return x
    high, low = ops.max(x, (-1,), True), ops.min(x, (-1,), True)
    r, g, b = x[..., 0:1], x[..., 1:2], x[..., 2:3]
    spread = high - low
    divisor = ops.where(spread > 0, spread, 1.0)
    sextant = ops.where(ops.equal(high, r), (g - b) / divisor, ops.where(
        ops.equal(high, g), (b - r) / divisor + 2.0, (r - g) / divisor + 4.0))
    places = ops.remainder(2.0 * sextant + 12.0 * turns + np.array([0, 8, 4], "float32"), 12.0)
    waves = ops.clip(ops.minimum(places - 3.0, 9.0 - places), -1.0, 1.0)
    return (high + low - spread * waves) * 0.5


def lit(x, alpha):
    """Moved along the colours' main directions, by three numbers."""
    return x if x.shape[-1] == 1 else x + ops.sum(alpha * (_VECTORS * _VALUES), (-1,))


def _register(name, window=False):
    return register(f"_image_{name}", f"_npx__image_{name}", window=window)


@_register("to_tensor")
def to_tensor(data):
    """[H, W, C] of 0 to 255 as float32 [C, H, W] of 0 to 1; batches too."""
    order = (2, 0, 1) if data.ndim == 3 else (0, 3, 1, 2)
    return as_floats(ops.transpose(data, order)) * (1.0 / 255.0)


def _channels(value):
    value = np.asarray(value, dtype="float32")
    return float(value) if value.ndim == 0 else value.reshape(-1, 1, 1)


@_register("normalize")
def normalize(data, mean=0.0, std=1.0):
    """(x - mean) / std of each channel of [C, H, W]; batches too."""
    return (data - _channels(mean)) / _channels(std)


@_register("crop", window=True)
def crop(data, x, y, width, height):
    """The window at (x, y)."""
    rows, columns = data.shape[-3:-1]
    if x < 0 or y < 0 or x + width > columns or y + height > rows:
        raise MXNetError(f"image.crop: {width} x {height} at ({x}, {y}) is not inside of a picture "
                         f"of {columns} x {rows}")
    return data[..., y:y + height, x:x + width, :]


@_register("resize")
def resize(data, size=(), keep_ratio=False, interp=1):
    """Another size (width, height), or another shorter side; batches too."""
    from lockstep.mxnet import image

    rows, columns = data.shape[-3:-1]
    size = size if isinstance(size, int) or len(size) > 1 else size[0]
    width, height = as_pair(size, 2, 1)
    if isinstance(size, int) and keep_ratio:
        height, width = image._short(rows, columns, size)
    pictures = data.detach().numpy().reshape((-1,) + data.shape[-3:])
    made = np.stack([image._resize(picture, width, height, interp) for picture in pictures])
    return _core.Tensor(made.reshape(data.shape[:-3] + made.shape[1:])).to(data.device)


def _flip(axis):
    def call(data):
        """Mirrored."""
        return ops.flip(data, (axis,))

    def by_chance(data):
        """Mirrored, by chance."""
        heads = _random_state.draw(ops.uniform, data, shape=(1,)) < 0.5
        return ops.where(heads, data, ops.flip(data, (axis,)))

    return call, by_chance


for _name, _axis in (("flip_left_right", -2), ("flip_top_bottom", -3)):
    _call, _by_chance = _flip(_axis)
    _register(_name, window=True)(_call)
    _register(f"random_{_name}")(_by_chance)


def _between(data, low, high):
    return _random_state.draw(ops.uniform, data, shape=(1,), low=float(low), high=float(high))


_CHANGES = {"brightness": lambda x, factor: x * factor, "contrast": contrasted,
            "saturation": saturated, "hue": hue_turned}


def _by_factor(change):
    def call(data, min_factor, max_factor):
        """Changed by a random factor."""
        return as_before(data, change(as_floats(data), _between(data, min_factor, max_factor)))

    return call


for _name, _change in _CHANGES.items():
    _register(f"random_{_name}")(_by_factor(_change))


@_register("random_color_jitter")
def random_color_jitter(data, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0):
    """Brightness, contrast, saturation and hue in random order; in the order given in a trace."""
    limits = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    names = [name for name, limit in limits.items() if limit > 0]
    if not data.is_symbolic:
        names = [names[i] for i in _random_state.generator().permutation(len(names))]
    made = data
    for name in names:
        middle = 0.0 if name == "hue" else 1.0
        factor = _between(data, middle - limits[name], middle + limits[name])
        made = as_before(data, _CHANGES[name](as_floats(made), factor))
    return made if names else data + 0


@_register("adjust_lighting")
def adjust_lighting(data, alpha):
    """Colours moved along their main directions."""
    return as_before(data, lit(as_floats(data), np.asarray(alpha, dtype="float32")))


@_register("random_lighting")
def random_lighting(data, alpha_std=0.05):
    """Colours moved along their main directions, by chance."""
    alpha = _random_state.draw(ops.normal, data, shape=(3,), stddev=float(alpha_std))
    return as_before(data, lit(as_floats(data), alpha))
