# SPDX-License-Identifier: Apache-2.0
"""What mx.io.ImageRecordIter does to an image before its colours are normalised."""

import math
import random as _random
from types import SimpleNamespace

import numpy as np

from lockstep.errors import InvalidArgument
from lockstep.mxnet import image

DEFAULTS = {
    "resize": -1, "rand_crop": False, "random_resized_crop": False, "max_rotate_angle": 0,
    "max_aspect_ratio": 0.0, "min_aspect_ratio": None, "max_shear_ratio": 0.0, "max_crop_size": -1,
    "min_crop_size": -1, "max_random_scale": 1.0, "min_random_scale": 1.0, "max_random_area": 1.0,
    "min_random_area": 1.0, "max_img_size": 1e10, "min_img_size": 0.0, "brightness": 0.0,
    "contrast": 0.0, "saturation": 0.0, "pca_noise": 0.0, "random_h": 0, "random_s": 0,
    "random_l": 0, "rotate": -1, "rotate_list": (), "fill_value": 255, "inter_method": 1, "pad": 0}
_NOT_BESIDE_RESIZED = ("rand_crop", "max_random_scale", "min_random_scale", "max_crop_size",
                       "min_crop_size")
_PCA = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                 [-0.5836, -0.6948, 0.4203]]) * np.array([55.46, 4.794, 1.148])


def _pixels(values):
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


class RecordAug(image.Augmenter):
    """Resized, turned and scaled, padded, cropped, and of other colours, in this order."""

    def __init__(self, data_shape, seed=None, **options):
        super().__init__(**options)
        self._options = SimpleNamespace(**{**DEFAULTS, **options})
        self._h, self._w = data_shape[1:]
        self._random = _random if seed is None else _random.Random(seed)
        self._check(options)
        o = self._options
        self._ratios = ((1 - o.max_aspect_ratio, 1 + o.max_aspect_ratio)
                        if o.min_aspect_ratio is None else (o.min_aspect_ratio, o.max_aspect_ratio))

    def _check(self, options):
        if not self._options.random_resized_crop:
            return
        for name in _NOT_BESIDE_RESIZED:
            if options.get(name, DEFAULTS[name]) != DEFAULTS[name]:
                raise InvalidArgument(f"ImageRecordIter: {name} does not go with "
                                      "random_resized_crop")

    def __call__(self, src):
        o, made = self._options, image._numpy(src)
        if o.resize > 0:
            h, w = image._short(*made.shape[:2], o.resize)
            made = self._resized(made, w, h)
        if self._is_warped():
            made = self._warped(made)
        if o.pad > 0:
            made = np.pad(made, ((o.pad, o.pad), (o.pad, o.pad), (0, 0)),
                          constant_values=o.fill_value)
        made = self._jittered(self._cropped(made))
        if o.random_h or o.random_s or o.random_l:
            made = self._shifted(made)
        if o.pca_noise > 0:
            noise = _PCA @ [self._random.gauss(0, o.pca_noise) for _ in range(3)]
            made = np.clip(np.trunc(made + noise), 0, 255).astype(np.uint8)
        return image._array(np.ascontiguousarray(made))

    def _resized(self, pixels, w, h):
        return image._resize(np.ascontiguousarray(pixels), w, h, self._options.inter_method)

    # Turned, sheared, scaled, stretched.

    def _is_warped(self):
        o = self._options
        stretched = not o.random_resized_crop and self._ratios != (1, 1)
        return bool(stretched or o.max_rotate_angle > 0 or o.max_shear_ratio > 0 or o.rotate > 0
                    or o.rotate_list or (o.min_random_scale, o.max_random_scale) != (1, 1)
                    or (o.min_img_size, o.max_img_size) != (0, 1e10))

    def _angle(self):
        o = self._options
        if o.rotate_list:
            return self._random.choice(list(o.rotate_list))
        limit = int(o.max_rotate_angle)
        return o.rotate if o.rotate > 0 else self._random.randint(-limit, limit)

    def _warped(self, pixels):
        o, scale, ratio = self._options, 1.0, 1.0
        shear = self._random.uniform(-o.max_shear_ratio, o.max_shear_ratio)
        angle = math.radians(self._angle())
        a, b = math.cos(angle), math.sin(angle)
        if not o.random_resized_crop:
            scale = self._random.uniform(o.min_random_scale, o.max_random_scale)
            ratio = self._random.uniform(*self._ratios)
        tall = 2 * scale / (1 + ratio)
        wide = ratio * tall
        old = np.array([pixels.shape[1], pixels.shape[0]])
        new = np.clip(scale * old, o.min_img_size, o.max_img_size)
        matrix = np.array([[tall * a - shear * b * wide, tall * b + shear * a * wide],
                           [-b * wide, a * wide]])
        return _warp(pixels, matrix, (new - matrix @ old) / 2, new.astype(int), o.fill_value)

    # Cropped.

    def _cropped(self, pixels):
        o = self._options
        if o.random_resized_crop:
            window = self._window_of_an_area(*pixels.shape[:2])
            if window is not None:
                return self._resized(pixels[window], self._w, self._h)
        elif o.max_crop_size != -1 or o.min_crop_size != -1:
            if min(pixels.shape[:2]) < o.max_crop_size or o.max_crop_size < o.min_crop_size:
                raise InvalidArgument(f"ImageRecordIter: max_crop_size is {o.max_crop_size}, "
                                      f"min_crop_size {o.min_crop_size}, an image is "
                                      f"{pixels.shape[1]} x {pixels.shape[0]}")
            size = self._random.randint(o.min_crop_size, o.max_crop_size)
            return self._resized(pixels[self._window(pixels, size, size)], self._w, self._h)
        pixels = self._at_least(pixels)
        return pixels[self._window(pixels, self._h, self._w)]

    def _window_of_an_area(self, h, w):
        """A part of the image, or None where ten tries do not fit into it."""
        o = self._options
        if (o.min_random_area, o.max_random_area, *self._ratios) == (1, 1, 1, 1):
            return None
        for _ in range(10):
            area = self._random.uniform(o.min_random_area, o.max_random_area) * h * w
            ratio = self._random.uniform(*self._ratios)
            sides = [round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))]
            self._random.shuffle(sides)
            if 0 < sides[0] <= h and 0 < sides[1] <= w:
                return self._place(h - sides[0], w - sides[1], *sides, True)
        return None

    def _window(self, pixels, h, w):
        return self._place(pixels.shape[0] - h, pixels.shape[1] - w, h, w, self._options.rand_crop)

    def _place(self, y, x, h, w, anywhere):
        y, x = [self._random.randint(0, n) if anywhere else n // 2 for n in (y, x)]
        return slice(y, y + h), slice(x, x + w)

    def _at_least(self, pixels):
        """Larger, where it is too small to be cropped."""
        h, w = pixels.shape[:2]
        if h < self._h:
            h, w = self._h, int(self._h / h * w)
        if w < self._w:
            h, w = int(self._w / w * h), self._w
        return self._resized(pixels, w, h)

    # Of other colours.

    def _jittered(self, pixels):
        o = self._options
        changes = [(change, limit) for change, limit in (
            (_brighter, o.brightness), (_with_contrast, o.contrast), (_saturated, o.saturation))
            if limit > 0]
        self._random.shuffle(changes)
        for change, limit in changes:
            pixels = _pixels(change(pixels.astype(np.float32),
                                    1 + self._random.uniform(-limit, limit)))
        return pixels

    def _shifted(self, pixels):
        """Hue (of 180), lightness and saturation moved, rather little than much."""
        if pixels.shape[2] != 3:
            raise InvalidArgument("ImageRecordIter: random_h, random_s and random_l are of images "
                                  "with three colours")
        o, moves = self._options, []
        for limit in (o.random_h, o.random_l, o.random_s):
            part = (self._random.random() + 4 * self._random.random()) / 5
            moves.append(int(part * limit * 2 - limit))
        return _of_hls(np.clip(_to_hls(pixels) + moves, 0, (180, 255, 255)))


def _warp(pixels, matrix, shift, size, fill):
    """The image whose point p comes to matrix p + shift, bilinear, with a colour around it."""
    h, w = pixels.shape[:2]
    y, x = np.mgrid[0:size[1], 0:size[0]]
    sx, sy = np.tensordot(np.linalg.inv(matrix), [x - shift[0], y - shift[1]], 1)
    x0, y0 = np.floor(sx).astype(int), np.floor(sy).astype(int)
    made = np.zeros((*x.shape, pixels.shape[2]))
    for row, column in ((y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1)):
        weight = (1 - abs(sx - column)) * (1 - abs(sy - row))
        inside = (column >= 0) & (column < w) & (row >= 0) & (row < h)
        part = pixels[np.clip(row, 0, h - 1), np.clip(column, 0, w - 1)]
        made += np.where(inside[..., None], part, fill) * weight[..., None]
    return _pixels(made)


def _grey(pixels):
    return pixels @ image._GREY if pixels.shape[2] == 3 else pixels[..., 0]


def _brighter(pixels, alpha):
    return pixels * alpha


def _with_contrast(pixels, alpha):
    return pixels * alpha + (1 - alpha) * _grey(pixels).mean()


def _saturated(pixels, alpha):
    return pixels * alpha + _grey(pixels)[..., None] * (1 - alpha)


def _to_hls(pixels):
    """Hue from 0 to 180, lightness and saturation from 0 to 255."""
    rgb = pixels / 255
    high, low = rgb.max(2), rgb.min(2)
    spread, light = high - low, (high + low) / 2
    r, g, b = np.moveaxis(rgb, 2, 0)
    some = np.where(spread > 0, spread, 1)
    hue = np.select([high == r, high == g], [(g - b) / some, 2 + (b - r) / some],
                    4 + (r - g) / some)
    most = np.where(light < 0.5, high + low, 2 - high - low)
    full = np.where(spread > 0, spread / np.where(most > 0, most, 1), 0)
    return np.stack([np.rint(hue % 6 * 30), np.rint(light * 255), np.rint(full * 255)], 2)


def _of_hls(hls):
    hue, light, full = hls[..., 0] / 15, hls[..., 1] / 255, hls[..., 2] / 255
    reach, made = full * np.minimum(light, 1 - light), []
    for turn in (0, 8, 4):  # red, green and blue, in twelfths of the circle
        place = (turn + hue) % 12
        made.append(light - reach * np.clip(np.minimum(place - 3, 9 - place), -1, 1))
    return _pixels(np.stack(made, 2) * 255)
