# SPDX-License-Identifier: Apache-2.0
"""Functions that are compositions of ops, or return less than the op of their name does. All of
them, and the ops, are in `lockstep` itself."""

from lockstep import _core, ops
from lockstep._core import (diag, diag_embed, einsum, empty, flatten, group_norm, instance_norm,
                            layer_norm, meshgrid, multinomial, nonzero, ones, ones_like,
                            pixel_shuffle, pixel_unshuffle, slice_axis, softmax_cross_entropy,
                            stack, swap_axes, unique, zeros, zeros_like)

__all__ = ["arange", "attention", "batch_norm", "diag", "diag_embed", "einsum", "empty", "flatten",
           "group_norm", "instance_norm", "layer_norm", "max_pool", "meshgrid", "multinomial",
           "nonzero", "ones", "ones_like", "pixel_shuffle", "pixel_unshuffle", "slice_axis",
           "softmax_cross_entropy", "split", "stack", "swap_axes", "unique", "zeros", "zeros_like"]


def arange(start, stop=None, step=1, dtype="float32", device=None):
    """Numbers from `start` on, `step` apart, that end before `stop`; of one argument from 0 on.

    >>> import lockstep
    >>> lockstep.arange(3).tolist(), lockstep.arange(4, 1, -1, dtype="int64").tolist()
    ([0.0, 1.0, 2.0], [4, 3, 2])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    where = {} if device is None else {"device": device}
    return ops.arange(start, stop, step, dtype, **where)


def split(x, parts_or_sizes, axis=0):
    """Cuts an axis into equal parts, or into parts of the given sizes.

    >>> import lockstep
    >>> [part.shape for part in lockstep.split(lockstep.zeros((6, 2)), 3)]
    [(2, 2), (2, 2), (2, 2)]
    """
    if isinstance(parts_or_sizes, int):
        return _core._split_parts(x, parts_or_sizes, axis)
    return _core._split_sizes(x, list(parts_or_sizes), axis)


def max_pool(x, kernel, stride=None, padding=None, ceil_mode=False, dilation=None):
    """The largest element of each window."""
    return ops.max_pool(x, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
                        dilation=dilation)[0]


def attention(q, k, v, mask=None, causal=False, scale=0.0):
    """softmax(q k^T scale + mask) v, for each head: q is [batch, heads, time, width], k and v
    [batch, heads, keys, width]; the result is [batch, time, heads, width]."""
    return ops.attention(q, k, v, mask, causal=causal, scale=scale)[0]


def batch_norm(x, gamma, beta, epsilon=1e-5):
    """Normalised with the batch's own statistics, which are the second and third result."""
    return ops.batch_norm(x, gamma, beta, epsilon=epsilon)[:3]
