# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools."""

from lockstep.mxnet.base import as_pair
from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.nn.activations import Activation

__all__ = [f"{kind}{n}D" for kind in ("Conv", "MaxPool", "AvgPool", "GlobalMaxPool",
                                      "GlobalAvgPool") for n in (1, 2, 3)]
__all__ += ["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "ReflectionPad2D",
            "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D"]


class _Conv(HybridBlock):
    """What convolutions have."""

    def __init__(self, dims, channels, kernel_size, strides, padding, dilation, groups, layout,
                 in_channels, activation, use_bias, weight_initializer, bias_initializer,
                 op_name="Convolution", adj=None, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        kernel = as_pair(kernel_size, dims, 1)
        self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
        self._kernel, self._groups, self._layout = kernel, groups, layout
        self._kwargs = {"kernel": kernel, "stride": as_pair(strides, dims, 1),
                        "dilate": as_pair(dilation, dims, 1), "pad": as_pair(padding, dims, 0),
                        "num_filter": channels, "num_group": groups, "no_bias": not use_bias,
                        "layout": layout}
        if adj is not None:
            self._kwargs["adj"] = as_pair(adj, dims, 0)
        self.weight = self.params.get("weight", shape=self._weight_shape(in_channels),
                                      init=weight_initializer, allow_deferred_init=True)
        self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer,
                                    allow_deferred_init=True) if use_bias else None
        with self.name_scope():
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def _alias(self):
        return "conv"

    def _weight_shape(self, inputs):
        if self._op_name == "Deconvolution":
            return (inputs, self._channels // self._groups, *self._kernel)
        inputs = inputs // self._groups if inputs else 0
        if self._layout.endswith("C"):
            return (self._channels, *self._kernel, inputs)
        return (self._channels, inputs, *self._kernel)

    def infer_shape(self, x, *args):
        self.weight.shape = self._weight_shape(x.shape[self._layout.index("C")])

    def hybrid_forward(self, F, x, weight, bias=None):  # noqa: N803
        made = getattr(F, self._op_name)(x, weight, bias, name="fwd", **self._kwargs)
        return made if self.act is None else self.act(made)

    def __repr__(self):
        shape = self.weight.shape
        inputs = shape[0] if self._op_name == "Deconvolution" else shape[1] * self._groups
        text = (f"{type(self).__name__}({inputs or None} -> {self._channels}, "
                f"kernel_size={self._kernel}, stride={self._kwargs['stride']}")
        if any(self._kwargs["pad"]):
            text += f", padding={self._kwargs['pad']}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", {self.act})" if self.act else ")")


def _conv(dims, layout_name):
    class Conv(_Conv):
        def __init__(self, channels, kernel_size, strides=1, padding=0, dilation=1, groups=1,
                     layout=layout_name, activation=None, use_bias=True, weight_initializer=None,
                     bias_initializer="zeros", in_channels=0, **kwargs):
            super().__init__(dims, channels, kernel_size, strides, padding, dilation, groups,
                             layout, in_channels, activation, use_bias, weight_initializer,
                             bias_initializer, **kwargs)

    Conv.__name__ = Conv.__qualname__ = f"Conv{dims}D"
    Conv.__doc__ = f"Convolution over {dims} spatial axes."
    return Conv


def _conv_transpose(dims, layout_name):
    class ConvTranspose(_Conv):
        def __init__(self, channels, kernel_size, strides=1, padding=0, output_padding=0,
                     dilation=1, groups=1, layout=layout_name, activation=None, use_bias=True,
                     weight_initializer=None, bias_initializer="zeros", in_channels=0, **kwargs):
            super().__init__(dims, channels, kernel_size, strides, padding, dilation, groups,
                             layout, in_channels, activation, use_bias, weight_initializer,
                             bias_initializer, op_name="Deconvolution", adj=output_padding,
                             **kwargs)
            self.outpad = as_pair(output_padding, dims, 0)

    ConvTranspose.__name__ = ConvTranspose.__qualname__ = f"Conv{dims}DTranspose"
    ConvTranspose.__doc__ = f"Transposed convolution over {dims} spatial axes."
    return ConvTranspose


class _Pooling(HybridBlock):
    """What pools have."""

    def __init__(self, dims, pool_size, strides, padding, ceil_mode, global_pool, pool_type, layout,
                 count_include_pad=None, **kwargs):
        super().__init__(**kwargs)
        size = as_pair(pool_size, dims, 1)
        self._kwargs = {"kernel": size, "pad": as_pair(padding, dims, 0),
                        "stride": size if strides is None else as_pair(strides, dims, 1),
                        "global_pool": global_pool, "pool_type": pool_type, "layout": layout,
                        "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self):
        return "pool"

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self):
        k = self._kwargs
        return (f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, "
                f"padding={k['pad']}, ceil_mode={k['pooling_convention'] == 'full'}, "
                f"global_pool={k['global_pool']}, pool_type={k['pool_type']}, "
                f"layout={k['layout']})")


def _pool(kind, dims, layout_name):
    if kind == "max":
        class Pool(_Pooling):
            def __init__(self, pool_size=2, strides=None, padding=0, layout=layout_name,
                         ceil_mode=False, **kwargs):
                super().__init__(dims, pool_size, strides, padding, ceil_mode, False, kind, layout,
                                 **kwargs)
    else:
        class Pool(_Pooling):
            def __init__(self, pool_size=2, strides=None, padding=0, ceil_mode=False,
                         layout=layout_name, count_include_pad=True, **kwargs):
                super().__init__(dims, pool_size, strides, padding, ceil_mode, False, kind, layout,
                                 count_include_pad, **kwargs)

    Pool.__name__ = Pool.__qualname__ = f"{kind.capitalize()}Pool{dims}D"
    Pool.__doc__ = f"The {'largest' if kind == 'max' else 'mean'} of each window."
    return Pool


def _global_pool(kind, dims, layout_name):
    class Pool(_Pooling):
        def __init__(self, layout=layout_name, **kwargs):
            super().__init__(dims, 1, None, 0, True, True, kind, layout, **kwargs)

    Pool.__name__ = Pool.__qualname__ = f"Global{kind.capitalize()}Pool{dims}D"
    Pool.__doc__ = f"The {'largest' if kind == 'max' else 'mean'} of each channel."
    return Pool


for _dims, _layout in ((1, "NCW"), (2, "NCHW"), (3, "NCDHW")):
    for _made in (_conv(_dims, _layout), _conv_transpose(_dims, _layout),
                  *[maker(kind, _dims, _layout) for maker in (_pool, _global_pool)
                    for kind in ("max", "avg")]):
        _made.__module__ = __name__
        globals()[_made.__name__] = _made


class ReflectionPad2D(HybridBlock):
    """A mirror around pictures."""

    def __init__(self, padding=0, **kwargs):
        super().__init__(**kwargs)
        self._padding = (0, 0, 0, 0, *((padding,) * 4)) if isinstance(padding, int) else padding

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.pad(x, mode="reflect", pad_width=self._padding)


class _PixelShuffle(HybridBlock):
    """Channels to places."""

    _dims = 2

    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self._factors = as_pair(factor, self._dims, 1)

    def hybrid_forward(self, F, x):  # noqa: N803
        n, c, *space = x.shape
        count = 1
        for f in self._factors:
            count *= f
        x = F.reshape(x, shape=(n, c // count, *self._factors, *space))
        order = [0, 1]
        for i in range(self._dims):
            order += [2 + self._dims + i, 2 + i]
        x = F.transpose(x, axes=tuple(order))
        return F.reshape(x, shape=(n, c // count, *[s * f for s, f in zip(space, self._factors)]))


class PixelShuffle1D(_PixelShuffle):
    """Channels to places, one axis."""

    _dims = 1


class PixelShuffle2D(_PixelShuffle):
    """Channels to places, two axes."""


class PixelShuffle3D(_PixelShuffle):
    """Channels to places, three axes."""

    _dims = 3
