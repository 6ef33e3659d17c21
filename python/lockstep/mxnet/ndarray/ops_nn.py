# SPDX-License-Identifier: Apache-2.0
"""Layers as ops: convolutions, pools, normalisation, activations."""

import functools
import math

from lockstep import _core, functions, ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import MXNetError, as_pair, as_shape, dtype_name
from lockstep.mxnet.ndarray.memory import apart
from lockstep.mxnet.ndarray.ops_reduce import at_least_1d
from lockstep.mxnet.ndarray.registry import register, register_arrays


@register("FullyConnected")
def fully_connected(data, weight, bias=None, num_hidden=None, no_bias=False, flatten=True):
    """x W^T + b."""
    if data.ndim == 1:
        data = ops.reshape(data, (-1, 1))  # samples of one feature
    if no_bias or bias is None:
        return ops.dense(data, weight, flatten=bool(flatten))
    return ops.dense(data, weight, bias, bool(flatten))


def _channels_first(x, layout):
    """The array with channels in the second place, and whether that moved them."""
    if layout in (None, "None", "NCW", "NCHW", "NCDHW"):
        return x, False
    if layout not in ("NWC", "NHWC", "NDHWC"):
        raise MXNetError(f"layout: there is no '{layout}' (there are: NCW, NCHW, NCDHW, NHWC)")
    return ops.transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1))), True


def _channels_last(x, moved):
    return ops.transpose(x, (0, *range(2, x.ndim), 1)) if moved else x


@register("Convolution", "Convolution_v1")
def convolution(data, weight, bias=None, kernel=None, stride=(), dilate=(), pad=(), num_filter=None,
                num_group=1, workspace=1024, no_bias=False, cudnn_tune=None, cudnn_off=False,
                layout=None):
    """Convolution over 1, 2 or 3 spatial axes."""
    data, moved = _channels_first(data, layout)
    if moved:
        weight, _ = _channels_first(weight, layout)
    spatial = data.ndim - 2
    arguments = {"stride": as_pair(stride, spatial, 1), "padding": as_pair(pad, spatial, 0),
                 "dilation": as_pair(dilate, spatial, 1), "groups": int(num_group)}
    if no_bias or bias is None:
        return _channels_last(ops.conv(data, weight, **arguments), moved)
    return _channels_last(ops.conv(data, weight, bias, **arguments), moved)


@register("Deconvolution")
def deconvolution(data, weight, bias=None, kernel=None, stride=(), dilate=(), pad=(), adj=(),
                  target_shape=(), num_filter=None, num_group=1, workspace=512, no_bias=True,
                  cudnn_tune=None, cudnn_off=False, layout=None):
    """Convolution's transpose."""
    data, moved = _channels_first(data, layout)
    spatial = data.ndim - 2
    arguments = {"stride": as_pair(stride, spatial, 1), "padding": as_pair(pad, spatial, 0),
                 "dilation": as_pair(dilate, spatial, 1), "groups": int(num_group)}
    if target_shape and any(as_shape(target_shape)):
        arguments.update(_to_target(data, weight, as_pair(target_shape, spatial, 0), arguments))
    elif adj:
        arguments["output_padding"] = as_pair(adj, spatial, 0)
    if no_bias or bias is None:
        return _channels_last(ops.conv_transpose(data, weight, **arguments), moved)
    return _channels_last(ops.conv_transpose(data, weight, bias, **arguments), moved)


def _to_target(data, weight, target, arguments):
    """The margins that make a deconvolution's result as large as is wanted."""
    padding, behind = [], []
    for extent, k, step, d, wanted in zip(data.shape[2:], weight.shape[2:], arguments["stride"],
                                          arguments["dilation"], target):
        surplus = step * (extent - 1) + (k - 1) * d + 1 - wanted
        if surplus < 0:
            raise MXNetError(f"Deconvolution: the target_shape {target} is too large")
        padding.append((surplus + 1) // 2)
        behind.append(surplus % 2)
    return {"padding": tuple(padding), "output_padding": tuple(behind)}


def _pool(data, pool_type, kernel, stride, pad, ceil, count_include_pad, p_value):
    if pool_type == "max":
        return ops.max_pool(data, kernel=kernel, stride=stride, padding=pad, ceil_mode=ceil)[0]
    if pool_type == "avg":
        return ops.avg_pool(data, kernel=kernel, stride=stride, padding=pad, ceil_mode=ceil,
                            count_include_pad=count_include_pad)
    if pool_type == "sum":
        return _sum_pool(data, kernel, stride, pad, ceil)
    if pool_type == "lp":
        powers = ops.power(ops.abs(data), float(p_value))
        return ops.power(_sum_pool(powers, kernel, stride, pad, ceil), 1.0 / p_value)
    raise MXNetError(f"Pooling: there is no pool_type '{pool_type}' (there are: max, avg, sum, lp)")


def _sum_pool(data, kernel, stride, pad, ceil):
    """Sums of windows: means of as many elements each, with zeros where a window reaches beyond."""
    widths = [0, 0, 0, 0]
    for extent, k, step, p in zip(data.shape[2:], kernel, stride, pad):
        widths += [p, p + (-(extent + 2 * p - k) % step if ceil else 0)]
    whole = ops.pad(data, tuple(widths), 0.0)
    return ops.avg_pool(whole, kernel=kernel, stride=stride) * float(math.prod(kernel))


def _padded_behind(data, pool_type, kernel, stride):
    """As many elements more at the end of each axis as give ceil(extent / stride) windows."""
    widths = [0, 0, 0, 0]
    for extent, k, step in zip(data.shape[2:], kernel, stride):
        widths += [0, max(0, (-(-extent // step) - 1) * step + k - extent)]
    return ops.pad(data, tuple(widths), float("-inf") if pool_type == "max" else 0.0)


@register("Pooling", "Pooling_v1")
def pooling(data, kernel=(), pool_type="max", global_pool=False, cudnn_off=False,
            pooling_convention="valid", stride=(), pad=(), p_value=2, count_include_pad=True,
            layout=None):
    """The largest, the mean, the sum or a norm of windows."""
    data, moved = _channels_first(data, layout)
    spatial = data.ndim - 2
    if global_pool:
        axes = tuple(range(2, data.ndim))
        if pool_type == "max":
            return _channels_last(ops.max(data, axes, True), moved)
        if pool_type == "avg":
            return _channels_last(ops.mean(data, axes, True), moved)
        kernel, stride, pad = data.shape[2:], (), ()
    kernel, stride = as_pair(kernel, spatial, 1), as_pair(stride, spatial, 1)
    if pooling_convention == "same":
        if any(as_pair(pad, spatial, 0)):
            raise MXNetError("Pooling: 'same' pooling convention disables the use of pad parameter.")
        data = _padded_behind(data, pool_type, kernel, stride)
    made = _pool(data, pool_type, kernel, stride, as_pair(pad, spatial, 0),
                 pooling_convention == "full", count_include_pad is not False, p_value)
    return _channels_last(made, moved)


@register("_contrib_AdaptiveAvgPooling2D")
def adaptive_avg_pooling(data, output_size=1):
    """Means over as many windows as are wanted."""
    return ops.adaptive_avg_pool(data, as_pair(output_size, 2, 1))


@register("_contrib_BilinearResize2D")
def bilinear_resize(data, like=None, height=1, width=1, scale_height=None, scale_width=None,
                    mode="size", align_corners=True):
    """Pictures of another size."""
    if mode == "like":
        height, width = like.shape[2:]
    elif scale_height is not None:
        height, width = int(data.shape[2] * scale_height), int(data.shape[3] * scale_width)
    return ops.interpolate(data, (int(height), int(width)), "linear", bool(align_corners))


@register("UpSampling")
def up_sampling(*data, scale=2, num_filter=0, sample_type="nearest", multi_input_mode="concat",
                num_args=1, workspace=512):
    """Pictures that are larger by a factor; several in the size of the first, one behind the other.
    """
    x, scale = data[0], int(scale)
    if sample_type == "nearest":
        size = tuple(extent * scale for extent in x.shape[2:])
        parts = [ops.interpolate(part, size, "nearest") for part in data]
        if len(parts) == 1:
            return parts[0]
        return functools.reduce(ops.add, parts) if multi_input_mode == "sum" else ops.concat(
            parts, axis=1)
    return ops.conv_transpose(x, data[1], stride=(scale, scale), padding=(scale // 2,) * 2,
                              groups=x.shape[1])


_ACTIVATIONS = {
    "relu": ops.relu, "sigmoid": ops.sigmoid, "tanh": ops.tanh, "softrelu": ops.softplus,
    "softsign": lambda x: x / (ops.abs(x) + 1.0), "log_sigmoid": lambda x: -ops.softplus(-x),
    "mish": lambda x: x * ops.tanh(ops.softplus(x)),
}


@register("Activation")
def activation(data, act_type="relu"):
    """A function of each element by name."""
    if act_type not in _ACTIVATIONS:
        hint = ": drop it, the loss applies log-softmax itself" if act_type == "softmax" else ""
        raise MXNetError(f"Activation: there is no act_type '{act_type}'{hint} (there are: "
                         f"{', '.join(_ACTIVATIONS)})")
    return _ACTIVATIONS[act_type](data)


@register("LeakyReLU")
def leaky_relu(data, gamma=None, act_type="leaky", slope=0.25, lower_bound=0.125,
               upper_bound=0.334):
    """Activations that let negative elements pass."""
    if act_type == "leaky":
        return ops.leaky_relu(data, float(slope))
    if act_type == "elu":
        return ops.elu(data, float(slope))
    if act_type == "selu":
        return ops.selu(data)
    if act_type == "gelu":
        return ops.gelu(data)
    if act_type == "prelu":
        if gamma.size > 1 and data.ndim > 1:
            gamma = ops.reshape(gamma, (1, -1) + (1,) * (data.ndim - 2))
        return ops.where(data > 0, data, data * gamma)
    if act_type == "rrelu":
        if not _core.is_training():
            return ops.leaky_relu(data, (lower_bound + upper_bound) / 2)
        slopes = _random_state.draw(ops.uniform, data, shape=data.shape, low=lower_bound,
                                    high=upper_bound)
        return ops.where(data > 0, data, data * slopes)
    raise MXNetError(f"LeakyReLU: there is no act_type '{act_type}' (there are: leaky, elu, selu, "
                     "gelu, prelu, rrelu)")


def _scaled(data, temperature, dtype):
    if dtype is not None:
        data = ops.cast(data, dtype_name(dtype))
    return data if not temperature or temperature == 1.0 else data / float(temperature)


def _softmax(engine):
    def call(data, length=None, axis=-1, temperature=None, dtype=None, use_length=False):
        data = _scaled(data, temperature, dtype)
        if not use_length or length is None:
            return engine(data, int(axis))
        places = ops.arange(0, data.shape[axis], 1, "float32", data.device)
        places = ops.reshape(places, (-1,) + (1,) * (data.ndim - 1 - axis % data.ndim))
        keep = places < ops.expand_dims(ops.cast(length, "float32"), axis)
        made = engine(ops.where(keep, data, -1e30), int(axis))
        return ops.where(keep, made, 0.0)

    call.__doc__ = engine.__doc__
    return call


softmax = register("softmax")(_softmax(ops.softmax))
log_softmax = register("log_softmax")(_softmax(ops.log_softmax))


@register("softmin")
def softmin(data, axis=-1, temperature=None, dtype=None, use_length=False):
    """softmax of -x."""
    return ops.softmax(_scaled(-data, temperature, dtype), int(axis))


@register("SoftmaxActivation")
def softmax_activation(data, mode="instance"):
    """softmax over all but the batch, or over channels."""
    if mode == "channel":
        return ops.softmax(data, 1)
    return ops.reshape(ops.softmax(ops.reshape(data, (data.shape[0], -1)), -1), data.shape)


@register("masked_softmax")
def masked_softmax(data, mask, axis=-1, temperature=1.0):
    """softmax of what the mask lets pass."""
    keep = ops.not_equal(mask, 0)
    made = ops.softmax(ops.where(keep, _scaled(data, temperature, None), -1e30), int(axis))
    return ops.where(keep, made, 0.0)


def _update_running(running, batch, momentum):
    """running = momentum * running + (1 - momentum) * batch, outside of what is recorded."""
    with _core._pause(_core.is_training()):
        value = running._tensor * momentum + batch.detach() * (1.0 - momentum)
        if value.is_symbolic:
            running._tensor = value
        else:
            running._tensor.assign(value)


@register_arrays("BatchNorm", "BatchNorm_v1", "SyncBatchNorm", "_contrib_SyncBatchNorm")
def batch_norm(data, gamma, beta, moving_mean, moving_var, eps=1e-3, momentum=0.9, fix_gamma=True,
               use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False,
               min_calib_range=None, max_calib_range=None, ndev=1, key=None, name=None, out=None):
    """Normalised by the batch's statistics while training, else by the running ones, which
    training moves."""
    x, scale = data._tensor, gamma._tensor
    if fix_gamma:
        scale = _core.ones_like(scale.detach())
    axis, dtype = axis % x.ndim, x.dtype
    if scale.dtype != dtype:  # of 16 bits, with parameters and statistics of 32
        x = ops.cast(x, scale.dtype)
    if axis != 1:
        x = _core.swap_axes(x, 1, axis)
    if _core.is_training() and not use_global_stats:
        y, mean, var = functions.batch_norm(x, scale, beta._tensor, epsilon=float(eps))
        _update_running(moving_mean, mean, float(momentum))
        _update_running(moving_var, var, float(momentum))
    else:
        mean, var = moving_mean._tensor.detach(), moving_var._tensor.detach()
        y = ops.batch_norm_inference(x, scale, beta._tensor, mean, var, float(eps))
    y = y if y.dtype == dtype else ops.cast(y, dtype)
    if axis != 1:
        y = _core.swap_axes(y, 1, axis)
    kind = data._out
    if output_mean_var:
        # MXNet's third output is what was multiplied by.
        return [kind(y), kind(mean), kind(ops.rsqrt(var + float(eps)))]
    return kind(y)


@register("LayerNorm")
def layer_norm(data, gamma, beta, axis=-1, eps=1e-5, output_mean_var=False):
    """Each row normalised."""
    axis = axis % data.ndim
    if axis != data.ndim - 1:
        data = _core.swap_axes(data, axis, data.ndim - 1)
    y, mean, rstd = ops.layer_norm(data, gamma, beta, float(eps))
    if axis != y.ndim - 1:
        y = _core.swap_axes(y, axis, y.ndim - 1)
    return (y, mean, 1.0 / rstd) if output_mean_var else y


@register("GroupNorm")
def group_norm(data, gamma, beta, num_groups=1, eps=1e-5, output_mean_var=False):
    """Channels normalised by groups."""
    shape = data.shape
    x = ops.reshape(data, (shape[0], int(num_groups), -1))
    mean = ops.mean(x, (2,), True)
    var = ops.var(x, (2,), True)
    x = ops.reshape((x - mean) * ops.rsqrt(var + float(eps)), shape)
    if gamma.size == num_groups and gamma.size != shape[1]:
        gamma, beta = (ops.repeat(g, shape[1] // int(num_groups)) for g in (gamma, beta))
    channels = (1, -1) + (1,) * (len(shape) - 2)
    return x * ops.reshape(gamma, channels) + ops.reshape(beta, channels)


@register("InstanceNorm")
def instance_norm(data, gamma, beta, eps=1e-3):
    """Each channel of each sample normalised."""
    axes = tuple(range(2, data.ndim))
    mean, var = ops.mean(data, axes, True), ops.var(data, axes, True)
    channels = (1, -1) + (1,) * (data.ndim - 2)
    y = (data - mean) * ops.rsqrt(var + float(eps))
    return y * ops.reshape(gamma, channels) + ops.reshape(beta, channels)


@register("L2Normalization")
def l2_normalization(data, eps=1e-10, mode="instance"):
    """Divided by the 2-norm of each sample, channel or place."""
    axes = {"instance": tuple(range(1, data.ndim)), "channel": (1,),
            "spatial": tuple(range(2, data.ndim))}[mode]
    return data / ops.sqrt(ops.sum(ops.square(data), axes, True) + float(eps))


@register("LRN")
def lrn(data, alpha=1e-4, beta=0.75, knorm=2.0, nsize=5):
    """Divided by what neighbouring channels have."""
    half = int(nsize) // 2
    squares = ops.pad(ops.square(data), (0, 0, half, half) + (0, 0) * (data.ndim - 2))
    total = squares[:, 0:data.shape[1]]
    for i in range(1, int(nsize)):
        total = total + squares[:, i:i + data.shape[1]]
    return data * ops.power(float(knorm) + float(alpha) / nsize * total, -float(beta))


@register("Dropout")
def dropout(data, p=0.5, mode="training", axes=(), cudnn_off=False):
    """Zeros in places by chance, while training."""
    p = float(p)
    if p <= 0.0 or not (_core.is_training() or mode == "always"):
        return apart(data)
    if not axes:
        return _random_state.draw(ops.dropout, data, data, p=p)
    shape = tuple(1 if i in as_shape(axes) else extent for i, extent in enumerate(data.shape))
    keep = _random_state.draw(ops.bernoulli, data, shape=shape, p=1.0 - p, dtype=data.dtype)
    return data * keep * (1.0 / (1.0 - p))


@register("BilinearSampler")
def bilinear_sampler(data, grid, cudnn_off=None):
    """Pictures read at the places of a grid in [-1, 1]."""
    return ops.grid_sample(data, ops.transpose(grid, (0, 2, 3, 1)), "bilinear", "zeros", True)


@register("ROIPooling")
def roi_pooling(data, rois, pooled_size=None, spatial_scale=1.0):
    """The largest elements of as many bins of each region: (picture, x0, y0, x1, y1)."""
    rows, columns = as_pair(pooled_size, 2, 1)
    height, width = data.shape[2:]
    made = []
    for picture, *corners in rois.detach().numpy().tolist():
        x0, y0, x1, y1 = (math.floor(c * spatial_scale + 0.5) for c in corners)
        ys = _bins(y0, max(y1 - y0 + 1, 1), rows, height)
        xs = _bins(x0, max(x1 - x0 + 1, 1), columns, width)
        parts = [_largest(data, int(picture), y, x) for y in ys for x in xs]
        made.append(ops.reshape(_core.stack(parts, 1), (data.shape[1], rows, columns)))
    return _core.stack(made, 0)


def _bins(start, extent, count, limit):
    """The range of each bin, inside of the picture."""
    size = extent / count
    return [(min(max(math.floor(i * size) + start, 0), limit),
             min(max(math.ceil((i + 1) * size) + start, 0), limit)) for i in range(count)]


def _largest(data, picture, y, x):
    if y[0] >= y[1] or x[0] >= x[1]:
        return ops.full((data.shape[1],), 0.0, data.dtype)
    return ops.max(data[picture, :, y[0]:y[1], x[0]:x[1]], (1, 2))


@register("GridGenerator")
def grid_generator(data, transform_type="affine", target_shape=(0, 0)):
    """Places in [-1, 1] of an affine map, or of a flow."""
    if transform_type != "affine":
        height, width = data.shape[2:]
        x = ops.reshape(ops.arange(0, width, 1), (1, 1, width)) + data[:, 0]
        y = ops.reshape(ops.arange(0, height, 1), (1, height, 1)) + data[:, 1]
        return _core.stack([x * (2.0 / max(width - 1, 1)) - 1, y * (2.0 / max(height - 1, 1)) - 1],
                           1)
    height, width = as_shape(target_shape)
    xs = ops.expand(ops.reshape(ops.linspace(-1, 1, width), (1, width)), (height, width))
    ys = ops.expand(ops.reshape(ops.linspace(-1, 1, height), (height, 1)), (height, width))
    places = ops.reshape(_core.stack([xs, ys, _core.ones_like(xs)], 0), (3, -1))
    made = ops.matmul(ops.reshape(data, (-1, 2, 3)), places)
    return ops.reshape(made, (data.shape[0], 2, height, width))


@register("SpatialTransformer")
def spatial_transformer(data, loc, target_shape=(0, 0), transform_type="affine",
                        sampler_type="bilinear", cudnn_off=None):
    """Pictures under an affine map each."""
    return bilinear_sampler(data, grid_generator(loc, "affine", target_shape))


@register("softmax_cross_entropy")
def softmax_cross_entropy(data, label):
    """The sum over the batch of -log softmax(data)[label]."""
    return at_least_1d(ops.sum(_core.softmax_cross_entropy(data, ops.cast(label, "int64"))))



@register("_softmax_cross_entropy_rows")
def softmax_cross_entropy_rows(data, label):
    """-log softmax(data)[label] of each row."""
    numbers = ops.clip(ops.reshape(ops.cast(label, "int64"), (-1,)), 0, data.shape[1] - 1)
    return _core.softmax_cross_entropy(data, numbers)
