# SPDX-License-Identifier: Apache-2.0
"""MobileNet, of both versions, and DenseNet."""

from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.model_zoo.model_store import load_pretrained

_WIDTHS = {"1_0": 1.0, "0_75": 0.75, "0_5": 0.5, "0_25": 0.25}
__all__ = ["DenseNet", "MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2"]
__all__ += [f"mobilenet{v}{w}" for v in ("", "_v2_") for w in _WIDTHS]
__all__ += [f"densenet{n}" for n in (121, 161, 169, 201)]


class _ReLU6(HybridBlock):
    """relu, cut off at 6."""

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.clip(x, 0, 6)


def _add_conv(out, channels, kernel=1, stride=1, pad=0, groups=1, active=True, relu6=False):
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False),
            nn.BatchNorm(scale=True))
    if active:
        out.add(_ReLU6() if relu6 else nn.Activation("relu"))


class MobileNet(HybridBlock):
    """Convolutions of one channel each, then of one pixel each."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        widths = [32, 64] + [128] * 2 + [256] * 2 + [512] * 6 + [1024]
        after = [64] + [128] * 2 + [256] * 2 + [512] * 6 + [1024] * 2
        strides = [1, 2] * 3 + [1] * 5 + [2, 1]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                _add_conv(self.features, int(32 * multiplier), 3, 2, 1)
                for width, channels, stride in zip(widths, after, strides):
                    inner = int(width * multiplier)
                    _add_conv(self.features, inner, 3, stride, 1, inner)
                    _add_conv(self.features, int(channels * multiplier))
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


class _LinearBottleneck(HybridBlock):
    """Wide inside, narrow at both ends."""

    def __init__(self, in_channels, channels, t, stride, **kwargs):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        with self.name_scope():
            self.out = nn.HybridSequential()
            if t != 1:
                _add_conv(self.out, in_channels * t, relu6=True)
            _add_conv(self.out, in_channels * t, 3, stride, 1, in_channels * t, relu6=True)
            _add_conv(self.out, channels, active=False)

    def hybrid_forward(self, F, x):  # noqa: N803
        out = self.out(x)
        return out + x if self.use_shortcut else out


class MobileNetV2(HybridBlock):
    """Linear bottlenecks."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        inputs = [32, 16] + [24] * 2 + [32] * 3 + [64] * 4 + [96] * 3 + [160] * 3
        outputs = [16] + [24] * 2 + [32] * 3 + [64] * 4 + [96] * 3 + [160] * 3 + [320]
        strides = [1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add_conv(self.features, int(32 * multiplier), 3, 2, 1, relu6=True)
                for i, (a, b, stride) in enumerate(zip(inputs, outputs, strides)):
                    self.features.add(_LinearBottleneck(int(a * multiplier), int(b * multiplier),
                                                        1 if i == 0 else 6, stride))
                last = int(1280 * multiplier) if multiplier > 1.0 else 1280
                _add_conv(self.features, last, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


def get_mobilenet(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet of a width."""
    return load_pretrained(MobileNet(multiplier, **kwargs), f"mobilenet{multiplier}", pretrained,
                           root, ctx)


def get_mobilenet_v2(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet of version 2 and a width."""
    return load_pretrained(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{multiplier}",
                           pretrained, root, ctx)


def _named(name, get, *args):
    def make(**kwargs):
        return get(*args, **kwargs)

    make.__name__ = name
    make.__doc__ = f"{name}."
    return make


for _text, _width in _WIDTHS.items():
    globals()[f"mobilenet{_text}"] = _named(f"mobilenet{_text}", get_mobilenet, _width)
    globals()[f"mobilenet_v2_{_text}"] = _named(f"mobilenet_v2_{_text}", get_mobilenet_v2, _width)


class _DenseLayer(HybridBlock):
    """Adds channels to what there is."""

    def __init__(self, growth, bottleneck, dropout, **kwargs):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(nn.BatchNorm(), nn.Activation("relu"),
                      nn.Conv2D(bottleneck * growth, 1, use_bias=False), nn.BatchNorm(),
                      nn.Activation("relu"), nn.Conv2D(growth, 3, padding=1, use_bias=False))
        if dropout:
            self.body.add(nn.Dropout(dropout))

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.concat(x, self.body(x), dim=1)


class DenseNet(HybridBlock):
    """Every layer sees all before it."""

    def __init__(self, num_init_features, growth_rate, block_config, bn_size=4, dropout=0,
                 classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False), nn.BatchNorm(),
                              nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            width = num_init_features
            for i, layers in enumerate(block_config):
                block = nn.HybridSequential(prefix=f"stage{i + 1}_")
                with block.name_scope():
                    for _ in range(layers):
                        block.add(_DenseLayer(growth_rate, bn_size, dropout, prefix=""))
                self.features.add(block)
                width += layers * growth_rate
                if i != len(block_config) - 1:
                    width //= 2
                    between = nn.HybridSequential(prefix="")
                    between.add(nn.BatchNorm(), nn.Activation("relu"),
                                nn.Conv2D(width, 1, use_bias=False), nn.AvgPool2D(2, 2))
                    self.features.add(between)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


_DENSE = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]),
          169: (64, 32, [6, 12, 32, 32]), 201: (64, 32, [6, 12, 48, 32])}


def get_densenet(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """DenseNet of a number of layers."""
    return load_pretrained(DenseNet(*_DENSE[num_layers], **kwargs), f"densenet{num_layers}",
                           pretrained, root, ctx)


for _layers in _DENSE:
    globals()[f"densenet{_layers}"] = _named(f"densenet{_layers}", get_densenet, _layers)
