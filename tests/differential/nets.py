# SPDX-License-Identifier: Apache-2.0
"""Random nets: layers on images and sequences, branches that join again, a loss at the end."""

import math

from calls import numel
from op_server import OpError
from programs import OUTPUTS, Case, infer

SMOOTH = ["tanh", "sigmoid", "softplus", "silu", "gelu", "elu", "selu"]
LARGEST = 6000  # elements of a value


class Net:
    """A case that grows; `x` is the value that the layers so far give."""

    def __init__(self, d, dtype, server):
        self.d, self.server = d, server
        self.case = Case(dtype, [], [], [])
        self.made = []  # ("input", i) or ("node", n, output): values are numbered at the end
        self.shapes = {}
        self.x = None

    def input(self, shape, low=-1.0, high=1.0, kind="float"):
        self.case.inputs.append(self.d.tensor(shape, low, high, kind))
        value = ("input", len(self.case.inputs) - 1)
        self.shapes[value] = list(shape)
        return value

    def weight(self, shape):
        """Of a size that keeps values about as large as they are."""
        bound = 1.5 / math.sqrt(max(1, numel(shape[1:])))
        return self.input(shape, -bound, bound)

    def indices(self, shape, below):
        self.case.inputs.append(self.d.indices(shape, below))
        value = ("input", len(self.case.inputs) - 1)
        self.shapes[value] = list(shape)
        return value

    def shape(self, value=None):
        return self.shapes[value or self.x]

    def add(self, op, inputs, **attrs):
        """The first output; raises OpError and changes nothing where the op refuses."""
        self.case.nodes.append({"op": op, "attrs": attrs, "in": inputs})
        try:
            results = infer(self.server, self.numbered())
            if any(numel(r["shape"]) > LARGEST for r in results[-1]):
                raise OpError("too large")
        except OpError:
            self.case.nodes.pop()
            raise
        node = len(self.case.nodes) - 1
        for output, result in enumerate(results[-1]):
            self.shapes[("node", node, output)] = result["shape"]
        self.counts = [len(r) for r in results]
        return ("node", node, 0)

    def numbered(self):
        counts = getattr(self, "counts", [])
        first = len(self.case.inputs)
        starts = [first + sum(counts[:n]) for n in range(len(counts) + 1)]
        number = lambda v: v[1] if v[0] == "input" else starts[v[1]] + v[2]  # noqa: E731
        nodes = [dict(n, **{"in": [number(v) for v in n["in"]]}) for n in self.case.nodes]
        outputs = [number(v) for v in self.case.outputs]
        return Case(self.case.dtype, self.case.inputs, nodes, outputs)


def activation(net):
    op = net.d.random.choice(SMOOTH + ["relu"] * 6 + ["leaky_relu"])
    attrs = {"gelu": {"approximate": net.d.flag()}, "elu": {"alpha": 1.0},
             "leaky_relu": {"slope": 0.1}}.get(op, {})  # fmt: skip
    net.x = net.add(op, [net.x], **attrs)


def convolution(net):
    d, shape = net.d, net.shape()
    if len(shape) < 3:
        return dense(net)
    rank = len(shape) - 2
    kernel = [d.random.choice([1, 2, 3, 3]) for _ in range(rank)]
    attrs = {
        "stride": [d.random.choice([1, 1, 2])] * rank,
        "padding": [d.random.choice([0, k // 2, k // 2, k - 1]) for k in kernel],
        "dilation": [1] * rank,
        "groups": shape[1] if d.chance(0.15) else 1,
    }
    filters = shape[1] if attrs["groups"] > 1 else d.random.choice([1, 3, 8, 16, 17, 32])
    inputs = [net.x, net.weight([filters, shape[1] // attrs["groups"]] + kernel)]
    if d.flag():
        inputs.append(net.input([filters]))
    net.x = net.add("conv", inputs, **attrs)


def upsampling(net):
    shape = net.shape()
    if len(shape) < 3:
        return dense(net)
    rank, filters = len(shape) - 2, net.d.random.choice([1, 4, 8])
    weight = net.weight([shape[1], filters] + [2] * rank)
    net.x = net.add("conv_transpose", [net.x, weight], stride=[net.d.size(1, 2)] * rank,
                    padding=[0] * rank, dilation=[1] * rank, groups=1,
                    output_padding=[0] * rank)  # fmt: skip


def pool(net):
    shape = net.shape()
    if len(shape) < 3:
        return activation(net)
    rank = len(shape) - 2
    kernel = [min(net.d.size(1, 3), n) for n in shape[2:]]
    attrs = {"kernel": kernel, "stride": [net.d.size(1, 2)] * rank, "ceil_mode": net.d.flag(),
             "padding": [k // 2 if net.d.flag() else 0 for k in kernel]}  # fmt: skip
    op = net.d.random.choice(["max_pool", "avg_pool", "global_avg_pool", "global_max_pool"])
    if op.startswith("global"):
        attrs = {}
    if op == "avg_pool":
        attrs["count_include_pad"] = net.d.flag()
    net.x = net.add(op, [net.x], **attrs)


def norm(net):
    shape = net.shape()
    op = net.d.random.choice(["batch_norm", "batch_norm", "layer_norm", "group_norm"])
    if len(shape) < 3 and op == "group_norm" or len(shape) < 2:
        op = "layer_norm"
    size = [shape[-1] if op == "layer_norm" else shape[1]]
    attrs = {"epsilon": 1e-2} | ({"groups": 1} if op == "group_norm" else {})
    net.x = net.add(op, [net.x, net.input(size, 0.5, 1.5), net.input(size)], **attrs)


def block(net):
    """The pattern that the compiler fuses, and the branch around it that joins again."""
    before = net.x
    convolution(net)
    if net.d.chance(0.7):
        norm(net)
    if net.d.chance(0.7):
        net.x = net.add("relu", [net.x])
    if net.shape(before) == net.shape():
        op = net.d.random.choice(["add", "multiply", "maximum"])
        net.x = net.add(op, [before, net.x])
    elif net.shape(before)[2:] == net.shape()[2:] and net.d.flag():
        net.x = net.add("concat", [before, net.x], axis=1)


def dense(net):
    shape, flatten = net.shape(), net.d.flag()
    if len(shape) < 2:
        return activation(net)
    features = numel(shape[1:]) if flatten else shape[-1]
    units = net.d.random.choice([1, 5, 8, 16, 17])
    inputs = [net.x, net.weight([units, features])]
    if net.d.chance(0.7):
        inputs.append(net.input([units]))
    net.x = net.add("dense", inputs, flatten=flatten)
    if net.d.chance(0.6):
        activation(net)


def chain(net):
    """Element by element, with operands of one element or one a channel."""
    for _ in range(net.d.size(2, 5)):
        shape = net.shape()
        if net.d.chance(0.5):
            activation(net)
            continue
        other = net.d.random.choice([shape, [1], [], shape[-1:], net.d.broadcast(shape)])
        op = net.d.random.choice(["add", "subtract", "multiply", "divide", "maximum", "minimum"])
        low, high = (0.5, 2.0) if op == "divide" else (-1.0, 1.0)
        net.x = net.add(op, [net.x, net.input(other, low, high)])


def movement(net):
    shape, d = net.shape(), net.d
    axis = d.axis(shape) if shape else 0
    kind = d.size(0, 6)
    if not shape:
        return activation(net)
    if kind == 0:
        axes = list(range(len(shape)))
        d.random.shuffle(axes)
        net.x = net.add("transpose", [net.x], axes=axes)
    elif kind == 1:
        net.x = net.add("reshape", [net.x], shape=[shape[0], -1])
    elif kind == 2:
        begin = [d.size(0, n - 1) for n in shape]
        end = [d.size(b + 1, n) for b, n in zip(begin, shape)]
        net.x = net.add("slice", [net.x], begin=begin, end=end, step=[1] * len(shape))
    elif kind == 3:
        net.x = net.add("take", [net.x, net.indices([d.size(1, 4)], shape[axis])], axis=axis)
    elif kind == 4:
        net.x = net.add("flip", [net.x], axes=[axis % len(shape)])
    elif kind == 5:
        net.x = net.add("pad", [net.x], widths=[d.size(0, 1) for _ in shape * 2], value=0.5,
                        mode="constant")  # fmt: skip
    else:
        net.x = net.add("concat", [net.x, net.x], axis=axis)


def reduction(net):
    shape, d = net.shape(), net.d
    if not shape:
        return activation(net)
    op = d.random.choice(["sum", "mean", "logsumexp", "softmax", "log_softmax", "cumsum", "var"])
    if op in ("softmax", "log_softmax", "cumsum"):
        net.x = net.add(op, [net.x], axis=d.axis(shape))
        return
    reduced = net.add(op, [net.x], axes=d.axes(shape), keepdims=True)
    net.x = net.add("subtract", [net.x, reduced]) if d.flag() else reduced


def attention(net):
    """Self-attention of a sequence [N, T, F] by one product for queries, keys and values."""
    d, shape = net.d, net.shape()
    if len(shape) != 3:
        return dense(net)
    heads, size = d.size(1, 3), d.random.choice([1, 4, 8])
    parts = []
    for _ in range(3):
        y = net.add("dense", [net.x, net.weight([heads * size, shape[2]])], flatten=False)
        y = net.add("reshape", [y], shape=[shape[0], shape[1], heads, size])
        parts.append(net.add("transpose", [y], axes=[0, 2, 1, 3]))
    y = net.add("attention", parts, causal=d.flag())
    net.x = net.add("reshape", [y], shape=[shape[0], shape[1], heads * size])


def recurrence(net):
    d, shape = net.d, net.shape()
    if len(shape) != 3:
        return dense(net)
    mode = d.random.choice(["lstm", "gru", "rnn_tanh", "rnn_relu"])
    hidden = d.size(1, 9)
    gates = {"lstm": 4, "gru": 3}.get(mode, 1) * hidden
    inputs = [net.x] + [net.input([1, shape[1], hidden]) for _ in range(1 + (mode == "lstm"))]
    for size in ([gates, shape[2]], [gates, hidden], [gates], [gates]):
        inputs.append(net.input(size, -0.5, 0.5))
    net.x = net.add("rnn", inputs, mode=mode, bidirectional=False)


def loss(net):
    shape, d = net.shape(), net.d
    if not shape:
        return
    kind = d.size(0, 3)
    if kind == 0 and shape[-1] > 1:
        labels = net.indices(shape[:-1], shape[-1])
        net.x = net.add("softmax_cross_entropy", [net.x, labels], smoothing=0.1 * d.size(0, 1))
    elif kind == 1:
        net.x = net.add("sigmoid_cross_entropy", [net.x, net.input(shape, 0.0, 1.0)])
    elif kind == 2:
        net.x = net.add("pick", [net.x, net.indices(shape[:-1], shape[-1])], axis=-1)
    if d.flag():
        net.x = net.add("mean", [net.x], axes=list(range(len(net.shape()))), keepdims=False)


LAYERS = [
    activation, convolution, block, block, block, pool, norm, dense, chain, chain, movement,
    reduction, attention, recurrence, upsampling,
]  # fmt: skip


def begin(net):
    d = net.d
    kind = d.size(0, 5)
    if kind == 0:  # words
        table = net.input([d.size(2, 9), d.random.choice([4, 8, 9])])
        net.x = net.add("embedding", [net.indices([d.size(1, 3), d.size(1, 5)], net.shape(table)[0]),
                                      table])  # fmt: skip
    elif kind == 1:
        net.x = net.input([d.size(1, 4), d.size(1, 6), d.size(1, 9)])
    elif kind == 2:
        net.x = net.input([d.size(1, 8), d.size(1, 40)])
    else:
        rank = d.random.choice([1, 2, 2, 3])
        spatial = [d.size(1, 8 if rank < 3 else 4) for _ in range(rank)]
        net.x = net.input([d.size(1, 4), d.random.choice([1, 3, 8, 16, 17])] + spatial)


def draw_net(d, dtype, server):
    net = Net(d, dtype, server)
    begin(net)
    for _ in range(d.size(1, 7)):
        try:
            d.random.choice(LAYERS)(net)
        except OpError:
            pass  # a layer that does not fit
    try:
        loss(net)
    except OpError:
        pass
    if not net.case.nodes:
        activation(net)
    net.case.outputs = [net.x]
    for value in earlier(net):
        net.case.outputs.append(value)
    case = without_unused(net.numbered())
    if d.chance(0.15):
        floats = [x for x in case.inputs if x.kind == "float"]
        floats[0].special = "nan"
    case.second = d.chance(0.1) and not case.is_special() and dtype in ("float32", "float64")
    return case


def earlier(net):
    """Now and then a value in the middle is an output as well."""
    if net.d.chance(0.7):
        return []
    node = net.d.random.randrange(len(net.case.nodes))
    shown = OUTPUTS.get(net.case.nodes[node]["op"], 1)
    value = ("node", node, net.d.random.randrange(min(shown, net.counts[node])))
    return [value] if value != net.x else []


def without_unused(case):
    """Inputs that nothing reads, of layers that did not fit, are left out."""
    used = sorted({v for node in case.nodes for v in node["in"] if v < len(case.inputs)})
    gone = len(case.inputs) - len(used)
    place = {v: i for i, v in enumerate(used)}
    number = lambda v: place[v] if v in place else v - gone  # noqa: E731
    nodes = [dict(n, **{"in": [number(v) for v in n["in"]]}) for n in case.nodes]
    return Case(case.dtype, [case.inputs[v] for v in used], nodes,
                [number(v) for v in case.outputs], case.second)  # fmt: skip
