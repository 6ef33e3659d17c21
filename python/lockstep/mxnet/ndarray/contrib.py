# SPDX-License-Identifier: Apache-2.0
"""mx.nd.contrib: control flow, attention's products, and ops under test."""

from lockstep import ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.ndarray.creation import arange_like
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray.registry import op, register


def _flat(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def foreach(body, data, init_states):
    """body(slice, states) over the first axis: outputs stacked, and the last states."""
    inputs, states, rows = _flat(data), init_states, []
    several = False
    for step in range(inputs[0].shape[0]):
        parts = [x[step] for x in inputs]
        out, states = body(parts if isinstance(data, (list, tuple)) else parts[0], states)
        several = isinstance(out, (list, tuple))
        rows.append(_flat(out))
    stacked = [op("stack")(*column, axis=0) for column in zip(*rows)]
    return (stacked if several else stacked[0]), states


def while_loop(cond, func, loop_vars, max_iterations=None):
    """func(*vars) as long as cond(*vars): outputs stacked, padded to max_iterations, and the vars.
    One output, and one variable, that is no list stays none."""
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    rows, variables, single = [], list(_flat(loop_vars)), False
    while len(rows) < max_iterations and bool(cond(*variables)):
        out, variables = func(*variables)
        single = isinstance(out, NDArray)
        rows.append([] if out is None else _flat(out))
        variables = list(_flat(variables))
    stacked = []
    for column in zip(*rows):
        whole = op("stack")(*column, axis=0)
        left = max_iterations - len(rows)
        if left:
            tail = ops.full((left,) + whole.shape[1:], 0.0, whole._tensor.dtype,
                            whole._tensor.device)
            whole = whole._out(ops.concat([whole._tensor, tail], axis=0))
        stacked.append(whole)
    return (stacked[0] if single else stacked,
            variables[0] if isinstance(loop_vars, NDArray) else variables)


def cond(pred, then_func, else_func):
    """One of two functions."""
    return then_func() if bool(pred) else else_func()


def isfinite(data):
    """1 where elements are numbers."""
    return op("isfinite")(data)


isnan, isinf = op("isnan"), op("isinf")


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """1 where all elements are equal up to a tolerance, else 0."""
    import numpy as np

    from lockstep.mxnet.ndarray.creation import array

    return array([np.allclose(a.asnumpy(), b.asnumpy(), rtol, atol, equal_nan)])


def div_sqrt_dim(data):
    """Divided by the root of the last axis's extent."""
    return data / (data.shape[-1] ** 0.5)


def boolean_mask(data, index, axis=0):
    """The rows whose mark is not 0."""
    return data._out(ops.take(data._tensor, ops.reshape(
        _nonzero(index), (-1,)), axis))


def _nonzero(index):
    from lockstep import nonzero

    return nonzero(index._tensor)


def _heads(projected, heads, parts):
    """[T, N, H * parts * D] as `parts` tensors [N * H, T, D]."""
    time, batch, width = projected.shape
    depth = width // heads // parts
    x = ops.reshape(projected, (time, batch * heads, parts, depth))
    return [ops.transpose(x[:, :, i], (1, 0, 2)) for i in range(parts)]


@register("_contrib_interleaved_matmul_selfatt_qk")
def _selfatt_qk(queries_keys_values, heads):
    q, k, _ = _heads(queries_keys_values, heads, 3)
    return ops.matmul(q * (q.shape[-1] ** -0.5), k, False, True)


@register("_contrib_interleaved_matmul_selfatt_valatt")
def _selfatt_valatt(queries_keys_values, attention, heads):
    return _attended(_heads(queries_keys_values, heads, 3)[2], attention, heads)


def _attended(value, attention, heads):
    made = ops.matmul(attention, value)
    rows, time, depth = made.shape
    return ops.reshape(ops.transpose(made, (1, 0, 2)), (time, rows // heads, heads * depth))


@register("_contrib_interleaved_matmul_encdec_qk")
def _encdec_qk(queries, keys_values, heads):
    q, k = _heads(queries, heads, 1)[0], _heads(keys_values, heads, 2)[0]
    return ops.matmul(q * (q.shape[-1] ** -0.5), k, False, True)


@register("_contrib_interleaved_matmul_encdec_valatt")
def _encdec_valatt(keys_values, attention, heads):
    return _attended(_heads(keys_values, heads, 2)[1], attention, heads)


def _straight_through(made, data):
    """`made`, exactly; its gradient is data's."""
    return made.detach() + (data - data.detach())


@register("_contrib_round_ste")
def _round_ste(data):
    """Rounded, halves away from 0; the gradient goes straight through."""
    return _straight_through(op("round").impl(data), data)


@register("_contrib_sign_ste")
def _sign_ste(data):
    """The sign; the gradient goes straight through."""
    return _straight_through(ops.sign(data), data)


interleaved_matmul_selfatt_qk = op("_contrib_interleaved_matmul_selfatt_qk")
interleaved_matmul_selfatt_valatt = op("_contrib_interleaved_matmul_selfatt_valatt")
interleaved_matmul_encdec_qk = op("_contrib_interleaved_matmul_encdec_qk")
interleaved_matmul_encdec_valatt = op("_contrib_interleaved_matmul_encdec_valatt")
round_ste, sign_ste = op("_contrib_round_ste"), op("_contrib_sign_ste")


def rand_zipfian(true_classes, num_sampled, range_max):
    """Class numbers by a log-uniform distribution, and how often each is expected."""
    import numpy as np

    log_range = float(np.log(range_max + 1))
    drawn = _random_state.draw(ops.uniform, None, shape=(num_sampled,), high=log_range,
                               dtype="float64")
    sampled = np.asarray(drawn.numpy())
    sampled = (np.exp(sampled) - 1).astype("int64") % range_max

    def expected(classes):
        classes = np.asarray(classes, dtype="float64")
        return np.log((classes + 2.0) / (classes + 1.0)) / log_range * num_sampled

    from lockstep.mxnet.ndarray.creation import array

    return (array(sampled, dtype="int64"), array(expected(true_classes.asnumpy()), dtype="float32"),
            array(expected(sampled), dtype="float32"))


for _name in ("AdaptiveAvgPooling2D", "BilinearResize2D", "SyncBatchNorm", "CTCLoss", "ctc_loss",
              "gradientmultiplier", "index_copy", "quadratic", "SparseEmbedding", "MultiBoxPrior",
              "MultiBoxTarget", "MultiBoxDetection", "ROIAlign", "bipartite_matching", "box_decode",
              "box_iou", "box_nms", "box_non_maximum_suppression"):
    globals()[_name] = op(f"_contrib_{_name}")

__all__ = ["NDArray", "allclose", "arange_like", "boolean_mask", "cond", "div_sqrt_dim", "foreach", "isfinite",
           "isinf", "isnan", "rand_zipfian", "while_loop"]
__getattr__ = attributes_of(globals())
