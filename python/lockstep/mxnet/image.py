# SPDX-License-Identifier: Apache-2.0
"""Images: reading, resizing, cropping, and the changes that training makes to them.

An image is an array [H, W, C] of pixels from 0 to 255, in the order RGB.
"""

import json
import math
import os
import random as _random

import numpy as np

from lockstep import _core
from lockstep._core import data as _data
from lockstep.errors import InvalidArgument, NotFound
from lockstep.mxnet import ndarray as nd

_GREY = np.array([0.299, 0.587, 0.114], np.float32)


def _numpy(src):
    return src.asnumpy() if isinstance(src, nd.NDArray) else np.asarray(src)


def _array(image):
    return nd.array(image, dtype=image.dtype)


def _decode(data, flag, name):
    if not data:
        raise InvalidArgument(f"{name}: there is nothing to decode")
    made = _data.decode_image(bytes(data), name, False).numpy()
    if flag == 0:
        made = np.rint(made.astype(np.float32) @ _GREY).astype(np.uint8)[..., None]
    return made


def imdecode(buf, flag=1, to_rgb=True, out=None):
    """The image of a JPEG or PNG file's bytes; grey with flag=0, BGR with to_rgb=False."""
    data = buf.asnumpy().tobytes() if isinstance(buf, nd.NDArray) else (
        buf.tobytes() if isinstance(buf, np.ndarray) else buf)
    made = _decode(data, flag, "imdecode")
    made = made if to_rgb or flag == 0 else np.ascontiguousarray(made[..., ::-1])
    made = _array(made)
    if out is not None:
        made.copyto(out)
        return out
    return made


def imread(filename, flag=1, to_rgb=True):
    """The image of a file."""
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFound(f"{filename}: there is no such file") from None
    made = _decode(data, flag, os.fspath(filename))
    return _array(made if to_rgb or flag == 0 else np.ascontiguousarray(made[..., ::-1]))


def encode(img, bgr=False):
    """A PNG file's bytes of an image."""
    image = _numpy(img)
    if bgr and image.ndim == 3 and image.shape[2] == 3:
        image = image[..., ::-1]
    return _data.encode_png(_core.Tensor(np.ascontiguousarray(image, dtype=np.uint8)))


def decode_bgr(data, iscolor=-1):
    """As OpenCV reads: BGR, grey [H, W] with iscolor=0."""
    if iscolor == 0:
        return _decode(data, 0, "unpack_img")[..., 0]
    made = _data.decode_image(bytes(data), "unpack_img", iscolor == -1).numpy()
    if made.shape[2] == 1:
        return made[..., 0]
    return np.ascontiguousarray(made[..., 2::-1])


def _resize_nearest(image, w, h):
    rows = np.minimum((np.arange(h) * image.shape[0] / h).astype(np.int64), image.shape[0] - 1)
    columns = np.minimum((np.arange(w) * image.shape[1] / w).astype(np.int64), image.shape[1] - 1)
    return np.ascontiguousarray(image[rows][:, columns])


def _cubic(count, size):
    """Weights [count, size] of a cubic interpolation, a = -0.75, edges repeated."""
    places = (np.arange(count) + 0.5) * size / count - 0.5
    weights = np.zeros((count, size))
    a = -0.75
    for shift in range(-1, 3):
        near = np.floor(places).astype(np.int64) + shift
        d = np.abs(places - near)
        w = np.where(d <= 1, (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1,
                     np.where(d < 2, a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a, 0))
        np.add.at(weights, (np.arange(count), np.clip(near, 0, size - 1)), w)
    return weights


def _area(count, size):
    """Weights [count, size] of the mean of what a pixel covers."""
    edges = np.arange(count + 1) * size / count
    left = np.maximum(edges[:-1, None], np.arange(size)[None])
    right = np.minimum(edges[1:, None], np.arange(size)[None] + 1)
    weights = np.maximum(right - left, 0)
    return weights / weights.sum(1, keepdims=True)


def _resize(image, w, h, interp):
    if w < 1 or h < 1:
        raise InvalidArgument(f"imresize: the size is {w} x {h}")
    if image.shape[:2] == (h, w):
        return image
    interp = _get_interp_method(interp, (image.shape[0], image.shape[1], h, w))
    if interp == 0:
        return _resize_nearest(image, w, h)
    if interp in (2, 3, 4):
        make = _area if interp == 3 and (h < image.shape[0] or w < image.shape[1]) else _cubic
        made = np.einsum("hi,ijc->hjc", make(h, image.shape[0]), image.astype(np.float64))
        made = np.einsum("wj,hjc->hwc", make(w, image.shape[1]), made)
        if image.dtype == np.uint8:
            made = np.clip(np.rint(made), 0, 255)
        return made.astype(image.dtype)
    source = image if image.dtype == np.uint8 else image.astype(np.float32)
    return _data.resize_image(_core.Tensor(np.ascontiguousarray(source)), h, w).numpy().astype(
        image.dtype, copy=False)


def imresize(src, w, h, interp=1):
    """An image of another size; interp 0 nearest, 1 bilinear, 2 cubic, 3 area."""
    return _array(_resize(_numpy(src), w, h, interp))


def _get_interp_method(interp, sizes=()):
    """9 and 10 mean: cubic to enlarge, area to shrink, else bilinear; 10: any of them."""
    if interp == 9:
        if not sizes:
            return 2
        old_h, old_w, new_h, new_w = sizes
        return 2 if new_h > old_h and new_w > old_w else 3 if (
            new_h < old_h and new_w < old_w) else 1
    if interp == 10:
        return _random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise ValueError(f"imresize: there is no interpolation {interp}")
    return interp


def scale_down(src_size, size):
    """The size, made as small as the image is, with its proportions."""
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def copyMakeBorder(src, top, bot, left, right, type=0, value=0.0, values=()):  # noqa: A002
    """Pixels around an image: of a value (type 0), or its edges repeated (1)."""
    image = _numpy(src)
    widths = ((top, bot), (left, right), (0, 0))
    if type == 1:
        return _array(np.pad(image, widths, mode="edge"))
    if type != 0:
        raise InvalidArgument(f"copyMakeBorder: the type is {type}, expected 0 or 1")
    made = np.empty((image.shape[0] + top + bot, image.shape[1] + left + right, image.shape[2]),
                    image.dtype)
    made[...] = np.asarray(values if len(values) else value)
    made[top:top + image.shape[0], left:left + image.shape[1]] = image
    return _array(made)


def _short(h, w, size):
    return (size * h // w, size) if h > w else (size, size * w // h)


def resize_short(src, size, interp=2):
    """The shorter edge made `size`, with the same proportions."""
    h, w = src.shape[:2]
    new_h, new_w = _short(h, w, size)
    return imresize(src, new_w, new_h, interp)


def fixed_crop(src, x0, y0, w, h, size=None, interp=2):
    """The window at (x0, y0), resized where a size (w, h) is given."""
    image = _numpy(src)[y0:y0 + h, x0:x0 + w]
    if size is not None and (w, h) != tuple(size):
        image = _resize(image, size[0], size[1], interp)
    return _array(np.ascontiguousarray(image))


def random_crop(src, size, interp=2):
    """A window of (w, h) anywhere; also where it was."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = _random.randint(0, w - new_w), _random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src, size, interp=2):
    """The window of (w, h) in the middle; also where it was."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = int((w - new_w) / 2), int((h - new_h) / 2)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_size_crop(src, size, area, ratio, interp=2, **kwargs):
    """A window of a part of the area and of some proportions, resized; also where it was."""
    area = kwargs.get("min_area", area)
    h, w = src.shape[:2]
    area = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(10):
        target = _random.uniform(*area) * h * w
        log_ratio = math.log(ratio[0]), math.log(ratio[1])
        chosen = math.exp(_random.uniform(*log_ratio))
        new_w, new_h = int(round(math.sqrt(target * chosen))), int(round(math.sqrt(target / chosen)))
        if 0 < new_w <= w and 0 < new_h <= h:
            x0, y0 = _random.randint(0, w - new_w), _random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def color_normalize(src, mean, std=None):
    """(src - mean) / std."""
    if mean is not None:
        src = src - mean
    return src / std if std is not None else src


def imrotate(src, rotation_degrees, zoom_in=False, zoom_out=False):
    """Images [C, H, W] or [N, C, H, W] turned about their centre."""
    images = _numpy(src)
    single = images.ndim == 3
    images = images[None] if single else images
    degrees = np.broadcast_to(np.asarray(_numpy(rotation_degrees), np.float64).reshape(-1),
                              (len(images),))
    made = np.stack([_turned(image, angle, zoom_in, zoom_out)
                     for image, angle in zip(images, degrees)]).astype(np.float32)
    return nd.array(made[0] if single else made)


def _turned(image, degrees, zoom_in, zoom_out):
    h, w = image.shape[1:]
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    y, x = np.meshgrid(np.arange(h) - (h - 1) / 2, np.arange(w) - (w - 1) / 2, indexing="ij")
    scale = 1.0
    if zoom_in or zoom_out:
        wide = max(abs(w * c) + abs(h * s), 1) / w, max(abs(w * s) + abs(h * c), 1) / h
        scale = 1 / max(wide) if zoom_in else max(wide)
    sx, sy = (x * c - y * s) * scale + (w - 1) / 2, (x * s + y * c) * scale + (h - 1) / 2
    x0, y0 = np.floor(sx).astype(int), np.floor(sy).astype(int)
    out = np.zeros(image.shape, np.float64)
    for dy in (0, 1):
        for dx in (0, 1):
            weight = (1 - abs(sx - (x0 + dx))) * (1 - abs(sy - (y0 + dy)))
            inside = (x0 + dx >= 0) & (x0 + dx < w) & (y0 + dy >= 0) & (y0 + dy < h)
            part = image[:, np.clip(y0 + dy, 0, h - 1), np.clip(x0 + dx, 0, w - 1)]
            out += part * (weight * inside)
    return out


def random_rotate(src, angle_limits, zoom_in=False, zoom_out=False):
    """Turned by an angle between the limits."""
    if src.ndim == 3:
        return imrotate(src, _random.uniform(*angle_limits), zoom_in, zoom_out)
    angles = nd.array([_random.uniform(*angle_limits) for _ in range(src.shape[0])])
    return imrotate(src, angles, zoom_in, zoom_out)


class Augmenter:
    """A change of an image."""

    def __init__(self, **kwargs):
        self._kwargs = {key: value.asnumpy().tolist() if isinstance(value, nd.NDArray)
                        else value.tolist() if isinstance(value, np.ndarray) else value
                        for key, value in kwargs.items()}

    def dumps(self):
        """Its name and its options as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src):
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class SequentialAug(Augmenter):
    """Changes one after the other."""

    def __init__(self, ts):
        super().__init__()
        self.ts = ts

    def dumps(self):
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src):
        for change in self.ts:
            src = change(src)
        return src


class RandomOrderAug(SequentialAug):
    """Changes in any order."""

    def __call__(self, src):
        order = list(self.ts)
        _random.shuffle(order)
        for change in order:
            src = change(src)
        return src


def _augmenter(name, doc, function, *names):
    """A class of a change that calls function(src, *options)."""

    def init(self, *args, **kwargs):
        given = dict(zip(names, args), **kwargs)
        if "interp" in names:
            given.setdefault("interp", 2)
        missing = [key for key in names if key not in given]
        if missing:
            raise TypeError(f"{name}: {', '.join(missing)} must be given")
        Augmenter.__init__(self, **given)
        for key, value in given.items():
            setattr(self, key, value)

    def call(self, src):
        return function(src, *[getattr(self, key) for key in names])

    return type(name, (Augmenter,), {"__init__": init, "__call__": call, "__doc__": doc,
                                     "__module__": __name__})


def _jitter(limit):
    return 1.0 + _random.uniform(-limit, limit)


def _brightness(src, brightness):
    return src * _jitter(brightness)


def _contrast(src, contrast):
    alpha = _jitter(contrast)
    grey = float((_numpy(src).astype(np.float32) @ _GREY).mean())
    return src * alpha + (1.0 - alpha) * grey


def _saturation(src, saturation):
    alpha = _jitter(saturation)
    grey = nd.array((_numpy(src).astype(np.float32) @ _GREY)[..., None])
    return src * alpha + grey * (1.0 - alpha)


_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_RGB = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])


def _hue(src, hue):
    angle = _random.uniform(-hue, hue) * math.pi
    u, w = math.cos(angle), math.sin(angle)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
    matrix = (_RGB @ turn @ _YIQ).T.astype(np.float32)
    return nd.array(_numpy(src).astype(np.float32) @ matrix)


def _lighting(src, alphastd, eigval, eigvec):
    alpha = np.random.normal(0, alphastd, size=(3,))
    rgb = np.dot(_numpy(eigvec) * alpha, _numpy(eigval))
    return src + nd.array(rgb.astype(np.float32))


def _grey(src, p):
    if _random.random() >= p:
        return src
    grey = (_numpy(src).astype(np.float32) @ _GREY)[..., None]
    return nd.array(np.repeat(grey, 3, axis=2))


def _flip(src, p):
    return _array(np.ascontiguousarray(_numpy(src)[:, ::-1])) if _random.random() < p else src


ResizeAug = _augmenter("ResizeAug", "The shorter edge made a size.", resize_short, "size", "interp")
ForceResizeAug = _augmenter(
    "ForceResizeAug", "Made (w, h).", lambda src, size, interp: imresize(src, *size, interp),
    "size", "interp")
RandomCropAug = _augmenter(
    "RandomCropAug", "A window anywhere.", lambda *a: random_crop(*a)[0], "size", "interp")
CenterCropAug = _augmenter(
    "CenterCropAug", "The window in the middle.", lambda *a: center_crop(*a)[0], "size", "interp")
RandomSizedCropAug = _augmenter(
    "RandomSizedCropAug", "A window of any size, resized.", lambda *a: random_size_crop(*a)[0],
    "size", "area", "ratio", "interp")
BrightnessJitterAug = _augmenter("BrightnessJitterAug", "Brighter or darker.", _brightness,
                                 "brightness")
ContrastJitterAug = _augmenter("ContrastJitterAug", "More or less contrast.", _contrast, "contrast")
SaturationJitterAug = _augmenter("SaturationJitterAug", "More or less colour.", _saturation,
                                 "saturation")
HueJitterAug = _augmenter("HueJitterAug", "Other colours.", _hue, "hue")
LightingAug = _augmenter("LightingAug", "Noise along the colours' main directions.", _lighting,
                         "alphastd", "eigval", "eigvec")
ColorNormalizeAug = _augmenter("ColorNormalizeAug", "Less the mean, divided by the deviation.",
                               color_normalize, "mean", "std")
RandomGrayAug = _augmenter("RandomGrayAug", "Grey with a probability.", _grey, "p")
HorizontalFlipAug = _augmenter("HorizontalFlipAug", "Mirrored with a probability.", _flip, "p")


class CastAug(Augmenter):
    """Another dtype."""

    def __init__(self, typ="float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src):
        return src.astype(self.typ)


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation, in any order."""

    def __init__(self, brightness, contrast, saturation):
        ts = [kind(limit) for kind, limit in ((BrightnessJitterAug, brightness),
                                              (ContrastJitterAug, contrast),
                                              (SaturationJitterAug, saturation)) if limit > 0]
        super().__init__(ts)


_IMAGENET_MEAN = np.array([123.68, 116.28, 103.53], np.float32)
_IMAGENET_STD = np.array([58.395, 57.12, 57.375], np.float32)


def CreateAugmenter(data_shape, resize=0, rand_crop=False, rand_resize=False, rand_mirror=False,
                    mean=None, std=None, brightness=0, contrast=0, saturation=0, hue=0,
                    pca_noise=0, rand_gray=0, inter_method=2):
    """The list of changes that these options mean."""
    made = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        made.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        made.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        made.append(HorizontalFlipAug(0.5))
    made.append(CastAug())
    if brightness or contrast or saturation:
        made.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        made.append(HueJitterAug(hue))
    if pca_noise > 0:
        eigval = np.array([55.46, 4.794, 1.148], np.float32)
        eigvec = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                           [-0.5836, -0.6948, 0.4203]], np.float32)
        made.append(LightingAug(pca_noise, eigval, eigvec))
    if rand_gray > 0:
        made.append(RandomGrayAug(rand_gray))
    mean = _IMAGENET_MEAN if mean is True else mean
    std = _IMAGENET_STD if std is True else std
    if mean is not None or std is not None:
        made.append(ColorNormalizeAug(None if mean is None else nd.array(mean),
                                      None if std is None else nd.array(std)))
    return made


from lockstep.mxnet._image_iter import ImageIter, RecordIter  # noqa: E402,F401 - made of the above
from lockstep.mxnet._image_det import (CreateDetAugmenter, CreateMultiRandCropAugmenter,  # noqa: E402,F401
                                       DetAugmenter, DetBorrowAug, DetHorizontalFlipAug,
                                       DetRandomCropAug, DetRandomPadAug, DetRandomSelectAug,
                                       ImageDetIter)
