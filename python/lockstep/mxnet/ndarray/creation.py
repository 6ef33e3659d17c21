# SPDX-License-Identifier: Apache-2.0
"""Arrays out of nothing, of files and of other people's arrays."""

import numpy as np

from lockstep import _core, ops
from lockstep.mxnet.base import MXNetError, as_shape, dtype_name
from lockstep.mxnet.context import device_for
from lockstep.mxnet.ndarray.memory import move
from lockstep.mxnet.ndarray.ndarray import NDArray, _tensor_of
from lockstep.mxnet.ndarray.registry import into, register_arrays

_SCIPY = ("scipy.sparse",)


def array(source_array, ctx=None, dtype=None):
    """An array with a copy of what the source holds: float32 unless told otherwise."""
    if isinstance(source_array, NDArray):
        if source_array.stype != "default":
            from lockstep.mxnet.ndarray import sparse

            return sparse.array(source_array, ctx, dtype)
        name = source_array._tensor.dtype.name if dtype is None else dtype_name(dtype)
        tensor = source_array._tensor.detach().copy()
        if name != tensor.dtype.name:
            tensor = ops.cast(tensor, name)
        device = device_for(ctx)
        return NDArray(tensor if device == 0 and tensor.device.index == 0 else move(tensor, device))
    if type(source_array).__module__.startswith(_SCIPY):
        from lockstep.mxnet.ndarray import sparse

        return sparse.array(source_array, ctx, dtype)
    if isinstance(source_array, (list, tuple)) and any(
            isinstance(item, NDArray) for item in source_array):
        source_array = [item.asnumpy() if isinstance(item, NDArray) else item
                        for item in source_array]
    try:
        return NDArray(_tensor_of(source_array, dtype_name(dtype), device_for(ctx)))
    except (TypeError, ValueError) as error:
        if isinstance(error, MXNetError):
            raise
        raise TypeError(f"nd.array: {type(source_array).__name__} is no array of numbers "
                        f"({error})") from None


def from_numpy(ndarray, zero_copy=True):
    """An array on NumPy's memory."""
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    if not ndarray.flags.writeable and ndarray.flags.owndata:
        # Made so by an earlier call: both arrays are the same memory.
        ndarray.flags.writeable = True
    shared = _core._share_buffer(ndarray) if ndarray.flags.c_contiguous else None
    if shared is None:
        raise ValueError("from_numpy: only C-contiguous arrays of a known dtype can be shared")
    # The memory is the new array's from here on: who writes to the old one is told.
    ndarray.flags.writeable = False
    return NDArray(shared)


def from_dlpack(dlpack):
    """An array on the memory of another library's."""
    return NDArray(_core.from_dlpack(dlpack))


def to_dlpack_for_read(data):
    """A capsule on an array's memory."""
    return _core._to_dlpack(data._tensor)


to_dlpack_for_write = to_dlpack_for_read


def _filled(value):
    def create(shape, ctx=None, dtype=None, out=None, name=None, stype=None, **kwargs):
        if stype not in (None, "default"):
            from lockstep.mxnet.ndarray import sparse

            return sparse.zeros(stype, shape, ctx, dtype)
        made = NDArray(ops.full(as_shape(shape), value, dtype_name(dtype), device_for(ctx)))
        return made if out is None else into(out, made)

    return create


zeros, ones = _filled(0.0), _filled(1.0)
zeros.__name__, ones.__name__ = "zeros", "ones"
register_arrays("_zeros")(zeros)
register_arrays("_ones")(ones)


def empty(shape, ctx=None, dtype=None, stype=None):
    """Of the shape; contents are zeros."""
    return zeros(shape, ctx, dtype, stype=stype)


@register_arrays("_full")
def full(shape, val=0.0, ctx=None, dtype=None, out=None, value=None, name=None):
    """All of one value."""
    value = val if value is None else value
    made = NDArray(ops.full(as_shape(shape), float(value), dtype_name(dtype), device_for(ctx)))
    return made if out is None else into(out, made)


def full_like(a, fill_value, ctx=None, dtype=None):
    """All of one value, in the shape of another."""
    return full(a.shape, fill_value, ctx or a.context, dtype or a.dtype)


@register_arrays("_arange")
def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype="float32",
           name=None):
    """Numbers from start to stop, each `repeat` times."""
    if stop is None:
        start, stop = 0, start
    made = ops.arange(float(start), float(stop), float(step), dtype_name(dtype), device_for(ctx))
    return NDArray(ops.repeat(made, int(repeat), 0) if repeat != 1 else made)


@register_arrays("_linspace")
def linspace(start, stop, num, endpoint=True, ctx=None, dtype="float32"):
    """Numbers at equal distances."""
    last = stop if endpoint else start + (stop - start) * (num - 1) / max(num, 1)
    return NDArray(ops.linspace(float(start), float(last), int(num), dtype_name(dtype),
                                device_for(ctx)))


@register_arrays("_eye")
def eye(N, M=0, k=0, ctx=None, dtype="float32", **kwargs):  # noqa: N803 - MXNet's names
    """Ones on a diagonal."""
    return NDArray(ops.eye(int(N), int(M) or int(N), int(k), dtype_name(dtype), device_for(ctx)))


def concatenate(arrays, axis=0, always_copy=True):
    """One after another along an axis."""
    return arrays[0]._out(ops.concat([a._tensor for a in arrays], axis=axis))


def normal_axes(axes, ndim, what):
    """Axes counted from the front, each once."""
    axes = as_shape(axes)
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ValueError(f"{what}: there is no axis of {axes} among {ndim}")
    normal = [axis % ndim for axis in axes]
    if len(set(normal)) != len(normal):
        raise ValueError(f"{what}: {axes} names an axis twice")
    return normal


def moveaxis(tensor, source, destination):
    """Axes to other places, the others in their order."""
    sources, places = (normal_axes(axes, tensor.ndim, "moveaxis")
                       for axes in (source, destination))
    if len(sources) != len(places):
        raise ValueError(f"moveaxis: {len(sources)} axes, but {len(places)} places for them")
    order = [axis for axis in range(tensor.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources)):
        order.insert(place, axis)
    return tensor._out(ops.transpose(tensor._tensor, tuple(order)))


def onehot_encode(indices, out):
    """Writes one-hot rows to `out`."""
    from lockstep.mxnet.ndarray.registry import op

    return into(out, op("one_hot")(indices, out.shape[1]))


def meshgrid(*arrays, indexing="xy"):
    """The coordinates of a grid."""
    made = np.meshgrid(*[a.asnumpy() for a in arrays], indexing=indexing)
    return [array(part) for part in made]


def histogram(a, bins=10, range=None):  # noqa: A002 - MXNet's name
    """How many elements are in each bin, and the bins' edges."""
    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    counts, edges = np.histogram(a.asnumpy(), edges, range)
    return array(counts, dtype="int64"), array(edges)


def waitall():
    """Computation is done when a call returns."""


def imdecode(str_img, clip_rect=(0, 0, 0, 0), out=None, index=0, channels=3, mean=None):
    """A picture's pixels; mx.image.imdecode."""
    from lockstep.mxnet import image

    return image.imdecode(str_img, flag=1 if channels == 3 else 0)


def _tensors(data):
    if isinstance(data, NDArray):
        return [data]
    if isinstance(data, dict):
        bad = [key for key, value in data.items() if not isinstance(value, NDArray)]
        if bad:
            raise TypeError(f"nd.save: '{bad[0]}' is no array")
        return data
    if isinstance(data, (list, tuple)) and all(isinstance(item, NDArray) for item in data):
        return list(data)
    raise TypeError("nd.save: expected an array, a list of arrays, or a dict of them by name")


def save(fname, data):
    """Writes a .params file: an array, a list, or a dict by name."""
    from lockstep.mxnet import _files

    _files.save_params(fname, _tensors(data))


def _wrapped(value):
    if isinstance(value, _core.Tensor):
        return NDArray(value)
    from lockstep.mxnet.ndarray import sparse

    kind = sparse.CSRNDArray if value.stype == "csr" else sparse.RowSparseNDArray
    return kind(value.dense())


def load(fname):
    """What nd.save, Gluon or Module wrote: a list, or a dict by name."""
    from lockstep.mxnet import _files

    return _loaded(_files.load_params(fname))


def _loaded(loaded):
    if isinstance(loaded, dict):
        return {key: _wrapped(value) for key, value in loaded.items()}
    return [_wrapped(value) for value in loaded]


def load_frombuffer(buf):
    """Of a .params file's bytes."""
    from lockstep.mxnet import _files

    return _loaded(_files.load_bytes(buf))


@register_arrays("_contrib_arange_like")
def arange_like(data, start=0.0, step=1.0, repeat=1, ctx=None, axis=None):
    """Numbers, as many as an array has elements, or along an axis."""
    count = data.size if axis is None else data.shape[axis]
    made = ops.arange(float(start), float(start) + step * count, float(step), "float32",
                      data._tensor.device)
    return data._out(ops.reshape(made, data.shape) if axis is None else made)


@register_arrays("shuffle", "_shuffle")
def shuffle(data, out=None, name=None):
    """Rows in random order."""
    from lockstep.mxnet import _random_state

    order = _random_state.draw(ops.permutation, None, n=data.shape[0])
    made = data._out(ops.take(data._tensor, order.to(data._tensor.device), 0))
    return made if out is None else into(out, made)


__all__ = ["arange", "array", "concatenate", "empty", "eye", "from_dlpack", "from_numpy", "full",
           "full_like", "histogram", "imdecode", "linspace", "load", "load_frombuffer", "meshgrid",
           "moveaxis", "ones", "onehot_encode", "save", "to_dlpack_for_read",
           "to_dlpack_for_write", "waitall", "zeros"]
