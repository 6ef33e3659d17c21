# SPDX-License-Identifier: Apache-2.0
"""Residual networks, of both versions."""

from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.model_zoo.model_store import load_pretrained

__all__ = ["BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2",
           "get_resnet"] + [f"resnet{n}_v{v}" for n in (18, 34, 50, 101, 152) for v in (1, 2)]


def _conv3x3(channels, stride, in_channels):
    return nn.Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False,
                     in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + shortcut(x))."""

    def __init__(self, channels, stride, downsample, in_channels, **kwargs):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self._fill(channels, stride, in_channels)
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(nn.Conv2D(channels, kernel_size=1, strides=stride, use_bias=False,
                                          in_channels=in_channels), nn.BatchNorm())
        else:
            self.downsample = None

    def hybrid_forward(self, F, x):  # noqa: N803
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + self.body(x), act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(channels, stride, downsample, in_channels, **kwargs)

    def _fill(self, channels, stride, in_channels):
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(),
                      nn.Activation("relu"), _conv3x3(channels, 1, channels), nn.BatchNorm())


class BottleneckV1(_BlockV1):
    """A narrow convolution between two of one pixel."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(channels, stride, downsample, in_channels, **kwargs)

    def _fill(self, channels, stride, in_channels):
        narrow = channels // 4
        self.body.add(nn.Conv2D(narrow, kernel_size=1, strides=stride), nn.BatchNorm(),
                      nn.Activation("relu"), _conv3x3(narrow, 1, narrow), nn.BatchNorm(),
                      nn.Activation("relu"), nn.Conv2D(channels, kernel_size=1, strides=1),
                      nn.BatchNorm())


class BasicBlockV2(HybridBlock):
    """Two convolutions, each after its normalisation."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self.downsample = nn.Conv2D(channels, 1, stride, use_bias=False,
                                    in_channels=in_channels) if downsample else None

    def hybrid_forward(self, F, x):  # noqa: N803
        residual = x
        x = F.Activation(self.bn1(x), act_type="relu")
        if self.downsample is not None:
            residual = self.downsample(x)
        x = F.Activation(self.bn2(self.conv1(x)), act_type="relu")
        return self.conv2(x) + residual


class BottleneckV2(HybridBlock):
    """Three convolutions, each after its normalisation."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        narrow = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = nn.Conv2D(narrow, kernel_size=1, strides=1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(narrow, stride, narrow)
        self.bn3 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=1, use_bias=False)
        self.downsample = nn.Conv2D(channels, 1, stride, use_bias=False,
                                    in_channels=in_channels) if downsample else None

    def hybrid_forward(self, F, x):  # noqa: N803
        residual = x
        x = F.Activation(self.bn1(x), act_type="relu")
        if self.downsample is not None:
            residual = self.downsample(x)
        x = F.Activation(self.bn2(self.conv1(x)), act_type="relu")
        x = F.Activation(self.bn3(self.conv2(x)), act_type="relu")
        return self.conv3(x) + residual


def _stage(block, layers, channels, stride, number, in_channels):
    made = nn.HybridSequential(prefix=f"stage{number}_")
    with made.name_scope():
        made.add(block(channels, stride, channels != in_channels, in_channels=in_channels,
                       prefix=""))
        for _ in range(layers - 1):
            made.add(block(channels, 1, False, in_channels=channels, prefix=""))
    return made


def _stem(features, channels, thumbnail):
    if thumbnail:
        features.add(_conv3x3(channels, 1, 0))
    else:
        features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(),
                     nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))


class ResNetV1(HybridBlock):
    """Normalisation after each convolution."""

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        super().__init__(**kwargs)
        if len(layers) != len(channels) - 1:
            raise AssertionError("ResNetV1: one more number of channels than of layers")
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            _stem(self.features, channels[0], thumbnail)
            for i, count in enumerate(layers):
                self.features.add(_stage(block, count, channels[i + 1], 1 if i == 0 else 2, i + 1,
                                         channels[i]))
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


class ResNetV2(HybridBlock):
    """Normalisation before each convolution."""

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        super().__init__(**kwargs)
        if len(layers) != len(channels) - 1:
            raise AssertionError("ResNetV2: one more number of channels than of layers")
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            _stem(self.features, channels[0], thumbnail)
            before = channels[0]
            for i, count in enumerate(layers):
                self.features.add(_stage(block, count, channels[i + 1], 1 if i == 0 else 2, i + 1,
                                         before))
                before = channels[i + 1]
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(),
                              nn.Flatten())
            self.output = nn.Dense(classes, in_units=before)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


_WIDE, _DEEP = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
_SPEC = {18: (0, [2, 2, 2, 2], _WIDE), 34: (0, [3, 4, 6, 3], _WIDE), 50: (1, [3, 4, 6, 3], _DEEP),
         101: (1, [3, 4, 23, 3], _DEEP), 152: (1, [3, 8, 36, 3], _DEEP)}
_VERSIONS = ((ResNetV1, (BasicBlockV1, BottleneckV1)), (ResNetV2, (BasicBlockV2, BottleneckV2)))


def get_resnet(version, num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """A residual network of a version and a number of layers."""
    if num_layers not in _SPEC:
        raise AssertionError(f"Invalid number of layers: {num_layers}. Options are {list(_SPEC)}")
    if version not in (1, 2):
        raise AssertionError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = _SPEC[num_layers]
    net, blocks = _VERSIONS[version - 1]
    return load_pretrained(net(blocks[kind], layers, channels, **kwargs),
                           f"resnet{num_layers}_v{version}", pretrained, root, ctx)


def _model(layers, version):
    def make(**kwargs):
        return get_resnet(version, layers, **kwargs)

    make.__name__ = f"resnet{layers}_v{version}"
    make.__doc__ = f"ResNet-{layers} of version {version}."
    return make


for _layers in _SPEC:
    for _version in (1, 2):
        globals()[f"resnet{_layers}_v{_version}"] = _model(_layers, _version)
