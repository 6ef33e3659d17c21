# SPDX-License-Identifier: Apache-2.0
"""Shapes and types of a graph's variables and outputs.

The graph is run in a trace, where tensors have shapes and no contents. A variable whose shape is
not given gets the one that its consumer wants of it, as a weight does.
"""

import numpy as np

import lockstep as ls
from lockstep import nn
from lockstep.errors import Error, InvalidArgument
from lockstep.mxnet import _graph, _infer_partial, _op_table, _run
from lockstep.mxnet._files import DTYPES
from lockstep.mxnet.ndarray.ops_rnn import flat_size
from lockstep.mxnet.util import is_np_shape


def _tuple(value, count, default):
    if value is None or value == ():
        return (default,) * count
    return (value,) * count if isinstance(value, int) else tuple(value)


def _dense(p, shapes):
    data, units = shapes[0], int(p["num_hidden"])
    inputs = int(np.prod(data[1:])) if p.get("flatten", True) else data[-1]
    return [None, (units, inputs), (units,)]


def _conv(p, shapes):
    data, filters = shapes[0], int(p["num_filter"])
    kernel = _tuple(p.get("kernel"), len(data) - 2, 1)
    channels = data[1] // int(p.get("num_group", 1))
    return [None, (filters, channels) + kernel, (filters,)]


def _deconv(p, shapes):
    data, filters = shapes[0], int(p["num_filter"])
    kernel = _tuple(p.get("kernel"), len(data) - 2, 1)
    return [None, (data[1], filters // int(p.get("num_group", 1))) + kernel, (filters,)]


def _norm(default_axis):
    def rule(p, shapes):
        data = shapes[0]
        channels = (data[int(p.get("axis", default_axis)) % len(data)],)
        return [None] + [channels] * (len(shapes) - 1)

    return rule


def _rnn(p, shapes):
    data, hidden = shapes[0], int(p["state_size"])
    layers, ways = int(p.get("num_layers", 1)), 2 if p.get("bidirectional", False) else 1
    projection = p.get("projection_size")
    size = flat_size(p.get("mode"), data[2], hidden, layers, ways, projection)
    batch = (layers * ways, data[1])
    cell = [(*batch, hidden)] if p.get("mode") == "lstm" else []
    return [None, (size,), (*batch, projection or hidden), *cell, (data[1],)]


def _softmax_label(p, shapes):
    data = shapes[0]
    if p.get("multi_output", False):
        return [None, (data[0], int(np.prod(data[2:])))]
    if p.get("preserve_shape", False):
        return [None, tuple(data[:-1])]
    return [None, (data[0],)]


def _prelu(p, shapes):
    return [None, (shapes[0][1] if len(shapes[0]) > 1 else 1,)]


_RULES = {
    "FullyConnected": _dense, "Convolution": _conv, "Deconvolution": _deconv,
    "Embedding": lambda p, s: [None, (int(p["input_dim"]), int(p["output_dim"]))],
    "BatchNorm": _norm(1), "LayerNorm": _norm(-1), "InstanceNorm": _norm(1), "GroupNorm": _norm(1),
    "SoftmaxOutput": _softmax_label, "SVMOutput": lambda p, s: [None, s[0][:1]],
    "softmax_cross_entropy": lambda p, s: [None, s[0][:1]],
    "LinearRegressionOutput": lambda p, s: [None, s[0]],
    "LogisticRegressionOutput": lambda p, s: [None, s[0]],
    "MAERegressionOutput": lambda p, s: [None, s[0]], "LeakyReLU": _prelu, "RNN": _rnn,
    "where": lambda p, s: [s[0], s[2] or s[0], s[1] or s[0]],
}


def _same(op):
    return op.startswith("elemwise_") or op == "add_n" or (
        op.startswith("_") and op[1:] in _run._BINARY)


def wanted(node, shapes):
    """The shapes that an op wants of inputs whose shape is not known; None where it cannot say."""
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return shapes
    if _same(node.op):
        return [shape or known[0] for shape in shapes]
    if node.op == "Custom" and shapes[0] is not None:
        prop = _op_table._custom({k: v for k, v in node.attrs.items() if k not in node.labels})
        count = len(prop.list_arguments())
        told, _, states = _told(prop.infer_shape([list(s) if s else s for s in shapes[:count]]))
        return [tuple(s) if s is not None else None for s in list(told) + list(states)]
    rule = _RULES.get(node.op)
    if rule is None or shapes[0] is None:
        return shapes
    try:
        told = rule(node.params(), shapes)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{node.name} ({node.op}) of {list(shapes[0])}: {error!r}") from None
    return [shape if shape is not None else told[i] if i < len(told) else None
            for i, shape in enumerate(shapes)]


class _Pass(nn.Block):
    """Runs a graph inside of a trace and notes shapes."""

    def __init__(self, heads, known, types):
        super().__init__()
        # A list keeps these from being looked at as children.
        self.__dict__["work"] = (heads, known, types)
        self.__dict__["problem"] = None

    def forward(self, x):
        try:
            _fill(*self.work)
        except Exception as error:  # noqa: B902: it comes back to the caller below
            self.__dict__["problem"] = error
        return x


def _full(shape, dtype):
    if dtype in ("uint16", "uint32", "uint64"):
        dtype = "int64"
    return ls.ops.full(tuple(shape), 0.0, dtype)


def _fill(heads, known, types):
    """Completes `known`, shapes by (id of node, output), as far as it goes. What is known in part is
    in known["partial"]."""
    order = _graph.topological(heads)
    tensors = {}
    partial = known["partial"]

    def give(node, shape):
        shape = tuple(int(extent) for extent in shape)
        known[id(node), 0] = shape
        tensors[id(node)] = [_full(shape, types.get(id(node), "float32"))]

    for node in order:
        if node.is_variable and (id(node), 0) in known:
            give(node, known[id(node), 0])
    waiting = [node for node in order if not node.is_variable]
    while waiting:
        left = [node for node in waiting if not _step(node, tensors, known, give)]
        if len(left) == len(waiting) and not _spread(order, known, partial, give):
            return
        waiting = left


def _spread(order, known, partial, give):
    """Gives the variables their shapes that follow from what comes after them; whether there was
    one."""
    partial.update({place: shape for place, shape in known.items() if place != "partial"})
    _infer_partial.spread(order, partial, _same)
    found = [node for node in order if node.is_variable and (id(node), 0) not in known
             and _infer_partial.is_whole(partial.get((id(node), 0)))]
    for node in found:
        give(node, partial[id(node), 0])
    return bool(found)


def _step(node, tensors, known, give):
    shapes = [known.get((id(child), at)) for child, at in node.inputs]
    if any((id(child), at) not in known for child, at in node.inputs):
        for (child, _), shape in zip(node.inputs, wanted(node, shapes)):
            if child.is_variable and (id(child), 0) not in known and shape is not None:
                give(child, shape)
    if any((id(child), at) not in known for child, at in node.inputs):
        return False
    inputs = [tensors[id(child)][at] for child, at in node.inputs]
    if node.op == "Custom":
        made = _custom_outputs(node, inputs)
        tensors[id(node)] = made
        known.update({(id(node), at): tuple(t.shape) for at, t in enumerate(made)})
        return True
    try:
        made = _run.run_node(_run.Run(False), node, inputs)
    except (Error, TypeError, KeyError) as error:
        raise InvalidArgument(f"infer_shape: {_run._where(node, inputs, error)}") from None
    tensors[id(node)] = made
    for at, tensor in enumerate(made):
        known[id(node), at] = tuple(tensor.shape)
    return True


def _told(answer):
    from lockstep.mxnet.operator import told

    return told(answer)


def _custom_outputs(node, inputs):
    """An op that is written in Python tells its shapes and is not run."""
    prop = _op_table._custom({k: v for k, v in node.attrs.items() if k not in node.labels})
    own = inputs[:len(prop.list_arguments())]
    _, shapes, _ = _told(prop.infer_shape([list(t.shape) for t in own]))
    _, types, _ = _told(prop.infer_type([np.dtype(t.dtype.name).type for t in own]))
    return [_full(shape, np.dtype(dtype).name) for shape, dtype in zip(shapes, types)]


def declared(node):
    """The shape that a variable was made with, where all of it is known."""
    shape = _declared(node)
    return shape if _infer_partial.is_whole(shape) else None


def complete(symbol, given, types=None):
    """Shapes by (id of node, output) of everything that follows from `given`, by name; under
    "partial" those of which not all is known, with -1 for an extent that is not."""
    order = _graph.topological(symbol._heads)
    names = {node.name for node in order if node.is_variable}
    for name in given:
        if name not in names:
            raise InvalidArgument(f"infer_shape: there is no argument '{name}'; there are "
                                  f"{sorted(names)}")
    known = {"partial": {}}
    for node in order:
        if not node.is_variable:
            continue
        shape = _with_unknown(given[node.name]) if node.name in given else _declared(node)
        if _infer_partial.is_whole(shape):
            known[id(node), 0] = shape
        elif shape is not None:
            known["partial"][id(node), 0] = shape
    work = _Pass(symbol._heads, known, types or {})
    work.complete_shapes((1,))
    if work.problem is not None:
        raise work.problem
    return known


def _declared(node):
    """The shape that a variable was made with, as far as it is known."""
    shape = _op_table.parse_value(node.attrs["__shape__"]) if "__shape__" in node.attrs else ()
    shape = (shape,) if isinstance(shape, int) else tuple(shape or ())
    return tuple(extent if extent > 0 else _infer_partial.UNKNOWN for extent in shape) or None


def _with_unknown(shape):
    """A shape that was given: what is not known is 0, or -1 in NumPy's mode."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if is_np_shape():
        return shape
    return tuple(extent if extent > 0 else _infer_partial.UNKNOWN for extent in shape) or None


def _told_in_part(shape):
    """A shape as infer_shape_partial gives it."""
    if is_np_shape():
        return shape
    return tuple(max(extent, 0) for extent in shape or ())


def shapes(symbol, given, partial):
    """(arguments, outputs, states); Nones when something cannot be told, () for it if partial."""
    known = complete(symbol, given)
    arguments, states = symbol._inputs()
    places = ([(id(node), 0) for node in arguments], [_place(head) for head in symbol._heads],
              [(id(node), 0) for node in states])
    if partial:
        return tuple([_told_in_part(known.get(place, known["partial"].get(place)))
                      for place in part] for part in places)
    lists = tuple([known.get(place) for place in part] for part in places)
    return (None, None, None) if any(None in part for part in lists) else lists


def _place(head):
    return id(head[0]), head[1]


def _number_type(dtype):
    name = np.dtype(dtype).name if not isinstance(dtype, str) else dtype
    return name


def type_table(symbol, given, default="float32"):
    """Type names by (id of node, output); without a default, of those that are known."""
    order = _graph.topological(symbol._heads)
    table = {}
    for node in order:
        if node.is_variable and node.name in given:
            table[id(node), 0] = _number_type(given[node.name])
        elif node.is_variable and "__dtype__" in node.attrs:
            table[id(node), 0] = DTYPES[int(node.attrs["__dtype__"])]
    for node in order:
        if node.is_variable:
            continue
        told = [table.get(_place(head)) for head in node.inputs]
        first = next((name for name in told if name is not None), default)
        own = "float32" if node.op == "Embedding" and (first or "").startswith("int") else first
        for at, head in enumerate(node.inputs):
            if head[0].is_variable and own is not None:
                is_wide = at > 0 and node.op in _WIDE and own in ("float16", "bfloat16")
                table.setdefault(_place(head), "float32" if is_wide else own)
        dtype = node.params().get("dtype")
        out = str(dtype) if dtype is not None and node.op in _TYPED else own
        for at in range(max(node.count(), _op_table.counted_outputs(node.op, node.attrs))):
            if out is not None:
                table[id(node), at] = out
    return table


# Whose parameters and statistics are never shorter than float32.
_WIDE = ("BatchNorm", "BatchNorm_v1", "SyncBatchNorm", "_contrib_SyncBatchNorm")
_TYPED = ("Cast", "amp_cast", "one_hot", "_zeros", "_ones", "_full", "_eye", "_arange", "_linspace",
          "Embedding", "topk", "argsort")


def types(symbol, given, partial=False):
    """(arguments, outputs, states) as NumPy's types; None for what is not known if partial."""
    table = type_table(symbol, given, None if partial else "float32")
    arguments, states = symbol._inputs()

    def of(place):
        name = table.get(place, None if partial else "float32")
        return name if name in ("bfloat16", None) else np.dtype(name).type

    return ([of((id(node), 0)) for node in arguments], [of(_place(h)) for h in symbol._heads],
            [of((id(node), 0)) for node in states])
