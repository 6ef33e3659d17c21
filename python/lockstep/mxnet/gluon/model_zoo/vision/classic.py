# SPDX-License-Identifier: Apache-2.0
"""AlexNet, VGG and SqueezeNet."""

from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.model_zoo.model_store import load_pretrained
from lockstep.mxnet.initializer import Xavier

__all__ = ["AlexNet", "SqueezeNet", "VGG", "alexnet", "get_vgg", "squeezenet1_0", "squeezenet1_1"]
__all__ += [f"vgg{n}{bn}" for n in (11, 13, 16, 19) for bn in ("", "_bn")]


class AlexNet(HybridBlock):
    """Krizhevsky's network, on one device."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(64, 11, 4, 2, activation="relu"), nn.MaxPool2D(3, 2),
                    nn.Conv2D(192, 5, padding=2, activation="relu"), nn.MaxPool2D(3, 2),
                    nn.Conv2D(384, 3, padding=1, activation="relu"),
                    nn.Conv2D(256, 3, padding=1, activation="relu"),
                    nn.Conv2D(256, 3, padding=1, activation="relu"), nn.MaxPool2D(3, 2),
                    nn.Flatten(), nn.Dense(4096, activation="relu"), nn.Dropout(0.5),
                    nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


def alexnet(pretrained=False, ctx=None, root=None, **kwargs):
    """AlexNet."""
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, root, ctx)


class VGG(HybridBlock):
    """Many small convolutions."""

    def __init__(self, layers, filters, classes=1000, batch_norm=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, width in zip(layers, filters):
                for _ in range(count):
                    self.features.add(nn.Conv2D(
                        width, kernel_size=3, padding=1, bias_initializer="zeros",
                        weight_initializer=Xavier(rnd_type="gaussian", factor_type="out",
                                                  magnitude=2)))
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", weight_initializer="normal",
                                           bias_initializer="zeros"), nn.Dropout(rate=0.5))
            self.output = nn.Dense(classes, weight_initializer="normal", bias_initializer="zeros")

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


_VGG = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}


def get_vgg(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """VGG of a number of layers."""
    name = f"vgg{num_layers}" + ("_bn" if kwargs.get("batch_norm") else "")
    return load_pretrained(VGG(_VGG[num_layers], [64, 128, 256, 512, 512], **kwargs), name,
                           pretrained, root, ctx)


def _vgg(layers, batch_norm):
    def make(**kwargs):
        if batch_norm:
            kwargs["batch_norm"] = True
        return get_vgg(layers, **kwargs)

    make.__name__ = f"vgg{layers}" + ("_bn" if batch_norm else "")
    make.__doc__ = f"VGG-{layers}."
    return make


for _layers in _VGG:
    for _bn in (False, True):
        globals()[f"vgg{_layers}" + ("_bn" if _bn else "")] = _vgg(_layers, _bn)


class _Fire(HybridBlock):
    """A narrow convolution, then two side by side."""

    def __init__(self, squeeze, expand1, expand3, **kwargs):
        super().__init__(**kwargs)
        self.squeeze = nn.Conv2D(squeeze, 1, activation="relu")
        self.left = nn.Conv2D(expand1, 1, activation="relu")
        self.right = nn.Conv2D(expand3, 3, padding=1, activation="relu")

    def hybrid_forward(self, F, x):  # noqa: N803
        x = self.squeeze(x)
        return F.concat(self.left(x), self.right(x), dim=1)


class SqueezeNet(HybridBlock):
    """Small, of fire modules."""

    def __init__(self, version, classes=1000, **kwargs):
        super().__init__(**kwargs)
        if version not in ("1.0", "1.1"):
            raise AssertionError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        old = version == "1.0"
        pools = (0, 3, 7) if old else (0, 2, 4)
        fires = [(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(96 if old else 64, 7 if old else 3, 2, activation="relu"))
            for i, (squeeze, expand) in enumerate(fires):
                if i in pools:
                    self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
                self.features.add(_Fire(squeeze, expand, expand))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.GlobalAvgPool2D(),
                            nn.Flatten())

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.output(self.features(x))


def squeezenet1_0(pretrained=False, ctx=None, root=None, **kwargs):
    """SqueezeNet 1.0."""
    return load_pretrained(SqueezeNet("1.0", **kwargs), "squeezenet1.0", pretrained, root, ctx)


def squeezenet1_1(pretrained=False, ctx=None, root=None, **kwargs):
    """SqueezeNet 1.1."""
    return load_pretrained(SqueezeNet("1.1", **kwargs), "squeezenet1.1", pretrained, root, ctx)
