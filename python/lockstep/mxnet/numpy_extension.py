# SPDX-License-Identifier: Apache-2.0
"""mx.npx: what neural nets need and NumPy has not, on arrays of mx.np."""

import numpy as _onp

from lockstep.mxnet import _files, _random_state
from lockstep.mxnet import numpy as _np
from lockstep.mxnet.base import missing_name as _missing_name
from lockstep.mxnet.context import (Context, cpu, cpu_pinned, current_context, gpu,  # noqa: F401
                                    gpu_memory_info, num_gpus)
from lockstep.mxnet.ndarray import image  # noqa: F401
from lockstep.mxnet.ndarray import registry as _registry
from lockstep.mxnet.ndarray.ndarray import NDArray as _NDArray
from lockstep.mxnet.ndarray.shapes import np_shape as _np_shape
from lockstep.mxnet.numpy.multiarray import ndarray as _ndarray
from lockstep.mxnet.util import (is_np_array, is_np_shape, np_array, np_shape, reset_np,  # noqa: F401
                                 set_np, use_np, use_np_array, use_np_shape)

cpu_device = cpu
current_device = current_context
Device = Context

# Here an op has the name of Python's style; in files and in mx.nd MXNet's own.
_OPS = {
    "activation": "Activation", "arange_like": "_contrib_arange_like", "batch_dot": "batch_dot",
    "batch_flatten": "Flatten", "batch_norm": "BatchNorm", "bilinear_resize_2d":
    "_contrib_BilinearResize2D", "box_decode": "_contrib_box_decode", "box_iou": "_contrib_box_iou",
    "box_nms": "_contrib_box_nms", "broadcast_like": "broadcast_like", "cast": "Cast",
    "convolution": "Convolution", "ctc_loss": "CTCLoss", "deconvolution": "Deconvolution",
    "digamma": "digamma", "dropout": "Dropout", "embedding": "Embedding", "erf": "erf",
    "erfinv": "erfinv", "fully_connected": "FullyConnected", "gamma": "gamma",
    "gammaln": "gammaln", "gather_nd": "gather_nd", "group_norm": "GroupNorm",
    "instance_norm": "InstanceNorm", "l2_normalization": "L2Normalization",
    "layer_norm": "LayerNorm", "leaky_relu": "LeakyReLU", "log_softmax": "log_softmax",
    "masked_softmax": "masked_softmax", "multibox_detection": "_contrib_MultiBoxDetection",
    "multibox_prior": "_contrib_MultiBoxPrior", "multibox_target": "_contrib_MultiBoxTarget",
    "one_hot": "one_hot", "pick": "pick", "pooling": "Pooling", "relu": "relu", "rnn": "RNN",
    "reshape_like": "reshape_like", "roi_align": "_contrib_ROIAlign", "roi_pooling": "ROIPooling",
    "scatter_nd": "scatter_nd", "sequence_last": "SequenceLast", "sequence_mask": "SequenceMask",
    "sequence_reverse": "SequenceReverse", "shape_array": "shape_array", "sigmoid": "sigmoid",
    "slice": "slice", "slice_axis": "slice_axis", "slice_like": "slice_like",
    "smooth_l1": "smooth_l1", "softmax": "softmax", "softmin": "softmin",
    "softmax_cross_entropy": "softmax_cross_entropy", "stop_gradient": "stop_gradient",
    "topk": "topk", "norm": "norm", "index_update": "index_update", "index_add": "index_add",
    "reshape": "Reshape", "cumsum": "cumsum", "hard_sigmoid": "hard_sigmoid",
}


def _function(name, op):
    call = _registry.op(op)

    def on_np(*args, **kwargs):
        made = call(*args, **kwargs)
        return made

    on_np.__name__ = on_np.__qualname__ = name
    on_np.__doc__ = call.__doc__
    return on_np


for _name, _op in _OPS.items():
    if _op in _registry._OPS:
        globals()[_name] = _function(_name, _op)


def one_hot(data, depth, on_value=1.0, off_value=0.0, dtype="float32"):  # noqa: F811
    """Vectors with one number on, of places."""
    return _registry.op("one_hot")(data, depth=depth, on_value=on_value, off_value=off_value,
                                   dtype=dtype)


def topk(data, axis=-1, k=1, ret_typ="indices", is_ascend=False, dtype="float32"):  # noqa: F811
    """The k largest, or where they are."""
    return _registry.op("topk")(data, axis=axis, k=k, ret_typ=ret_typ, is_ascend=is_ascend,
                                dtype=dtype)


def reshape(a, newshape, reverse=False, order="C"):
    """The same elements in another shape. -1 is what is left, -2 copies an extent, -3 leaves out
    one of 1, -4 copies all that remain, -5 multiplies two, -6 splits one in the two that follow."""
    if order != "C":
        raise NotImplementedError(f"reshape: only order='C' is supported, got {order!r}")
    wanted = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    return a.reshape(_np_shape(tuple(a.shape), wanted, reverse))


def constraint_check(data, msg="Constraint violated!"):
    """Truth where all elements are true, else a ValueError with the message."""
    if not _onp.all(data.asnumpy()):
        raise ValueError(msg)
    return _np.array(True, dtype="bool")


def nonzero(a):
    """The places of what is not zero, a row each."""
    return _np.stack(list(_np.nonzero(a)), axis=1)


def waitall():
    """Computation is done when a call returns."""


def seed(seed, ctx="all"):
    """Begins the sequence of draws anew."""
    _random_state.seed(int(seed))


def save(file, arr):
    """Arrays in a file: a dict, a list or one."""
    _files.save_params(file, arr)


def load(file):
    """The arrays of a file."""
    made = _files.load_params(file)
    if isinstance(made, dict):
        return {key: _array(value) for key, value in made.items()}
    return [_array(value) for value in made]


def _array(value):
    return _ndarray(value.dense() if isinstance(value, _files.SparseArray) else value)


def from_numpy(array, zero_copy=True):
    """An array of NumPy's."""
    return _np.array(array, dtype=array.dtype)


def to_dlpack_for_read(data):
    """A capsule on its memory."""
    return data.to_dlpack_for_read()


to_dlpack_for_write = to_dlpack_for_read


def from_dlpack(capsule):
    """An array on the memory of another library's."""
    import lockstep

    return _ndarray(lockstep.from_dlpack(capsule))


class _Random:
    """npx.random: draws of the engine's."""

    seed = staticmethod(seed)

    @staticmethod
    def bernoulli(prob=None, logit=None, size=None, dtype=None, ctx=None, out=None):
        """1 with a probability."""
        if (prob is None) == (logit is None):
            raise ValueError("bernoulli: prob or logit is given")
        if prob is None:
            prob = 1 / (1 + _np.exp(-logit)) if isinstance(logit, _NDArray) else 1 / (
                1 + 2.718281828459045 ** -logit)
        elif not getattr(getattr(prob, "_tensor", None), "is_symbolic", False):
            values = prob.asnumpy() if isinstance(prob, _NDArray) else prob
            if (_onp.asarray(values) < 0).any() or (_onp.asarray(values) > 1).any():
                raise ValueError("bernoulli: prob is between 0 and 1")
        shape = size if size is not None else getattr(prob, "shape", ())
        drawn = _np.random.uniform(0.0, 1.0, shape, ctx=ctx)
        return (drawn < prob).astype(dtype or "float32")

    @staticmethod
    def uniform_n(low=0.0, high=1.0, batch_shape=None, dtype=None, ctx=None):
        """So many draws for each parameter."""
        return _np.random.uniform(low, high, _batch(batch_shape, low, high), dtype, ctx)

    @staticmethod
    def normal_n(loc=0.0, scale=1.0, batch_shape=None, dtype=None, ctx=None):
        """So many draws for each parameter."""
        return _np.random.normal(loc, scale, _batch(batch_shape, loc, scale), dtype, ctx)


def _batch(shape, *parameters):
    shape = (shape,) if isinstance(shape, int) else tuple(shape or ())
    for parameter in parameters:
        if isinstance(parameter, _NDArray):
            return shape + tuple(parameter.shape)
    return shape


random = _Random()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    hints = {"autocontext": "write `with ctx:`",
             "amp": "mx.contrib.amp has init, init_trainer and scale_loss",
             "frontend": "write kv = mx.kv.create('dist_sync'); kv.broadcast(key, value, out)"}
    raise _missing_name("mxnet.npx", name, [key for key in globals() if key[0] != "_"], hints)
