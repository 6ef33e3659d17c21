# SPDX-License-Identifier: Apache-2.0
"""Shapes, parts and places."""

from lockstep import _core, ops
from lockstep.functions import split as split_parts
from lockstep.mxnet.base import MXNetError, as_shape, dtype_name
from lockstep.mxnet.ndarray.indexing import written
from lockstep.mxnet.ndarray.ops_reduce import at_least_1d
from lockstep.mxnet.ndarray.registry import register
from lockstep.mxnet.ndarray.shapes import infer_shape


@register("reshape", "Reshape", window=True)
def reshape(data, shape=(), reverse=False, target_shape=None, keep_highest=False):
    """The same elements in another shape, with MXNet's codes."""
    return ops.reshape(data, infer_shape(data.shape, as_shape(shape or target_shape), reverse))


@register("reshape_like", window=True)
def reshape_like(lhs, rhs, lhs_begin=None, lhs_end=None, rhs_begin=None, rhs_end=None):
    """lhs in rhs's shape, or some of its axes."""
    def part(ndim, begin, end):
        begin = 0 if begin is None else begin % ndim
        return begin, ndim if end is None else (end % ndim if end < 0 else end)

    lb, le = part(lhs.ndim, lhs_begin, lhs_end)
    rb, re = part(rhs.ndim, rhs_begin, rhs_end)
    return ops.reshape(lhs, lhs.shape[:lb] + rhs.shape[rb:re] + lhs.shape[le:])


@register("flatten", "Flatten", window=True)
def flatten(data):
    """[N, ...] as a matrix."""
    return ops.reshape(data, (data.shape[0], -1)) if data.size else ops.reshape(
        data, (data.shape[0], 0))


@register("transpose", window=True)
def transpose(data, axes=()):
    """Axes in another order."""
    return ops.transpose(data, as_shape(axes) if axes is not None else ())


@register("expand_dims", window=True)
def expand_dims(data, axis):
    """One more axis."""
    return ops.expand_dims(data, int(axis))


@register("squeeze", window=True)
def squeeze(data, axis=None):
    """Without axes of one element."""
    if axis is None:
        axes = tuple(i for i, extent in enumerate(data.shape) if extent == 1)
    else:
        axes = tuple(a % data.ndim for a in as_shape(axis))
    return at_least_1d(ops.squeeze(data, axes)) if axes else data


@register("swapaxes", "SwapAxis", window=True)
def swapaxes(data, dim1=0, dim2=0):
    """Two axes in each other's place."""
    return _core.swap_axes(data, int(dim1), int(dim2))


@register("slice", "crop", window=True)
def slice_(data, begin, end, step=()):
    """From begin to end, axis by axis; None is from or to the edge."""
    begin, end = _tuple(begin), _tuple(end)
    step = _tuple(step) or (None,) * len(begin)
    return data[tuple(slice(b, e, s) for b, e, s in zip(begin, end, step))]


def _tuple(value):
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


@register("slice_axis", window=True)
def slice_axis(data, axis, begin, end):
    """From begin to end along one axis."""
    key = [slice(None)] * data.ndim
    key[axis] = slice(begin, end)
    return data[tuple(key)]


@register("slice_like", window=True)
def slice_like(data, shape_like, axes=()):
    """As large as another array along axes."""
    axes = [a % data.ndim for a in _tuple(axes)] or range(data.ndim)
    key = [slice(None)] * data.ndim
    for axis in axes:
        key[axis] = slice(0, shape_like.shape[axis])
    return data[tuple(key)]


@register("split", "SliceChannel")
def split(data, num_outputs=1, axis=1, squeeze_axis=False):
    """Equal parts along an axis."""
    num_outputs = int(num_outputs)
    if data.shape[axis] % num_outputs:
        raise MXNetError(f"split: {data.shape[axis]} elements along axis {axis} are not "
                         f"{num_outputs} equal parts")
    parts = split_parts(data, num_outputs, int(axis))
    if squeeze_axis:
        parts = [at_least_1d(ops.squeeze(part, (axis,))) for part in parts]
    return list(parts) if len(parts) > 1 else parts[0]


@register("split_v2", "_split_v2", window=True)
def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Equal parts, or parts that begin at positions."""
    extent = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        parts = split_parts(ary, indices_or_sections, axis)
    else:
        bounds = [0, *indices_or_sections, extent]
        parts = [slice_axis(ary, axis, a, b) for a, b in zip(bounds, bounds[1:])]
    return [ops.squeeze(part, (axis,)) for part in parts] if squeeze_axis else list(parts)


@register("concat", "Concat")
def concat(*data, dim=1, num_args=None, axis=None):
    """One after another along an axis."""
    data = list(data[0]) if len(data) == 1 and isinstance(data[0], (list, tuple)) else list(data)
    return ops.concat(data, axis=int(dim if axis is None else axis))


@register("stack")
def stack(*data, axis=0, num_args=None):
    """Along a new axis."""
    data = list(data[0]) if len(data) == 1 and isinstance(data[0], (list, tuple)) else list(data)
    return _core.stack(data, axis)


@register("tile")
def tile(data, reps=()):
    """Copies of the whole."""
    reps = as_shape(reps)
    if len(reps) < data.ndim:
        reps = (1,) * (data.ndim - len(reps)) + reps
    if len(reps) > data.ndim:
        data = ops.reshape(data, (1,) * (len(reps) - data.ndim) + data.shape)
    return ops.tile(data, reps)


@register("repeat")
def repeat(data, repeats, axis=None):
    """Each element several times."""
    if axis is None:
        data, axis = ops.reshape(data, (-1,)), 0
    return ops.repeat(data, int(repeats), int(axis))


@register("pad", "Pad")
def pad(data, mode="constant", pad_width=(), constant_value=0.0):
    """Elements before and after each axis."""
    return ops.pad(data, tuple(pad_width), float(constant_value), mode)


@register("flip", "reverse", window=True)
def flip(data, axis):
    """Backwards along axes."""
    return ops.flip(data, as_shape(axis))


@register("broadcast_to", window=True)
def broadcast_to(data, shape=()):
    """Axes of one element repeated; 0 keeps an extent."""
    return ops.expand(data, tuple(o if s == 0 else s for o, s in zip(data.shape, as_shape(shape))))


@register("broadcast_axis", "broadcast_axes", window=True)
def broadcast_axis(data, axis=(), size=()):
    """Axes of one element repeated."""
    shape = list(data.shape)
    for a, extent in zip(as_shape(axis), as_shape(size)):
        shape[a] = extent
    return ops.expand(data, tuple(shape))


@register("broadcast_like", window=True)
def broadcast_like(lhs, rhs, lhs_axes=None, rhs_axes=None):
    """Broadcast to another's shape."""
    if lhs_axes is None and rhs_axes is None:
        return ops.expand(lhs, rhs.shape)
    lhs_axes, rhs_axes = as_shape(lhs_axes or ()), as_shape(rhs_axes or ())
    if not lhs_axes or len(lhs_axes) != len(rhs_axes):
        raise MXNetError(f"broadcast_like: lhs_axes {lhs_axes} and rhs_axes {rhs_axes} are to be "
                         "as many, and at least one")
    shape = list(lhs.shape)
    for a, b in zip(lhs_axes, rhs_axes):
        shape[a] = rhs.shape[b]
    return ops.expand(lhs, tuple(shape))


@register("depth_to_space")
def depth_to_space(data, block_size):
    """Channels to blocks of pixels."""
    n, c, h, w = data.shape
    b = int(block_size)
    x = ops.reshape(data, (n, b, b, c // (b * b), h, w))
    return ops.reshape(ops.transpose(x, (0, 3, 4, 1, 5, 2)), (n, c // (b * b), h * b, w * b))


@register("space_to_depth")
def space_to_depth(data, block_size):
    """Blocks of pixels to channels."""
    n, c, h, w = data.shape
    b = int(block_size)
    x = ops.reshape(data, (n, c, h // b, b, w // b, b))
    return ops.reshape(ops.transpose(x, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))


@register("shape_array")
def shape_array(data):
    """The shape as int64."""
    return _core.Tensor(list(data.shape), "int64")


@register("size_array")
def size_array(data):
    """The number of elements as int64."""
    return _core.Tensor([data.size], "int64")


@register("diag", window=True)
def diag(data, k=0, axis1=0, axis2=1):
    """A diagonal, or a matrix that has one."""
    if data.ndim == 1:
        return _core.diag(data, int(k))
    return ops.diagonal(data, int(k), int(axis1), int(axis2))


def indices(x):
    """Positions, whatever dtype they are in."""
    return x if x.dtype.name in ("int64", "int32") else ops.cast(x, "int64")


def _within(positions, extent, mode):
    if mode == "wrap":
        return ops.remainder(positions, extent)
    return ops.clip(positions, 0, extent - 1)


@register("take")
def take(a, indices_=None, axis=0, mode="clip", **kwargs):
    """Rows by number; numbers that are too large are the last row's ('clip') or start again."""
    wanted = indices(kwargs.pop("indices", indices_))
    if mode != "raise":
        wanted = _within(wanted, a.shape[axis], mode)
    return ops.take(a, wanted, int(axis))


@register("batch_take")
def batch_take(a, indices_=None, **kwargs):
    """One element of each row."""
    return ops.pick(a, indices(kwargs.pop("indices", indices_)), 1)


@register("pick", "choose_element_0index")
def pick(data, index, axis=-1, keepdims=False, mode="clip"):
    """One element along an axis for each place of the others."""
    if axis is None:
        return ops.take(ops.reshape(data, (-1,)), indices(index), 0)
    axis = axis % data.ndim
    wanted = _within(indices(index), data.shape[axis], mode)
    if wanted.ndim == data.ndim:
        wanted = ops.squeeze(wanted, (axis,))
    made = ops.pick(data, wanted, axis)
    return ops.expand_dims(made, axis) if keepdims else at_least_1d(made)


@register("fill_element_0index")
def fill_element_0index(lhs, mhs, rhs):
    """A matrix with the element of each row that rhs names replaced by mhs's."""
    places = ops.expand_dims(_within(indices(rhs), lhs.shape[1], "clip"), 1)
    return ops.scatter(lhs, places, ops.expand_dims(ops.cast(mhs, lhs.dtype), 1), 1)


def _slice_assigned(data, value, begin, end, step):
    begin, end = _tuple(begin), _tuple(end)
    step = _tuple(step) or (None,) * len(begin)
    return written(data, tuple(slice(b, e, s) for b, e, s in zip(begin, end, step)), value)


@register("_slice_assign", "_crop_assign")
def slice_assign(lhs, rhs, begin, end, step=()):
    """lhs with a part replaced by rhs."""
    return _slice_assigned(lhs, rhs, begin, end, step)


@register("_slice_assign_scalar", "_crop_assign_scalar")
def slice_assign_scalar(data, scalar=0.0, begin=(), end=(), step=()):
    """data with a part replaced by a number."""
    value = ops.full((1,) * data.ndim, float(scalar), data.dtype, data.device)
    return _slice_assigned(data, value, begin, end, step)


@register("one_hot")
def one_hot(indices_=None, depth=None, on_value=1.0, off_value=0.0, dtype="float32", **kwargs):
    """A row with one 1 for each number; of numbers out of range, a row without."""
    wanted = indices(kwargs.pop("indices", indices_))
    classes = ops.arange(0, int(depth), 1, wanted.dtype, wanted.device)
    made = ops.cast(ops.equal(ops.expand_dims(wanted, -1), classes), dtype_name(dtype))
    if (on_value, off_value) != (1.0, 0.0):
        made = made * (on_value - off_value) + off_value
    return made


@register("gather_nd")
def gather_nd(data, indices_=None, **kwargs):
    """data[indices[0], indices[1], ...]."""
    places = indices(kwargs.pop("indices", indices_))
    return at_least_1d(data[tuple(places[i] for i in range(places.shape[0]))])


@register("scatter_nd")
def scatter_nd(data, indices_=None, shape=None, **kwargs):
    """Zeros with data at places; what comes twice is added."""
    places = indices(kwargs.pop("indices", indices_))
    shape = as_shape(shape)
    count = places.shape[0]
    rows = ops.ravel_index([places[i] for i in range(count)], dims=shape[:count])
    rows = ops.reshape(rows, (-1,))
    extent = 1
    for s in shape[:count]:
        extent *= s
    updates = ops.reshape(data, (rows.shape[0], -1))
    zeros = ops.full((extent, updates.shape[1]), 0.0, data.dtype, data.device)
    index = ops.expand(ops.reshape(rows, (-1, 1)), updates.shape)
    return ops.reshape(ops.scatter_add(zeros, index, updates, 0), shape)


@register("ravel_multi_index", "_ravel_multi_index")
def ravel_multi_index(data, shape=()):
    """Places as numbers."""
    places = indices(data)
    made = ops.ravel_index([places[i] for i in range(places.shape[0])], dims=as_shape(shape))
    return ops.cast(made, data.dtype)


@register("unravel_index", "_unravel_index")
def unravel_index(data, shape=()):
    """Numbers as places."""
    left, parts = indices(data), []
    for extent in reversed(as_shape(shape)):
        parts.append(ops.remainder(left, extent))
        left = ops.floor_divide(left, extent)
    return ops.cast(_core.stack(parts[::-1], 0), data.dtype)


@register("index_copy", "_contrib_index_copy")
def index_copy(old_tensor, index_vector, new_tensor):
    """old_tensor with rows replaced."""
    places = ops.reshape(indices(index_vector), (-1,) + (1,) * (old_tensor.ndim - 1))
    return ops.scatter(old_tensor, ops.expand(places, new_tensor.shape), new_tensor, 0)


@register("Embedding", "_contrib_SparseEmbedding")
def embedding(data, weight, input_dim=None, output_dim=None, dtype=None, sparse_grad=False):
    """Rows of a table."""
    return ops.embedding(indices(data), weight)


@register("Crop", window=True)
def crop_like(*data, offset=(0, 0), h_w=(0, 0), center_crop=False, num_args=None):
    """The middle, or a corner, of pictures."""
    x = data[0]
    height, width = data[1].shape[2:] if len(data) > 1 else h_w
    top, left = ((x.shape[2] - height) // 2, (x.shape[3] - width) // 2) if center_crop else offset
    return x[:, :, top:top + height, left:left + width]


def _steps(x, use_sequence_length, sequence_length, axis):
    """[T, N] positions along time, and the lengths beside them."""
    time, batch = (x.shape[0], x.shape[1]) if axis == 0 else (x.shape[1], x.shape[0])
    positions = ops.reshape(ops.arange(0, time, 1, "float32", x.device), (time, 1))
    if not use_sequence_length:
        return positions, ops.full((1, batch), float(time), "float32", x.device)
    return positions, ops.reshape(ops.cast(sequence_length, "float32"), (1, batch))


@register("SequenceMask")
def sequence_mask(data, sequence_length=None, use_sequence_length=False, value=0.0, axis=0):
    """A value beyond the end of each sequence."""
    if not use_sequence_length:
        return data + 0
    positions, lengths = _steps(data, True, sequence_length, axis)
    keep = positions < lengths
    keep = keep if axis == 0 else ops.transpose(keep)
    keep = ops.reshape(keep, keep.shape + (1,) * (data.ndim - 2))
    return ops.where(keep, data, ops.full((1,), value, data.dtype, data.device))


@register("SequenceLast", window=True)
def sequence_last(data, sequence_length=None, use_sequence_length=False, axis=0):
    """The last step of each sequence."""
    if axis == 1:
        data = _core.swap_axes(data, 0, 1)
    if not use_sequence_length:
        return data[-1]
    last = ops.cast(sequence_length, "int64") - 1
    rows = ops.arange(0, data.shape[1], 1, "int64", data.device)
    flat = ops.reshape(data, (-1,) + data.shape[2:])
    return ops.take(flat, last * data.shape[1] + rows, 0)


@register("SequenceReverse", window=True)
def sequence_reverse(data, sequence_length=None, use_sequence_length=False, axis=0):
    """Each sequence backwards; what is beyond its end stays."""
    if not use_sequence_length:
        return ops.flip(data, (0,))
    positions, lengths = _steps(data, True, sequence_length, 0)
    source = ops.where(positions < lengths, lengths - 1 - positions, positions)
    batch = ops.reshape(ops.arange(0, data.shape[1], 1, "float32", data.device), (1, -1))
    rows = ops.reshape(ops.cast(source * data.shape[1] + batch, "int64"), (-1,))
    flat = ops.reshape(data, (-1,) + data.shape[2:])
    return ops.reshape(ops.take(flat, rows, 0), data.shape)
