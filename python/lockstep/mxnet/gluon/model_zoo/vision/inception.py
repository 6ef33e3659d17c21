# SPDX-License-Identifier: Apache-2.0
"""Inception v3: branches of convolutions side by side."""

from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.model_zoo.model_store import load_pretrained

__all__ = ["Inception3", "inception_v3"]
_ROW, _COLUMN = ((1, 7), None, (0, 3)), ((7, 1), None, (3, 0))


def _convolution(**kwargs):
    made = nn.HybridSequential(prefix="")
    made.add(nn.Conv2D(use_bias=False, **kwargs), nn.BatchNorm(epsilon=0.001),
             nn.Activation("relu"))
    return made


def _branch(pool, *settings):
    """A pool, or none, and convolutions of (channels, kernel, strides, padding)."""
    made = nn.HybridSequential(prefix="")
    if pool == "avg":
        made.add(nn.AvgPool2D(pool_size=3, strides=1, padding=1))
    elif pool == "max":
        made.add(nn.MaxPool2D(pool_size=3, strides=2))
    names = ("channels", "kernel_size", "strides", "padding")
    for setting in settings:
        made.add(_convolution(**{name: value for name, value in zip(names, setting)
                                 if value is not None}))
    return made


def _beside(prefix, *branches):
    """Branches whose outputs stand behind one another; each is made inside of the scope."""
    made = nn.HybridConcatenate(axis=1, prefix=prefix)
    with made.name_scope():
        for branch in branches:
            made.add(branch() if callable(branch) else _branch(*branch))
    return made


def _a(features, prefix):
    return _beside(prefix, (None, (64, 1)), (None, (48, 1), (64, 5, None, 2)),
                   (None, (64, 1), (96, 3, None, 1), (96, 3, None, 1)), ("avg", (features, 1)))


def _b(prefix):
    return _beside(prefix, (None, (384, 3, 2)), (None, (64, 1), (96, 3, None, 1), (96, 3, 2)),
                   ("max",))


def _c(channels, prefix):
    row, column = (channels, *_ROW), (channels, *_COLUMN)
    return _beside(prefix, (None, (192, 1)), (None, (channels, 1), row, (192, *_COLUMN)),
                   (None, (channels, 1), column, row, column, (192, *_ROW)), ("avg", (192, 1)))


def _d(prefix):
    return _beside(prefix, (None, (192, 1), (320, 3, 2)),
                   (None, (192, 1), (192, *_ROW), (192, *_COLUMN), (192, 3, 2)), ("max",))


def _split(*settings):
    """Convolutions, then one of a row and one of a column side by side."""

    def make():
        made = nn.HybridSequential(prefix="")
        made.add(_branch(None, *settings))
        made.add(_beside("", (None, (384, (1, 3), None, (0, 1))),
                         (None, (384, (3, 1), None, (1, 0)))))
        return made

    return make


def _e(prefix):
    return _beside(prefix, (None, (320, 1)), _split((384, 1)), _split((448, 1), (384, 3, None, 1)),
                   ("avg", (192, 1)))


class Inception3(HybridBlock):
    """Of pictures of 299 x 299."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                _convolution(channels=32, kernel_size=3, strides=2),
                _convolution(channels=32, kernel_size=3),
                _convolution(channels=64, kernel_size=3, padding=1),
                nn.MaxPool2D(pool_size=3, strides=2), _convolution(channels=80, kernel_size=1),
                _convolution(channels=192, kernel_size=3), nn.MaxPool2D(pool_size=3, strides=2),
                _a(32, "A1_"), _a(64, "A2_"), _a(64, "A3_"), _b("B_"), _c(128, "C1_"),
                _c(160, "C2_"), _c(160, "C3_"), _c(192, "C4_"), _d("D_"), _e("E1_"), _e("E2_"),
                nn.AvgPool2D(pool_size=8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


def inception_v3(pretrained=False, ctx=None, root=None, **kwargs):
    """Inception v3."""
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, root, ctx)
