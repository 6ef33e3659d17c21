# SPDX-License-Identifier: Apache-2.0
"""Random calls of ops, and of functions that are composed of them."""

import dataclasses
import importlib
import random
from typing import List

from values import Input


@dataclasses.dataclass
class Call:
    op: str
    attrs: dict
    inputs: List[Input]
    tolerance: float = 1.0  # a factor


class Draw:
    """Random shapes, values and attributes of one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def size(self, low=1, high=6):
        return self.random.randint(low, high)

    def shape(self, low=0, high=4, largest=6):
        """Small sizes; now and then one axis that is longer than any vector register."""
        shape = [self.size(1, largest) for _ in range(self.size(low, high))]
        if 0 < len(shape) <= 3 and self.random.random() < 0.2:
            shape[self.random.randrange(len(shape))] = self.size(33, 130)
        return shape

    def flag(self):
        return self.random.random() < 0.5

    def chance(self, p):
        return self.random.random() < p

    def seed(self):
        return self.random.getrandbits(40)

    def tensor(self, shape, low=-2.0, high=2.0, kind="float"):
        return Input(list(shape), low, high, kind, self.seed())

    def indices(self, shape, below, low=0):
        return Input(list(shape), low, below - 1, "int", self.seed())

    def mask(self, shape, kind="bool"):
        return Input(list(shape), -4.0, 2.0, kind, self.seed())

    def axis(self, shape):
        return self.random.randrange(-len(shape), len(shape))

    def axes(self, shape):
        count = self.size(1, len(shape))
        return sorted(self.random.sample(range(len(shape)), count))

    def broadcast(self, shape):
        """A shape that broadcasts to `shape`."""
        kept = [1 if self.random.random() < 0.3 else d for d in shape]
        return kept[self.size(0, len(kept)) :] if self.flag() else kept


UNARY = {
    "negative": (-3, 3),
    "exp": (-3, 3),
    "expm1": (-1, 1),
    "log": (0.1, 5),
    "log1p": (-0.5, 3),
    "sqrt": (0.1, 5),
    "rsqrt": (0.1, 5),
    "square": (-3, 3),
    "reciprocal": (0.2, 3),
    "abs": (-3, 3),
    "sign": (-3, 3),
    "floor": (-5, 5),
    "ceil": (-5, 5),
    "round": (-5, 5),
    "erf": (-3, 3),
    "sin": (-10, 10),
    "cos": (-10, 10),
    "tanh": (-4, 4),
    "sigmoid": (-8, 8),
    "softplus": (-8, 8),
    "relu": (-3, 3),
    "selu": (-3, 3),
    "silu": (-5, 5),
    "stop_gradient": (-2, 2),
}


def unary(name):
    return lambda d: Call(name, {}, [d.tensor(d.shape(), *UNARY[name])])


def gelu(d):
    return Call("gelu", {"approximate": d.flag()}, [d.tensor(d.shape(), -4, 4)])


def leaky_relu(d):
    return Call("leaky_relu", {"slope": d.random.uniform(0, 0.5)}, [d.tensor(d.shape())])


def elu(d):
    return Call("elu", {"alpha": d.random.uniform(0.5, 2)}, [d.tensor(d.shape())])


def hard_sigmoid(d):
    return Call("hard_sigmoid", {"alpha": 0.3, "beta": 0.4}, [d.tensor(d.shape(), -5, 5)])


def clip(d):
    low, high = sorted(d.random.uniform(-2, 2) for _ in range(2))
    return Call("clip", {"low": low, "high": high}, [d.tensor(d.shape())])


BINARY = {
    "add": (-2, 2),
    "subtract": (-2, 2),
    "multiply": (-2, 2),
    "divide": (0.3, 3),
    "floor_divide": (0.3, 9),
    "remainder": (-3, 3),
    "power": (0.3, 2),
    "maximum": (-2, 2),
    "minimum": (-2, 2),
    "equal": (-2, 2),
    "not_equal": (-2, 2),
    "less": (-2, 2),
    "less_equal": (-2, 2),
    "greater": (-2, 2),
    "greater_equal": (-2, 2),
}

def binary(name):
    def make(d):
        shape = d.shape()
        shapes = [shape, d.broadcast(shape)]
        d.random.shuffle(shapes)
        return Call(name, {}, [d.tensor(s, *BINARY[name]) for s in shapes])

    return make


def logical(name):
    def make(d):
        shape = d.shape()
        return Call(name, {}, [d.mask(s) for s in (shape, d.broadcast(shape))])

    return make


def logical_not(d):
    return Call("logical_not", {}, [d.mask(d.shape())])


def where(d):
    shape = d.shape()
    inputs = [d.mask(d.broadcast(shape)), d.tensor(shape), d.tensor(d.broadcast(shape))]
    return Call("where", {}, inputs)


def reduction(name):
    def make(d):
        shape = d.shape(1, 4)
        attrs = {"axes": d.axes(shape), "keepdims": d.flag()}
        if name == "var":
            attrs["ddof"] = d.size(0, 1)
            shape = [max(s, 2) for s in shape]
        if name == "norm":
            attrs["ord"] = d.size(1, 2)
        return Call(name, attrs, [d.tensor(shape, 0.2, 2)])

    return make


def arg_reduction(name):
    def make(d):
        x = d.tensor(d.shape(1, 4))
        return Call(name, {"axis": d.axis(x.shape), "keepdims": d.flag()}, [x])

    return make


def cumsum(d):
    x = d.tensor(d.shape(1, 4))
    return Call("cumsum", {"axis": d.axis(x.shape), "reverse": d.flag()}, [x])


def matmul(d):
    m, k, n = d.size(1, 20), d.size(1, 20), d.size(1, 20)
    lead = d.shape(0, 2)
    ta, tb = d.flag(), d.flag()
    a = d.tensor(lead + ([k, m] if ta else [m, k]))
    b = d.tensor(d.broadcast(lead) + ([n, k] if tb else [k, n]))
    return Call("matmul", {"transpose_a": ta, "transpose_b": tb}, [a, b])


def numel(shape):
    total = 1
    for n in shape:
        total *= n
    return total


def dense(d):
    flatten = d.flag()
    x = d.tensor(d.shape(2, 4))
    features = numel(x.shape[1:]) if flatten else x.shape[-1]
    units = d.size(1, 20)
    inputs = [x, d.tensor([units, features])] + ([d.tensor([units])] if d.flag() else [])
    return Call("dense", {"flatten": flatten}, inputs)


def window(d, rank):
    return {
        "stride": [d.size(1, 3) for _ in range(rank)],
        "padding": [d.size(0, 2) for _ in range(rank)],
        "dilation": [d.size(1, 2) for _ in range(rank)],
        "groups": d.random.choice([1, 1, 2, 3]),
    }


def conv(rank):
    def make(d):
        attrs = window(d, rank)
        groups = attrs["groups"]
        kernel = [d.size(1, 3) for _ in range(rank)]
        spatial = [
            max(d.size(3, 8 if rank < 3 else 5), dilation * (k - 1) + 1)
            for k, dilation in zip(kernel, attrs["dilation"])
        ]
        channels, filters = groups * d.size(1, 3), groups * d.size(1, 3)
        inputs = [
            d.tensor([d.size(1, 3), channels] + spatial),
            d.tensor([filters, channels // groups] + kernel),
        ]
        if d.flag():
            inputs.append(d.tensor([filters]))
        return Call("conv", attrs, inputs)

    return make


def conv_transpose(rank):
    def make(d):
        attrs = window(d, rank)
        attrs["padding"] = [min(p, 1) for p in attrs["padding"]]
        attrs["output_padding"] = [d.size(0, s - 1) for s in attrs["stride"]]
        groups = attrs["groups"]
        kernel = [d.size(2, 3) for _ in range(rank)]
        spatial = [d.size(2, 6 if rank < 3 else 4) for _ in range(rank)]
        channels, filters = groups * d.size(1, 3), groups * d.size(1, 3)
        inputs = [
            d.tensor([d.size(1, 3), channels] + spatial),
            d.tensor([channels, filters // groups] + kernel),
        ]
        if d.flag():
            inputs.append(d.tensor([filters]))
        return Call("conv_transpose", attrs, inputs)

    return make


def pool(name, rank):
    def make(d):
        kernel = [d.size(1, 3) for _ in range(rank)]
        attrs = {
            "kernel": kernel,
            "stride": [d.size(1, 3) for _ in range(rank)],
            "padding": [d.size(0, k // 2) for k in kernel],
            "ceil_mode": d.flag(),
        }
        spatial = [d.size(4, 8) for _ in range(rank)]
        if name == "avg_pool":
            attrs["count_include_pad"] = d.flag()
        elif d.chance(0.4):
            attrs["dilation"] = [d.size(1, 3) for _ in range(rank)]
            spans = [e * (k - 1) + 1 for e, k in zip(attrs["dilation"], kernel)]
            spatial = [max(n, s) for n, s in zip(spatial, spans)]
        return Call(name, attrs, [d.tensor(d.shape(2, 2, 4) + spatial)])

    return make


def adaptive_pool(name, rank):
    def make(d):
        size = [d.size(1, 4) for _ in range(rank)]
        x = d.tensor(d.shape(2, 2, 4) + [d.size(4, 8) for _ in range(rank)])
        return Call(name, {"output_size": size}, [x])

    return make


def interpolate(rank):
    def make(d):
        mode = d.random.choice(["nearest", "nearest_exact", "linear", "linear"])
        attrs = {
            "size": [d.size(1, 9) for _ in range(rank)],
            "mode": mode,
            "align_corners": mode == "linear" and d.flag(),
        }
        x = d.tensor(d.shape(2, 2, 4) + [d.size(2, 7) for _ in range(rank)])
        if d.flag():  # sizes are rounded, and places follow from the scale
            attrs["scale"] = d.random.choice([0.73, 1.37, 1.93, 2.37])
            attrs["size"] = [int(size * attrs["scale"]) for size in x.shape[2:]]
            # There PyTorch's kernels disagree with one another whether the scale counts.
            if mode == "nearest" and any(s in (n, 2 * n) for n, s in zip(x.shape[2:], attrs["size"])):
                attrs["scale"] = 0.0
        return Call("interpolate", attrs, [x], tolerance=5)

    return make


def grid_sample(d):
    attrs = {
        "mode": d.random.choice(["bilinear", "nearest"]),
        "padding": d.random.choice(["zeros", "border", "reflection"]),
        "align_corners": d.flag(),
    }
    x = d.tensor([d.size(1, 3), d.size(1, 4), d.size(2, 7), d.size(2, 7)])
    grid = d.tensor([x.shape[0], d.size(1, 5), d.size(1, 20), 2], -1.6, 1.6)
    return Call("grid_sample", attrs, [x, grid], tolerance=20)


def pixel_shuffle(d):
    factor = d.size(1, 3)
    x = d.tensor([d.size(1, 2), d.size(1, 3) * factor**2, d.size(1, 4), d.size(1, 4)])
    return Call("pixel_shuffle", {"factor": factor}, [x])


def pixel_unshuffle(d):
    factor = d.size(1, 3)
    x = d.tensor([d.size(1, 2), d.size(1, 3), factor * d.size(1, 4), factor * d.size(1, 4)])
    return Call("pixel_unshuffle", {"factor": factor}, [x])


def cross_entropy(d):
    classes = d.size(2, 9)
    x = d.tensor([d.size(2, 9), classes], -4, 4)
    weights = [d.random.uniform(0.1, 3) for _ in range(classes)] if d.flag() else []
    attrs = {"smoothing": d.random.choice([0.0, 0.2]), "weights": weights}
    # A label of some sample is there, and does not count.
    if d.flag():
        attrs["ignore"] = 0
    return Call("cross_entropy", attrs, [x, d.indices(x.shape[:1], classes)])


def kl_div(d):
    x = d.tensor(d.shape(1, 3), -3, 0)
    log_target = d.flag()
    target = d.tensor(x.shape, -3, 0) if log_target else d.tensor(x.shape, 0.05, 1)
    return Call("kl_div", {"log_target": log_target}, [x, target])


def global_pool(name):
    return lambda d: Call(name, {}, [d.tensor(d.shape(3, 5, 5))])


def batch_norm(d):
    x = d.tensor([d.size(2, 4), d.size(1, 5)] + d.shape(0, 3, 5))
    c = [x.shape[1]]
    return Call("batch_norm", {"epsilon": 1e-4}, [x, d.tensor(c), d.tensor(c)], tolerance=10)


def batch_norm_inference(d):
    x = d.tensor([d.size(1, 4), d.size(1, 5)] + d.shape(0, 3, 5))
    c = [x.shape[1]]
    inputs = [x, d.tensor(c), d.tensor(c), d.tensor(c), d.tensor(c, 0.5, 2)]
    return Call("batch_norm_inference", {"epsilon": 1e-4}, inputs)


def shard_mean(d):
    """Of a process alone."""
    return Call("shard_mean", {}, [d.tensor(d.shape())])


def layer_norm(d):
    x = d.tensor(d.shape(1, 3) + [d.size(2, 40)])
    n = [x.shape[-1]]
    return Call("layer_norm", {"epsilon": 1e-4}, [x, d.tensor(n), d.tensor(n)], tolerance=10)


def group_norm(d):
    groups = d.size(1, 3)
    c = [groups * d.size(1, 3)]
    x = d.tensor([d.size(1, 3)] + c + d.shape(1, 3) + [2])
    attrs = {"groups": groups, "epsilon": 1e-3}
    return Call("group_norm", attrs, [x, d.tensor(c), d.tensor(c)], tolerance=10)


def instance_norm(d):
    c = [d.size(1, 4)]
    x = d.tensor([d.size(1, 3)] + c + d.shape(1, 2) + [3])
    return Call("instance_norm", {"epsilon": 1e-3}, [x, d.tensor(c), d.tensor(c)], tolerance=10)


def softmax(name):
    def make(d):
        x = d.tensor(d.shape(1, 4, 20), -5, 5)
        return Call(name, {"axis": d.axis(x.shape)}, [x])

    return make


def softmax_cross_entropy(d):
    x = d.tensor(d.shape(0, 2) + [d.size(2, 12)], -4, 4)
    smoothing = d.random.choice([0.0, 0.1])
    if d.flag():
        labels = d.tensor(x.shape, kind="simplex")
    else:
        labels = d.indices(x.shape[:-1], x.shape[-1])
    return Call("softmax_cross_entropy", {"smoothing": smoothing}, [x, labels])


def sigmoid_cross_entropy(d):
    x = d.tensor(d.shape(), -6, 6)
    return Call("sigmoid_cross_entropy", {}, [x, d.tensor(x.shape, 0, 1)])


def ctc_loss(d):
    classes, longest = d.size(2, 7), d.size(1, 4)
    x = d.tensor([d.size(2 * longest, 12), d.size(1, 4), classes], -3, 3)
    blank = d.random.choice([0, classes - 1])
    first = 1 if blank == 0 else 0
    marked = d.indices([x.shape[1], longest], classes - 1 + first, first)
    marked.kind = "marked"
    steps = d.indices([x.shape[1]], x.shape[0] + 1, 2 * longest)
    return Call("ctc_loss", {"blank": blank}, [x, marked, steps])


def embedding(d):
    table = d.tensor([d.size(2, 9), d.size(1, 9)])
    return Call("embedding", {}, [d.indices(d.shape(0, 3), table.shape[0]), table])


def take(d):
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    return Call("take", {"axis": axis}, [x, d.indices(d.shape(1, 1), x.shape[axis])])


def along_axis(d):
    """A tensor, an axis of it, and a shape that differs along that alone."""
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    shape = list(x.shape)
    shape[axis] = d.size(1, 5)
    return x, axis, shape


def gather(d):
    x, axis, shape = along_axis(d)
    return Call("gather", {"axis": axis}, [x, d.indices(shape, x.shape[axis])])


def pick(d):
    x, axis, shape = along_axis(d)
    del shape[axis]
    return Call("pick", {"axis": axis}, [x, d.indices(shape, x.shape[axis])])


def scatter_add(d):
    x, axis, shape = along_axis(d)
    index = d.indices(shape, x.shape[axis])
    return Call("scatter_add", {"axis": axis}, [x, index, d.tensor(shape)])


def one_hot(d):
    depth = d.size(2, 6)
    return Call("one_hot", {"depth": depth}, [d.indices(d.shape(), depth)])


def reshape(d):
    x = d.tensor(d.shape(1, 4))
    return Call("reshape", {"shape": [-1, x.shape[0]]}, [x])


def transpose(d):
    x = d.tensor(d.shape(1, 4))
    axes = list(range(len(x.shape)))
    d.random.shuffle(axes)
    return Call("transpose", {"axes": axes}, [x])


def expand(d):
    shape = d.shape(1, 4)
    return Call("expand", {"shape": shape}, [d.tensor(d.broadcast(shape))])


def expand_dims(d):
    x = d.tensor(d.shape(0, 3))
    return Call("expand_dims", {"axis": d.size(0, len(x.shape))}, [x])


def squeeze(d):
    shape = d.shape(1, 3)
    axis = d.size(0, len(shape) - 1)
    shape[axis] = 1
    return Call("squeeze", {"axes": [axis]}, [d.tensor(shape)])


def flip(d):
    x = d.tensor(d.shape(1, 4))
    return Call("flip", {"axes": d.axes(x.shape)}, [x])


def slice_(d):
    x = d.tensor(d.shape(1, 4))
    begin = [d.size(0, n - 1) for n in x.shape]
    end = [d.size(b + 1, n) for b, n in zip(begin, x.shape)]
    step = [d.size(1, 2) for _ in begin]
    return Call("slice", {"begin": begin, "end": end, "step": step}, [x])


def concat(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    parts = []
    for _ in range(d.size(1, 4)):
        part = list(shape)
        part[axis] = d.size(1, 5)
        parts.append(d.tensor(part))
    return Call("concat", {"axis": axis}, parts)


def split(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    sizes = [d.size(1, 4) for _ in range(d.size(1, 4))]
    shape[axis] = sum(sizes)
    return Call("split", {"sizes": sizes, "axis": axis}, [d.tensor(shape)])


def pad(d):
    mode = d.random.choice(["constant", "edge", "reflect", "circular"])
    x = d.tensor([d.size(1, 3), d.size(1, 3), d.size(4, 6), d.size(4, 6)])
    widths = [0, 0, 0, 0] + [d.size(0, 3) for _ in range(4)]
    value = 0.5 if mode == "constant" else 0.0
    return Call("pad", {"mode": mode, "widths": widths, "value": value}, [x])


def tile(d):
    x = d.tensor(d.shape(1, 3))
    return Call("tile", {"repeats": [d.size(1, 3) for _ in x.shape]}, [x])


def repeat(d):
    x = d.tensor(d.shape(1, 3))
    return Call("repeat", {"repeats": d.size(1, 3), "axis": d.axis(x.shape)}, [x])


def sort(name):
    def make(d):
        x = d.tensor(d.shape(1, 3, 30))
        return Call(name, {"axis": d.axis(x.shape), "descending": d.flag()}, [x])

    return make


def topk(d):
    x = d.tensor(d.shape(1, 3, 30))
    axis = d.axis(x.shape)
    k = d.size(1, x.shape[axis])
    return Call("topk", {"axis": axis, "largest": d.flag(), "k": k}, [x])


def attention(d):
    batch, heads, size = d.size(1, 2), d.size(1, 3), d.size(1, 20)
    rows = d.size(1, 9)
    columns = rows + d.size(0, 4)
    kind = d.random.choice(["none", "bool", "float"])
    inputs = [d.tensor([batch, heads, n, size]) for n in (rows, columns, columns)]
    shape = d.broadcast([batch, heads, rows, columns])
    if kind == "bool":
        inputs.append(d.mask(shape or [1], "mask"))
    if kind == "float":
        inputs.append(d.tensor(shape))
    return Call("attention", {"causal": d.flag()}, inputs)


def rnn(mode):
    def make(d):
        hidden, layers, both = d.size(1, 9), d.size(1, 2), d.flag()
        x = d.tensor([d.size(1, 6), d.size(1, 3), d.size(1, 9)])
        directions = 2 if both else 1
        gates = {"lstm": 4, "gru": 3}.get(mode, 1) * hidden
        state = [layers * directions, x.shape[1], hidden]
        inputs = [x] + [d.tensor(state) for _ in range(2 if mode == "lstm" else 1)]
        for layer in range(layers):
            size = hidden * directions if layer else x.shape[2]
            for _ in range(directions):
                for shape in ([gates, size], [gates, hidden], [gates], [gates]):
                    inputs.append(d.tensor(shape, -0.5, 0.5))
        attrs = {"mode": mode, "bidirectional": both}
        if d.flag():
            attrs["lengths"] = True
            inputs.append(d.indices(x.shape[1:2], x.shape[0] + 1, 1))
        return Call("rnn", attrs, inputs, tolerance=5)

    return make


def cast(d):
    dtype = d.random.choice(["float32", "float64", "int64", "int32", "int16", "bool"])
    return Call("cast", {"dtype": dtype}, [d.tensor(d.shape(), -9, 9)])


def arange(d):
    start, step = d.size(-5, 5), d.random.choice([-2, -1, 1, 3])
    return Call("arange", {"start": start, "stop": start + step * d.size(1, 40), "step": step}, [])


def linspace(d):
    attrs = {"start": d.size(-5, 5), "stop": d.size(-5, 5), "count": d.size(2, 40)}
    return Call("linspace", attrs, [])


def eye(d):
    return Call("eye", {"rows": d.size(), "columns": d.size(), "diagonal": d.size(-2, 2)}, [])


def full(d):
    return Call("full", {"shape": d.shape(), "value": d.random.uniform(-2, 2)}, [])


def ravel_index(d):
    dims, shape = d.shape(1, 3), d.shape(1, 2)
    return Call("ravel_index", {"dims": dims}, [d.indices(shape, n) for n in dims])


def sgd_momentum_update(d):
    shape = d.shape(1, 2)
    attrs = {"momentum": 0.9, "decay": d.random.choice([0.0, 0.01]), "scale": 1.0}
    inputs = [d.tensor(shape) for _ in range(3)] + [d.tensor([], 0.01, 0.5)]
    for x in inputs:
        x.kind = "weight"
    return Call("sgd_momentum_update", attrs, inputs)


def key(d):
    return d.indices([3], 1000)


def dropout(d):
    attrs = {"p": d.random.uniform(0.1, 0.9), "use": d.size()}
    return Call("dropout", attrs, [d.tensor(d.shape()), key(d)])


def drawn(name):
    def make(d):
        attrs = {"shape": d.shape(), "use": d.size()}
        if name == "randint":
            attrs |= {"low": -5, "high": d.size(0, 9)}
        if name == "permutation":
            attrs = {"n": d.size(1, 40), "use": d.size()}
        return Call(name, attrs, [key(d)])

    return make


def calls():
    """Every kind of call, by name."""
    table = {name: unary(name) for name in UNARY}
    table.update({name: binary(name) for name in BINARY})
    for name in ("logical_and", "logical_or", "logical_xor"):
        table[name] = logical(name)
    for name in ("sum", "mean", "prod", "max", "min", "var", "norm", "logsumexp"):
        table[name] = reduction(name)
    for rank in (1, 2, 3):
        table[f"conv {rank}d"] = conv(rank)
        table[f"conv_transpose {rank}d"] = conv_transpose(rank)
        table[f"max_pool {rank}d"] = pool("max_pool", rank)
        table[f"avg_pool {rank}d"] = pool("avg_pool", rank)
        for name in ("adaptive_avg_pool", "adaptive_max_pool"):
            table[f"{name} {rank}d"] = adaptive_pool(name, rank)
        table[f"interpolate {rank}d"] = interpolate(rank)
    for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        table[mode] = rnn(mode)
    for name in ("sort", "argsort"):
        table[name] = sort(name)
    for name in ("argmax", "argmin", "median"):
        table[name] = arg_reduction(name)
    for name in ("softmax", "log_softmax"):
        table[name] = softmax(name)
    table["slice"] = slice_
    for name in ("uniform", "normal", "bernoulli", "randint", "permutation"):
        table[name] = drawn(name)
    for name in ("global_avg_pool", "global_max_pool"):
        table[name] = global_pool(name)
    for function in (
        gelu, leaky_relu, elu, hard_sigmoid, clip, logical_not, where, cumsum, matmul, dense,
        batch_norm, batch_norm_inference, shard_mean, layer_norm, group_norm, instance_norm,
        softmax_cross_entropy, sigmoid_cross_entropy, ctc_loss, embedding, take, gather, pick,
        scatter_add, one_hot, reshape, transpose, expand, expand_dims, squeeze, flip, concat, split,
        pad, tile, repeat, topk, attention, cast, arange, linspace, eye, full, ravel_index,
        sgd_momentum_update, dropout, grid_sample, pixel_shuffle, pixel_unshuffle, cross_entropy,
        kl_div,
    ):  # fmt: skip
        table[function.__name__] = function
    table.update(importlib.import_module("math_calls").math_calls())  # which imports this module
    return table
