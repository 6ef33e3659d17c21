# SPDX-License-Identifier: Apache-2.0
"""Runs a graph's nodes on the engine's tensors, in a trace or at once.

What an op does is what the function of its name does to arrays (`mx.nd`). Here are those that a
graph treats in its own way: losses, whose gradient does not come from behind, batch norm, whose
states are outputs of a trace, and the names that operators of symbols have in files.
"""

import inspect

import numpy as np

import lockstep as ls
from lockstep import autograd
from lockstep.errors import Error, InvalidArgument
from lockstep.mxnet import _graph, _op_table
from lockstep.mxnet.ndarray.ops_elementwise import larger, smaller


class Run:
    """One pass over a graph: what losses send backward, and what states become."""

    def __init__(self, training, keeps_losses=True):
        self.training, self.keeps_losses = training, keeps_losses
        self.losses = []
        self.states = {}


def _table():
    import lockstep.mxnet.ndarray  # noqa: F401 - all ops are there when it is
    from lockstep.mxnet.ndarray import registry

    return registry._OPS


_FAMILIES = ("_contrib_", "_linalg_", "_random_", "_sample_", "_image_", "_sparse_", "_np_", "_npx_",
             "_npi_", "_")


def function_of(op, required=True):
    """The function of arrays that an op's name means."""
    table = _table()
    names = [op] + [alias for alias, name in _op_table.ALIASES.items() if name == op]
    names += [op[len(prefix):] for prefix in _FAMILIES if op.startswith(prefix)]
    names += [op[1:]] if op.startswith("_") else []
    for name in names:
        if name in table:
            return table[name]
    if op in _OWN or op in _CREATE or op in _LOSSES or _is_operator(op) or _engine_op(op) or (
            _symbol_numpy().is_np_op(op)):
        return _nothing
    if required:
        raise InvalidArgument(f"symbol: there is no op '{op}'")
    return None


def _symbol_numpy():
    from lockstep.mxnet import _symbol_numpy

    return _symbol_numpy


def _engine_op(op):
    """The engine's op that a name means, or None."""
    return getattr(ls.ops, op[len(_op_table.ENGINE):], None) if op.startswith(
        _op_table.ENGINE) else None


def _nothing(*_):
    """Stands for an op that has no function of its own."""


def name_params(op, inputs, rest):
    """Names for attributes that were given by place, behind `inputs` arrays."""
    canonical = _op_table.canonical(op)
    known = _PLACES.get(canonical)
    if known is None:
        try:
            signature = list(inspect.signature(function_of(canonical)).parameters.values())
        except (TypeError, ValueError):
            signature = []
        known = [parameter.name for parameter in signature[inputs:]
                 if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if len(rest) > len(known):
        raise InvalidArgument(f"{op}: attributes are given by name: {rest!r}")
    return dict(zip(known, rest))


_PLACES = {"Reshape": ["shape"], "Cast": ["dtype"], "expand_dims": ["axis"], "SwapAxis": ["dim1", "dim2"],
           "clip": ["a_min", "a_max"], "slice_axis": ["axis", "begin", "end"], "sum": ["axis"],
           "mean": ["axis"], "max": ["axis"], "min": ["axis"], "tile": ["reps"],
           "repeat": ["repeats", "axis"], "SliceChannel": ["num_outputs", "axis"],
           "one_hot": ["depth"], "softmax": ["axis"], "log_softmax": ["axis"],
           "squeeze": ["axis"], "broadcast_to": ["shape"], "transpose": ["axes"],
           "slice": ["begin", "end", "step"], "argmax": ["axis"], "norm": ["ord", "axis"],
           "Activation": ["act_type"], "flip": ["axis"], "Dropout": ["p"]}


# Losses: the output is a value without a gradient, and what goes backward is the gradient of a sum
# that is kept aside.


def _normalised(loss, params, count, valid=None):
    scale = float(params.get("grad_scale", 1.0))
    kind = params.get("normalization", "null")
    if kind == "batch":
        return loss * (scale / count)
    if kind == "valid":
        if valid is None:
            return loss * (scale / count)
        return loss * scale / ls.maximum(valid, 1.0)
    return loss * scale


def _softmax_output(run, params, data, label):
    from lockstep.mxnet.ndarray import ops_loss

    layout = {name: params[name] for name in ("multi_output", "preserve_shape") if name in params}
    options = {name: value for name, value in params.items() if name not in (*layout, "out_grad")}
    scores, label, axis = ops_loss.softmax_layout(data, label.stop_gradient(), **layout)
    made = ls.softmax(scores, axis=axis).stop_gradient()
    # A sum whose gradient is the slope.
    slope = ops_loss.softmax_slope(made, label, axis, **options)
    run.losses.append((scores * slope.stop_gradient()).sum())
    return made.reshape(data.shape)


def _regression(link, loss):
    def run_loss(run, params, data, label):
        # MXNet divides the gradient by the outputs that a sample has.
        outputs = max(1, int(np.prod(data.shape)) // data.shape[0]) if data.shape else 1
        scale = float(params.get("grad_scale", 1.0)) / outputs
        run.losses.append(loss(data, label.reshape(data.shape).stop_gradient()) * scale)
        return link(data).stop_gradient()

    return run_loss


def _svm_output(run, params, data, label):
    margin = float(params.get("margin", 1.0))
    scale = float(params.get("regularization_coefficient", 1.0))
    classes = data.shape[1]
    chosen = ls.one_hot(label.cast("int64"), depth=classes)
    signed = data * (1 - 2 * chosen)
    hinge = ls.relu(margin + signed)
    loss = hinge.sum() if params.get("use_linear", False) else (hinge * hinge).sum()
    run.losses.append(loss * scale)
    return data.stop_gradient()


def _make_loss(run, params, data):
    count = data.shape[0] if data.shape else 1
    if params.get("normalization") == "valid":
        keep = ls.greater(data, float(params.get("valid_thresh", 0.0))).cast(data.dtype)
        run.losses.append(_normalised(data.sum(), params, count, keep.sum().stop_gradient()))
    else:
        run.losses.append(_normalised(data.sum(), params, count))
    return data.stop_gradient()


_LOSSES = {
    "SoftmaxOutput": _softmax_output, "SVMOutput": _svm_output, "MakeLoss": _make_loss,
    "LinearRegressionOutput": _regression(lambda x: x, lambda x, y: ((x - y) * (x - y)).sum() * 0.5),
    "MAERegressionOutput": _regression(lambda x: x, lambda x, y: ls.abs(x - y).sum()),
    "LogisticRegressionOutput": _regression(
        ls.sigmoid, lambda x, y: (ls.softplus(x) - x * y).sum()),
}


# Batch norm.


def _on_axis(values, axis, ndim):
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)


def _batch_norm(run, params, node, x, gamma, beta, mean, var):
    axis = int(params.get("axis", 1)) % len(x.shape)
    epsilon, momentum = float(params.get("eps", 1e-3)), float(params.get("momentum", 0.9))
    if params.get("fix_gamma", True):
        gamma = gamma * 0.0 + 1.0  # its gradient is zeros
    wide = x if x.dtype == gamma.dtype else x.cast(gamma.dtype)
    moved = wide if axis == 1 else wide.transpose(_swapped(len(x.shape), axis))
    if run.training and not params.get("use_global_stats", False):
        made = ls.ops.batch_norm(moved, gamma, beta, epsilon=epsilon)
        y, batch_mean, batch_var = made[0], made[1].stop_gradient(), made[2].stop_gradient()
        for place, old, new in ((3, mean, batch_mean), (4, var, batch_var)):
            state = node.inputs[place][0]
            run.states[id(state)] = (old * momentum + new * (1 - momentum)).stop_gradient()
    else:
        y = ls.batch_norm_inference(moved, gamma, beta, mean, var, epsilon=epsilon)
        batch_mean, batch_var = mean, var
    y = y if axis == 1 else y.transpose(_swapped(len(x.shape), axis))
    return [y if y.dtype == x.dtype else y.cast(x.dtype), batch_mean, batch_var]


def _swapped(ndim, axis):
    axes = list(range(ndim))
    axes[1], axes[axis] = axes[axis], axes[1]
    return axes


# Operators and creations.


def _truth(function):
    def compare(a, b):
        return function(a, b).cast(a.dtype if hasattr(a, "dtype") else "float32")

    return compare


_BINARY = {
    "add": ls.add, "plus": ls.add, "sub": ls.subtract, "minus": ls.subtract, "mul": ls.multiply,
    "div": ls.divide, "mod": ls.remainder, "power": ls.power, "maximum": larger,
    "minimum": smaller, "hypot": ls.hypot, "equal": _truth(ls.equal),
    "not_equal": _truth(ls.not_equal), "greater": _truth(ls.greater),
    "greater_equal": _truth(ls.greater_equal), "lesser": _truth(ls.less),
    "lesser_equal": _truth(ls.less_equal), "logical_and": _truth(ls.logical_and),
    "logical_or": _truth(ls.logical_or), "logical_xor": _truth(ls.logical_xor),
}
_REVERSED = {"_rminus_scalar": "sub", "_rdiv_scalar": "div", "_rpower_scalar": "power",
             "_rmod_scalar": "mod"}


def _unknown_as_one(shape):
    # An extent of 0 is one that MXNet finds out; 1 broadcasts to whatever it is.
    return tuple(extent or 1 for extent in ((shape,) if isinstance(shape, int) else shape))


def _arange(params):
    repeat = int(params.get("repeat", 1))
    made = ls.ops.arange(float(params.get("start", 0)), float(params.get("stop")),
                         float(params.get("step", 1)), dtype=params.get("dtype", "float32"))
    return made if repeat == 1 else ls.ops.repeat(made, repeat, 0)


def _linspace(params):
    count = int(params["num"])
    if params.get("endpoint", True):
        return ls.ops.linspace(params["start"], params["stop"], count,
                               dtype=params.get("dtype", "float32"))
    step = (params["stop"] - params["start"]) / max(count, 1)
    return ls.ops.linspace(params["start"], params["stop"] - step, count,
                           dtype=params.get("dtype", "float32"))


_CREATE = {
    "_zeros": lambda p: ls.ops.full(_unknown_as_one(p["shape"]), 0.0, p.get("dtype", "float32")),
    "_ones": lambda p: ls.ops.full(_unknown_as_one(p["shape"]), 1.0, p.get("dtype", "float32")),
    "_full": lambda p: ls.ops.full(_unknown_as_one(p["shape"]), float(p["value"]),
                                   p.get("dtype", "float32")),
    "_eye": lambda p: ls.ops.eye(int(p["N"]), int(p.get("M", 0)) or -1, int(p.get("k", 0)),
                                 p.get("dtype", "float32")),
    "_arange": _arange, "_linspace": _linspace,
}
_OWN = {
    "BlockGrad": lambda p, x: x.stop_gradient(), "_copy": lambda p, x: x,
    "add_n": lambda p, *xs: _sum(xs), "_grad_add": lambda p, *xs: _sum(xs),
    "_identity_with_attr_like_rhs": lambda p, a, b: a,
    "IdentityAttachKLSparseReg": lambda p, x: x,
    "_rnn_param_concat": lambda p, *xs: ls.concat(*[x.reshape((-1,)) for x in xs], axis=0),
    "Cast": lambda p, x: x.cast(str(p.get("dtype", "float32"))),
    "amp_cast": lambda p, x: x.cast(str(p.get("dtype", "float32"))),
    "amp_multicast": lambda p, *xs: list(xs),
}


def _sum(tensors):
    made = tensors[0]
    for tensor in tensors[1:]:
        made = made + tensor
    return made


def _operator(op, params, inputs):
    """The engine's op for what an operator of symbols is called in a file, or None."""
    if op.endswith("_scalar"):
        scalar = params.get("scalar", 1.0)
        if op in _REVERSED:
            return _BINARY[_REVERSED[op]](ls.full((), float(scalar), inputs[0].dtype), inputs[0])
        function = _BINARY.get(op[1:-len("_scalar")])
        return function and function(inputs[0], float(scalar))
    for prefix in ("elemwise_", "broadcast_", "_"):
        if op.startswith(prefix) and op[len(prefix):] in _BINARY and len(inputs) == 2:
            return _BINARY[op[len(prefix):]](*inputs)
    return None


def _with_whole_states(inputs):
    """Of an RNN, states of one sample stand for as many as the data has. Behind them lengths may
    come."""
    count = inputs[0].shape[1]
    return list(inputs[:2]) + [
        ls.ops.expand(state, (state.shape[0], count, state.shape[2]))
        if state.ndim == 3 and state.shape[1] != count else state for state in inputs[2:]]


def _is_operator(op):
    if op.endswith("_scalar"):
        return op in _REVERSED or op[1:-len("_scalar")] in _BINARY
    return any(op.startswith(prefix) and op[len(prefix):] in _BINARY
               for prefix in ("elemwise_", "broadcast_", "_"))


def _call_array_function(node, params, inputs):
    """The op as mx.nd has it."""
    from lockstep.mxnet.ndarray import NDArray

    if node.op == "Custom":
        import lockstep.mxnet.operator  # noqa: F401 - it is in the table from then on
    if node.function is None:
        node.function = function_of(node.op)
    if node.op in _op_table.VARIADIC:
        params.pop(_op_table.VARIADIC[node.op], None)
    if node.function.impl is not node.function:
        made = node.function.impl(*inputs, **params)
        return list(made) if isinstance(made, (list, tuple)) else [made]
    made = node.function(*[NDArray(x) for x in inputs], **params)
    return [array._tensor for array in made] if isinstance(made, (list, tuple)) else [made._tensor]


def run_node(run, node, inputs):
    """The outputs of a node."""
    params = node.params()
    if node.op in _LOSSES and run.keeps_losses and not params.get("out_grad", False):
        return [_LOSSES[node.op](run, params, *inputs)]
    if node.op == "BatchNorm":
        return _batch_norm(run, params, node, *inputs)
    if node.op in _CREATE:
        return [_CREATE[node.op](params)]
    if node.op in _OWN:
        made = _OWN[node.op](params, *inputs)
        return made if isinstance(made, list) else [made]
    if _engine_op(node.op) is not None:
        made = _engine_op(node.op)(*inputs, **params)
        return list(made) if isinstance(made, (list, tuple)) else [made]
    if node.op.startswith("_np") and _symbol_numpy().is_np_op(node.op):
        return _symbol_numpy().run(node, inputs)
    if node.op == "RNN":
        inputs = _with_whole_states(inputs)
    made = _operator(node.op, params, inputs)
    return [made] if made is not None else _call_array_function(node, params, inputs)


def _where(node, inputs, error):
    shapes = ", ".join(str(list(x.shape)) for x in inputs)
    return f"{node.name} ({node.op}) of {shapes}: {error}"


def run_graph(heads, values, training, seen=None, keeps_losses=True):
    """The tensors of the heads, for tensors of the variables by name; and the Run. `seen` is called
    with each node and its outputs. Without keeps_losses a loss sends its gradient by itself."""
    run, made = Run(training, keeps_losses), {}
    for node in _graph.topological(heads):
        if node.is_variable:
            if node.name not in values:
                raise InvalidArgument(f"symbol: there is no value for '{node.name}'")
            made[id(node)] = [values[node.name]]
            continue
        inputs = [made[id(child)][at] for child, at in node.inputs]
        try:
            made[id(node)] = run_node(run, node, inputs)
        except Error as error:
            raise type(error)(_where(node, inputs, error)) from None
        except (TypeError, KeyError) as error:
            raise InvalidArgument(_where(node, inputs, error)) from None
        if seen is not None:
            seen(node, made[id(node)])
    return [made[id(node)][at] for node, at in heads], run


def next_key():
    """(seed, step) of the random numbers of one call, of the state that mx.random.seed sets."""
    from lockstep.mxnet import _random_state

    return _random_state.next_key()


def mode(training):
    """Train or predict mode of the engine."""
    return autograd.train_mode() if training else autograd.predict_mode()
