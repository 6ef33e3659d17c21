# SPDX-License-Identifier: Apache-2.0
"""The symbol of what was recorded: autograd.get_symbol.

The tape knows calls of the engine's ops. Those that MXNet has too become its own, by its names; the
others keep the engine's name behind `_lockstep_`, and are run by it.
"""

from lockstep import _core
from lockstep.errors import InvalidArgument
from lockstep.mxnet import _graph, _op_table
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.symbol import Symbol

_BINARY = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "power",
           "maximum": "maximum", "minimum": "minimum", "remainder": "mod", "equal": "equal",
           "not_equal": "not_equal", "greater": "greater", "greater_equal": "greater_equal",
           "less": "lesser", "less_equal": "lesser_equal", "hypot": "hypot"}
_SCALAR = {"add": "_plus", "sub": "_minus", "power": "_power"}
_REVERSED = {"sub": "_rminus_scalar", "div": "_rdiv_scalar", "power": "_rpower_scalar",
             "mod": "_rmod_scalar", "greater": "_lesser_scalar", "lesser": "_greater_scalar",
             "greater_equal": "_lesser_equal_scalar", "lesser_equal": "_greater_equal_scalar"}
_UNARY = {name: name for name in (
    "relu", "sigmoid", "tanh", "exp", "log", "sqrt", "square", "abs", "sign", "floor", "ceil",
    "round", "trunc", "sin", "cos", "tan", "sinh", "cosh", "erf", "erfinv", "expm1", "log1p",
    "log2", "log10", "negative", "reciprocal", "rsqrt")}
_UNARY.update({"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
               "acosh": "arccosh", "atanh": "arctanh", "stop_gradient": "BlockGrad",
               "logical_not": "logical_not"})
_REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def _reduction(attrs):
    params = {"keepdims": attrs["keepdims"]}
    return dict(params, axis=tuple(attrs["axes"])) if attrs["axes"] else params


_WITH_ATTRS = {
    "reshape": ("Reshape", lambda a: {"shape": tuple(a["shape"])}),
    "transpose": ("transpose", lambda a: {"axes": tuple(a["axes"])}),
    "softmax": ("softmax", lambda a: {"axis": a["axis"]}),
    "log_softmax": ("log_softmax", lambda a: {"axis": a["axis"]}),
    "cast": ("Cast", lambda a: {"dtype": a["dtype"]}),
    "clip": ("clip", lambda a: {"a_min": a["low"], "a_max": a["high"]}),
    "expand_dims": ("expand_dims", lambda a: {"axis": a["axis"]}),
}


class _Writer:
    """Makes nodes of the calls that the tape tells of."""

    def __init__(self, ops, variables, heads):
        self.ops, self.variables, self.heads = ops, variables, heads
        self.made, self.names = {}, {}
        self.counts = {}  # how many outputs are read, of the ops that the heads need
        self._count(heads)
        for number in range(len(ops) - 1, -1, -1):
            if number in self.counts:
                self._count(ops[number][2])

    def _count(self, places):
        for op, output in places:
            if op >= 0:
                self.counts[op] = max(self.counts.get(op, 0), output + 1)

    def symbol(self):
        """The symbol of the heads."""
        for number in sorted(self.counts):
            self._add(number)
        return Symbol([self.value(head) for head in self.heads])

    def _name(self, kind):
        number = self.names.get(kind, 0)
        self.names[kind] = number + 1
        return f"{kind}{number}"

    def _scalar(self, place):
        """The number that a place stands for, or None."""
        op, output = place
        if op >= 0:
            return None
        value = self.variables[output]
        return float(value.item()) if not value.shape and not value.requires_grad else None

    def value(self, place):
        """The head of a place."""
        op, output = place
        if op >= 0:
            return self.made[op][output]
        if place not in self.made:
            number = self._scalar(place)
            dtype = self.variables[output].dtype.name
            self.made[place] = (_graph.Node(None, self._name("var")), 0) if number is None else (
                self._node("_full", {"shape": (1,), "value": number, "dtype": dtype}, []), 0)
        return self.made[place]

    def _node(self, op, params, inputs, outputs=None):
        attrs = {key: _op_table.format_value(value) for key, value in params.items()}
        if outputs is not None:
            attrs["__num_outputs__"] = str(outputs)
        return _graph.Node(op, self._name("node_"), attrs, inputs)

    def _add(self, number):
        """Makes the nodes of one call."""
        name, attrs, inputs = self.ops[number]
        if not name:
            self.made[number] = self._function(attrs["function"], inputs)
            return
        node = self._known(name, attrs, inputs)
        if node is None:
            node = self._node(f"{_op_table.ENGINE}{name}", attrs, [self.value(i) for i in inputs],
                              self.counts[number])
        self.made[number] = [(node, at) for at in range(self.counts[number])]

    def _function(self, function, inputs):
        """The heads of a function with a gradient of its own, where it knows its symbols."""
        if not hasattr(function, "symbols"):
            raise MXNetError("autograd.get_symbol: an autograd.Function is Python, and no symbol; "
                             "write it as a mx.operator.CustomOp")
        made = function.symbols(*[Symbol([self.value(place)]) for place in inputs])
        return [head for symbol in made for head in symbol._heads]

    def _known(self, name, attrs, inputs):
        """The node where MXNet has the op."""
        if name in _BINARY:
            return self._binary(_BINARY[name], inputs)
        if name in _UNARY and not attrs.get("function"):
            return self._node(_UNARY[name], {}, [self.value(inputs[0])])
        if name in _REDUCTIONS:
            return self._node(name, _reduction(attrs), [self.value(inputs[0])])
        if name == "concat":
            return self._node("Concat", {"dim": attrs["axis"], "num_args": len(inputs)},
                              [self.value(i) for i in inputs])
        if name == "dropout":
            return self._node("Dropout", {"p": attrs["p"]}, [self.value(inputs[0])])
        if name in ("dense", "conv"):
            return self._layer(name, attrs, inputs)
        if name == "where":
            return self._node("where", {}, [self.value(i) for i in inputs])
        found = _WITH_ATTRS.get(name)
        if found is None or (name == "reshape" and not attrs["shape"]):
            return None
        return self._node(found[0], found[1](attrs), [self.value(inputs[0])])

    def _binary(self, kind, inputs):
        left, right = (self._scalar(place) for place in inputs)
        if right is not None:
            return self._node(f"{_SCALAR.get(kind, '_' + kind)}_scalar", {"scalar": right},
                              [self.value(inputs[0])])
        if left is not None:
            op = _REVERSED.get(kind, f"{_SCALAR.get(kind, '_' + kind)}_scalar")
            return self._node(op, {"scalar": left}, [self.value(inputs[1])])
        return self._node(f"broadcast_{kind}", {}, [self.value(place) for place in inputs])

    def _layer(self, name, attrs, inputs):
        op, output = inputs[1]
        if op >= 0:
            return None  # how many units there are is told by a weight that is there
        weight = self.variables[output].shape
        if name == "dense":
            kind, params = "FullyConnected", {"num_hidden": weight[0], "flatten": attrs["flatten"]}
        else:
            kind, params = "Convolution", {
                "num_filter": weight[0], "kernel": tuple(weight[2:]), "stride": attrs["stride"],
                "pad": attrs["padding"], "dilate": attrs["dilation"], "num_group": attrs["groups"]}
        node = self._node(kind, dict(params, no_bias=len(inputs) < 3),
                          [self.value(place) for place in inputs])
        if attrs["activation"]:
            node = self._node("Activation", {"act_type": attrs["activation"]}, [(node, 0)])
        return node


def symbol_of(tensor):
    """The symbol that computes a recorded tensor, of variables var0, var1, ... in the order in which
    they are first read: the arrays that want gradients, and those that were not recorded."""
    try:
        ops, variables, heads = _core._history([tensor])
    except InvalidArgument as error:
        raise MXNetError(f"autograd.get_symbol: {error}") from None
    if not tensor.requires_grad and not ops:
        raise MXNetError("autograd.get_symbol: the array was not computed under autograd.record(), "
                         "or its record was used up: retain_graph=True")
    return _Writer(ops, variables, heads).symbol()
