# SPDX-License-Identifier: Apache-2.0
"""Shapes, joins, cuts, and choices of elements."""

import numpy as onp

import lockstep as ls
from lockstep import _core, ops
from lockstep.mxnet.ndarray.memory import owning
from lockstep.mxnet.numpy._wrap import as_tensor, on_arrays

__all__ = ["append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays",
           "broadcast_to", "column_stack", "concatenate", "diag", "diagflat", "diagonal", "diff",
           "dsplit", "dstack", "ediff1d", "expand_dims", "flatnonzero", "flip", "fliplr", "flipud",
           "hsplit", "hstack", "moveaxis", "ndim", "nonzero", "pad", "ravel", "repeat", "reshape",
           "resize", "roll", "rollaxis", "rot90", "row_stack", "shape", "size", "split", "squeeze",
           "stack", "swapaxes", "take", "tile", "trace", "transpose", "tril", "triu", "unique",
           "vsplit", "vstack", "take_along_axis", "concat", "argwhere", "unravel_index"]


def _list(arrays):
    return [as_tensor(a) for a in (arrays if isinstance(arrays, (list, tuple)) else list(arrays))]


def _tuple(value):
    return (int(value),) if isinstance(value, (int, onp.integer)) else tuple(int(v) for v in value)


@on_arrays
@owning
def reshape(a, newshape, order="C", reverse=False):
    """The same elements in another shape."""
    return ops.reshape(a, _tuple(newshape))


@on_arrays
@owning
def ravel(a, order="C"):
    """One axis."""
    return ops.reshape(a, (-1,))


@on_arrays
@owning
def transpose(a, axes=None):
    """Axes in another order."""
    return ops.transpose(a) if axes is None else ops.transpose(a, _tuple(axes))


@on_arrays
@owning
def swapaxes(a, axis1, axis2):
    """Two axes exchanged."""
    return ls.swap_axes(a, axis1, axis2)


@on_arrays
@owning
def moveaxis(a, source, destination):
    """Axes at other places."""
    source = [axis % a.ndim for axis in _tuple(source)]
    destination = [axis % a.ndim for axis in _tuple(destination)]
    order = [axis for axis in range(a.ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source)):
        order.insert(place, axis)
    return ops.transpose(a, tuple(order))


@on_arrays
@owning
def rollaxis(a, axis, start=0):
    """An axis before another."""
    order = [i for i in range(a.ndim) if i != axis % a.ndim]
    start = start + a.ndim if start < 0 else start
    order.insert(start - (1 if axis % a.ndim < start else 0), axis % a.ndim)
    return ops.transpose(a, tuple(order))


@on_arrays
@owning
def expand_dims(a, axis):
    """A new axis of one, or several."""
    for one in sorted(ax % (a.ndim + len(_tuple(axis))) for ax in _tuple(axis)):
        a = ops.expand_dims(a, one)
    return a


@on_arrays
@owning
def squeeze(a, axis=None):
    """Without axes of one."""
    if axis is None:
        axis = tuple(i for i, extent in enumerate(a.shape) if extent == 1)
        return ops.squeeze(a, axis) if axis else a
    if a.ndim == 0 and all(one in (0, -1) for one in _tuple(axis)):
        return a
    for one in _tuple(axis):
        if not -a.ndim <= one < a.ndim:
            raise ValueError(f"squeeze: there is no axis {one} of {a.ndim}")
        if a.shape[one] != 1:
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return ops.squeeze(a, tuple(one % a.ndim for one in _tuple(axis)))


@on_arrays
@owning
def broadcast_to(array, shape):
    """Broadcast to a shape."""
    array, shape = as_tensor(array), _tuple(shape)
    lead = len(shape) - array.ndim
    # -2 is the array's own extent.
    shape = tuple(array.shape[i - lead] if n == -2 and i >= lead else n
                  for i, n in enumerate(shape))
    return ops.expand(array, shape)


@on_arrays
@owning
def broadcast_arrays(*args):
    """Arrays of one shape."""
    shape = onp.broadcast_shapes(*[a.shape for a in args])
    return [ops.expand(a, shape) for a in args]


@on_arrays
def concatenate(seq, axis=0):
    """One after the other along an axis."""
    parts = _list(seq)
    if axis is None:
        parts, axis = [ops.reshape(p, (-1,)) for p in parts], 0
    return ops.concat(*parts, axis=axis)


concat = concatenate


@on_arrays
def stack(arrays, axis=0):
    """Joined along a new axis."""
    return ls.stack(_list(arrays), axis)


def _at_least(count):
    def one(a):
        a = as_tensor(a)
        if a.ndim >= count:
            return a
        if count == 1:
            return ops.reshape(a, (1,))
        if count == 2:
            return ops.reshape(a, (1, -1))
        if a.ndim < 2:
            return ops.reshape(a, (1, -1, 1))
        return ops.expand_dims(a, 2)

    def call(*arys):
        made = [one(a) for a in arys]
        return made[0] if len(made) == 1 else made

    call.one = one
    return call


_one, _two, _three = _at_least(1), _at_least(2), _at_least(3)
atleast_1d, atleast_2d, atleast_3d = (on_arrays(owning(call)) for call in (_one, _two, _three))


@on_arrays
def vstack(arrays):
    """Rows."""
    return ops.concat(*[_two.one(a) for a in _list(arrays)], axis=0)


row_stack = vstack


@on_arrays
def hstack(arrays):
    """Along the second axis, the first of vectors."""
    parts = [_one.one(a) for a in _list(arrays)]
    return ops.concat(*parts, axis=0 if parts[0].ndim == 1 else 1)


@on_arrays
def dstack(arrays):
    """Along the third axis."""
    return ops.concat(*[_three.one(a) for a in _list(arrays)], axis=2)


@on_arrays
def column_stack(tup):
    """Vectors as columns."""
    parts = [ops.reshape(a, (-1, 1)) if a.ndim < 2 else a for a in _list(tup)]
    return ops.concat(*parts, axis=1)


@on_arrays
def append(arr, values, axis=None):
    """Values behind an array's."""
    arr, values = as_tensor(arr), as_tensor(values)
    if axis is None:
        return ops.concat(ops.reshape(arr, (-1,)), ops.reshape(values, (-1,)), axis=0)
    return ops.concat(arr, values, axis=axis)


def _cuts(count, given):
    """The sizes of parts, of places to cut at."""
    edges = [0] + [min(max(int(i) if i >= 0 else int(i) + count, 0), count) for i in given] + [count]
    return [max(b - a, 0) for a, b in zip(edges, edges[1:])]


def _split_sizes(a, sizes, axis):
    return list(_core._split_sizes(a, list(sizes), axis % a.ndim))


@on_arrays
def split(ary, indices_or_sections, axis=0):
    """Equal parts, or parts cut before the given places."""
    count = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        if count % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        return _split_sizes(ary, [count // indices_or_sections] * indices_or_sections, axis)
    return _split_sizes(ary, _cuts(count, indices_or_sections), axis)


@on_arrays
def array_split(ary, indices_or_sections, axis=0):
    """As split, of parts that are nearly equal."""
    count = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        each, more = divmod(count, indices_or_sections)
        sizes = [each + 1] * more + [each] * (indices_or_sections - more)
        return _split_sizes(ary, sizes, axis)
    return _split_sizes(ary, _cuts(count, indices_or_sections), axis)


def hsplit(ary, indices_or_sections):
    """Along the second axis, the first of vectors."""
    return split(ary, indices_or_sections, axis=0 if ary.ndim == 1 else 1)


def vsplit(ary, indices_or_sections):
    """Along the first axis."""
    return split(ary, indices_or_sections, axis=0)


def dsplit(ary, indices_or_sections):
    """Along the third axis."""
    return split(ary, indices_or_sections, axis=2)


@on_arrays
def tile(A, reps):
    """Repeated as a whole."""
    A, reps = as_tensor(A), _tuple(reps)
    if len(reps) < A.ndim:
        reps = (1,) * (A.ndim - len(reps)) + reps
    if A.ndim < len(reps):
        A = ops.reshape(A, (1,) * (len(reps) - A.ndim) + tuple(A.shape))
    return ops.tile(A, reps)


@on_arrays
def repeat(a, repeats, axis=None):
    """Each element repeated."""
    if axis is None:
        a, axis = ops.reshape(a, (-1,)), 0
    if isinstance(repeats, int):
        return ops.repeat(a, repeats, axis)
    places = onp.repeat(onp.arange(a.shape[axis]), onp.asarray(repeats))
    return ls.take(a, _core.Tensor(places), axis=axis % a.ndim)


@on_arrays
def roll(a, shift, axis=None):
    """Elements moved along, those that fall off put at the beginning."""
    if axis is None:
        total = sum(_tuple(shift))
        return ops.reshape(ops.roll(ops.reshape(a, (-1,)), (total,), (0,)), a.shape)
    if len(_tuple(axis)) == 1:
        return ops.roll(a, (sum(_tuple(shift)),), _tuple(axis))
    return ops.roll(a, _tuple(shift) * (1 if not isinstance(shift, int) else len(_tuple(axis))),
                    _tuple(axis))


@on_arrays
@owning
def flip(m, axis=None):
    """The order of an axis, or of all, reversed."""
    return ops.flip(m, tuple(range(m.ndim)) if axis is None else _tuple(axis))


def flipud(m):
    """Rows in reverse."""
    return flip(m, 0)


def fliplr(m):
    """Columns in reverse."""
    return flip(m, 1)


@on_arrays
@owning
def rot90(m, k=1, axes=(0, 1)):
    """Turned by quarters."""
    first, second = (axis % m.ndim for axis in axes)
    k %= 4
    if k == 0:
        return m + 0
    if k == 2:
        return ops.flip(m, (first, second))
    order = list(range(m.ndim))
    order[first], order[second] = second, first
    if k == 1:
        return ops.transpose(ops.flip(m, (second,)), tuple(order))
    return ops.flip(ops.transpose(m, tuple(order)), (second,))


@on_arrays
def pad(x, pad_width, mode="constant", constant_values=0, **_):
    """More elements at the ends of axes."""
    if isinstance(pad_width, int):
        pad_width = ((pad_width, pad_width),) * x.ndim
    elif len(pad_width) == 2 and isinstance(pad_width[0], int):
        pad_width = (tuple(pad_width),) * x.ndim
    elif len(pad_width) == 1:
        pad_width = tuple(pad_width) * x.ndim
    widths = [w for pair in pad_width for w in pair]
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect"}
    if mode not in modes:
        raise NotImplementedError(f"pad: there is no mode {mode!r}; there are {list(modes)}")
    return ops.pad(x, widths, float(constant_values), modes[mode])


@on_arrays
def take(a, indices, axis=None, mode="raise"):
    """Elements by their places; mode 'clip' and 'wrap' bring them inside."""
    indices = as_tensor(indices)
    indices = indices if indices.dtype.name == "int64" else ops.cast(indices, "int64")
    if axis is None:
        a, axis = ops.reshape(a, (-1,)), 0
    count = a.shape[axis]
    if mode == "wrap":
        indices = ops.remainder(indices, count)
    elif mode == "clip":
        indices = ls.clip(indices, 0, count - 1)
    else:
        indices = ops.where(ops.less(indices, 0), indices + count, indices)
    return ls.take(a, indices, axis=axis % a.ndim)


@on_arrays
def take_along_axis(arr, indices, axis):
    """Elements by their places along an axis, one for each other place."""
    indices = ops.cast(indices, "int64")
    count = arr.shape[axis]
    indices = ops.where(ops.less(indices, 0), indices + count, indices)
    return ops.gather(arr, indices, axis % arr.ndim)


def _matrix(m):
    """A row as a square matrix of such rows."""
    m = as_tensor(m)
    return ops.expand(m, (m.shape[0], m.shape[0])) if m.ndim == 1 else m


@on_arrays
def tril(m, k=0):
    """Zeros above a diagonal."""
    return ops.tril(_matrix(m), k)


@on_arrays
def triu(m, k=0):
    """Zeros below a diagonal."""
    return ops.triu(_matrix(m), k)


@on_arrays
@owning
def diag(v, k=0):
    """A diagonal of a matrix, or the matrix of one."""
    return ops.diagonal(v, k) if v.ndim == 2 else ls.diag(v, k)


@on_arrays
def diagflat(v, k=0):
    """The matrix with these elements on a diagonal."""
    return ls.diag(ops.reshape(v, (-1,)), k)


@on_arrays
@owning
def diagonal(a, offset=0, axis1=0, axis2=1):
    """A diagonal."""
    return ops.diagonal(a, offset, axis1, axis2)


@on_arrays
def trace(a, offset=0, axis1=0, axis2=1):
    """The sum of a diagonal."""
    return ops.sum(ops.diagonal(a, offset, axis1, axis2), (-1,), False)


@on_arrays
@owning
def diff(a, n=1, axis=-1, prepend=None, append=None):  # noqa: A002
    """Each element less the one before it."""
    if prepend is not None:
        a = ops.concat(as_tensor(prepend), a, axis=axis)
    if append is not None:
        a = ops.concat(a, as_tensor(append), axis=axis)
    axis %= a.ndim
    for _ in range(n):
        count = a.shape[axis]
        if count < 2:
            return ls.slice_axis(a, axis, 0, 0)
        a = ls.slice_axis(a, axis, 1, count) - ls.slice_axis(a, axis, 0, count - 1)
    return a


@on_arrays
def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours in one axis, with ends."""
    flat = ops.reshape(ary, (-1,))
    made = ls.slice_axis(flat, 0, 1, flat.shape[0]) - ls.slice_axis(flat, 0, 0, flat.shape[0] - 1)
    parts = []
    for end in (to_begin, made, to_end):
        if end is not None:
            parts.append(ops.reshape(ops.cast(as_tensor(end), made.dtype), (-1,)))
    return ops.concat(*parts, axis=0)


def nonzero_tensors(a):
    """The places of what is not zero, one tensor for each axis."""
    a = ops.reshape(a, (1,)) if a.ndim == 0 else a
    return tuple(_core.Tensor(part.astype("int64")) for part in onp.nonzero(a.detach().numpy()))


@on_arrays
def nonzero(a):
    """The places of what is not zero."""
    return nonzero_tensors(a)


@on_arrays
def argwhere(a):
    """The places of what is not zero, a row each."""
    return ls.stack(list(nonzero_tensors(a)), 1)


@on_arrays
def flatnonzero(a):
    """The places of what is not zero, in one axis."""
    return nonzero_tensors(ops.reshape(a, (-1,)))[0]


@on_arrays
def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """Each value once, in rising order."""
    made = onp.unique(ar.detach().numpy(), return_index, return_inverse, return_counts, axis=axis)
    if not isinstance(made, tuple):
        return _core.Tensor(made)
    return tuple(_core.Tensor(onp.ascontiguousarray(part)) for part in made)


@on_arrays
def unravel_index(indices, shape, order="C"):
    """Places in a shape, of places in one axis."""
    rest, made = ops.cast(as_tensor(indices), "int64"), []
    for extent in reversed(_tuple(shape)):
        made.append(ops.remainder(rest, extent))
        rest = ops.floor_divide(rest, extent)
    return tuple(reversed(made))


@on_arrays
def resize(a, new_shape):
    """Another size, elements repeated as needed."""
    new_shape = _tuple(new_shape)
    count = int(onp.prod(new_shape))
    flat = ops.reshape(as_tensor(a), (-1,))
    if flat.shape[0] == 0:
        return ops.full(new_shape, 0.0, flat.dtype, flat.device)
    times = -(-count // max(flat.shape[0], 1))
    return ops.reshape(ls.slice_axis(ops.tile(flat, (times,)), 0, 0, count), new_shape)


def shape(a):
    """The extent of each axis."""
    return tuple(a.shape) if hasattr(a, "shape") else onp.shape(a)


def ndim(a):
    """The number of axes."""
    return len(shape(a))


def size(a, axis=None):
    """The number of elements."""
    return int(onp.prod(shape(a))) if axis is None else shape(a)[axis]
