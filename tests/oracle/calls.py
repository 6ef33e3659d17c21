# SPDX-License-Identifier: Apache-2.0
"""Random calls of the ops that PyTorch shares: what Lockstep is asked, and torch's way to say it."""

import dataclasses
import random
from typing import Callable, List

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Call:
    op: str
    attrs: dict
    inputs: List[torch.Tensor]
    torch_function: Callable  # of the inputs; a tensor or a list, None where it has no counterpart
    tolerance: float = 1.0  # a factor


class Draw:
    """Random shapes, values and attributes of one seed and dtype."""

    def __init__(self, seed, dtype):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(60))
        self.dtype = dtype

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

    def tensor(self, shape, low=-2.0, high=2.0):
        unit = torch.rand(list(shape), generator=self.generator, dtype=torch.float64)
        return (low + (high - low) * unit).to(self.dtype)

    def indices(self, shape, below):
        return torch.randint(0, below, list(shape), generator=self.generator)

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
    "negative": (torch.neg, -3, 3),
    "exp": (torch.exp, -3, 3),
    "expm1": (torch.expm1, -1, 1),
    "log": (torch.log, 0.1, 5),
    "log1p": (torch.log1p, -0.5, 3),
    "sqrt": (torch.sqrt, 0.1, 5),
    "rsqrt": (torch.rsqrt, 0.1, 5),
    "square": (torch.square, -3, 3),
    "reciprocal": (torch.reciprocal, 0.2, 3),
    "abs": (torch.abs, -3, 3),
    "sign": (torch.sign, -3, 3),
    "floor": (torch.floor, -5, 5),
    "ceil": (torch.ceil, -5, 5),
    "round": (torch.round, -5, 5),
    "erf": (torch.erf, -3, 3),
    "sin": (torch.sin, -10, 10),
    "cos": (torch.cos, -10, 10),
    "tanh": (torch.tanh, -4, 4),
    "sigmoid": (torch.sigmoid, -8, 8),
    "softplus": (F.softplus, -8, 8),
    "relu": (torch.relu, -3, 3),
    "selu": (F.selu, -3, 3),
    "silu": (F.silu, -5, 5),
}


def unary(name):
    function, low, high = UNARY[name]

    def make(d):
        return Call(name, {}, [d.tensor(d.shape(), low, high)], function)

    return make


def gelu(d):
    approximate = d.flag()
    mode = "tanh" if approximate else "none"
    x = d.tensor(d.shape(), -4, 4)
    return Call("gelu", {"approximate": approximate}, [x], lambda x: F.gelu(x, approximate=mode))


def leaky_relu(d):
    slope = d.random.uniform(0, 0.5)
    x = d.tensor(d.shape())
    return Call("leaky_relu", {"slope": slope}, [x], lambda x: F.leaky_relu(x, slope))


def elu(d):
    alpha = d.random.uniform(0.5, 2)
    return Call("elu", {"alpha": alpha}, [d.tensor(d.shape())], lambda x: F.elu(x, alpha))


def hard_sigmoid(d):
    x = d.tensor(d.shape(), -5, 5)
    attrs = {"alpha": 0.3, "beta": 0.4}
    return Call("hard_sigmoid", attrs, [x], lambda x: torch.clamp(0.3 * x + 0.4, 0, 1))


def clip(d):
    low, high = sorted(d.random.uniform(-2, 2) for _ in range(2))
    x = d.tensor(d.shape())
    return Call("clip", {"low": low, "high": high}, [x], lambda x: torch.clamp(x, low, high))


BINARY = {
    "add": (torch.add, -2, 2),
    "subtract": (torch.sub, -2, 2),
    "multiply": (torch.mul, -2, 2),
    "divide": (torch.div, 0.3, 3),
    "floor_divide": (lambda a, b: torch.div(a, b, rounding_mode="floor"), 0.3, 9),
    "remainder": (torch.remainder, -3, 3),
    "power": (torch.pow, 0.3, 2),
    "maximum": (torch.maximum, -2, 2),
    "minimum": (torch.minimum, -2, 2),
    "equal": (torch.eq, -2, 2),
    "not_equal": (torch.ne, -2, 2),
    "less": (torch.lt, -2, 2),
    "less_equal": (torch.le, -2, 2),
    "greater": (torch.gt, -2, 2),
    "greater_equal": (torch.ge, -2, 2),
}


def binary(name):
    function, low, high = BINARY[name]

    def make(d):
        shape = d.shape()
        shapes = [shape, d.broadcast(shape)]
        d.random.shuffle(shapes)
        return Call(name, {}, [d.tensor(s, low, high) for s in shapes], function)

    return make


def logical(name):
    def make(d):
        shape = d.shape()
        inputs = [d.tensor(s) > 0 for s in (shape, d.broadcast(shape))]
        return Call(name, {}, inputs, getattr(torch, name))

    return make


def where(d):
    shape = d.shape()
    condition = d.tensor(d.broadcast(shape)) > 0
    return Call("where", {}, [condition, d.tensor(shape), d.tensor(d.broadcast(shape))], torch.where)


def reduction(name):
    def make(d):
        shape = d.shape(1, 4)
        axes, keep = d.axes(shape), d.flag()
        attrs = {"axes": axes, "keepdims": keep}
        if name == "var":
            attrs["ddof"] = d.size(0, 1)
            shape = [max(s, 2) for s in shape]
        if name == "norm":
            attrs["ord"] = d.size(1, 2)

        def prod(x):
            for axis in reversed(axes):
                x = x.prod(axis, keepdim=keep)
            return x

        functions = {
            "sum": lambda x: x.sum(axes, keepdim=keep),
            "mean": lambda x: x.mean(axes, keepdim=keep),
            "prod": prod,
            "max": lambda x: x.amax(axes, keepdim=keep),
            "min": lambda x: x.amin(axes, keepdim=keep),
            "var": lambda x: torch.var(x, axes, unbiased=attrs["ddof"] == 1, keepdim=keep),
            "norm": lambda x: torch.linalg.vector_norm(x, attrs["ord"], axes, keepdim=keep),
            "logsumexp": lambda x: torch.logsumexp(x, axes, keepdim=keep),
        }
        return Call(name, attrs, [d.tensor(shape, 0.2, 2)], functions[name])

    return make


def arg_reduction(name):
    def make(d):
        x = d.tensor(d.shape(1, 4))
        axis, keep = d.axis(x.shape), d.flag()
        function = getattr(torch, name)
        return Call(name, {"axis": axis, "keepdims": keep}, [x], lambda x: function(x, axis, keep))

    return make


def cumsum(d):
    x = d.tensor(d.shape(1, 4))
    axis, reverse = d.axis(x.shape), d.flag()

    def function(x):
        if not reverse:
            return x.cumsum(axis)
        return x.flip(axis).cumsum(axis).flip(axis)

    return Call("cumsum", {"axis": axis, "reverse": reverse}, [x], function)


def matmul(d):
    m, k, n = d.size(1, 20), d.size(1, 20), d.size(1, 20)
    lead = d.shape(0, 2)
    ta, tb = d.flag(), d.flag()
    a = d.tensor(lead + ([k, m] if ta else [m, k]))
    b = d.tensor(d.broadcast(lead) + ([n, k] if tb else [k, n]))

    def function(a, b):
        return torch.matmul(a.mT if ta else a, b.mT if tb else b)

    return Call("matmul", {"transpose_a": ta, "transpose_b": tb}, [a, b], function)


def dense(d):
    flatten = d.flag()
    x = d.tensor(d.shape(2, 4))
    features = x[0].numel() if flatten else x.shape[-1]
    units = d.size(1, 20)
    inputs = [x, d.tensor([units, features])] + ([d.tensor([units])] if d.flag() else [])

    def function(x, weight, bias=None):
        return F.linear(x.flatten(1) if flatten else x, weight, bias)

    return Call("dense", {"flatten": flatten}, inputs, function)


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
        spatial = [d.size(5, 9 if rank < 3 else 6) for _ in range(rank)]
        channels, filters = groups * d.size(1, 3), groups * d.size(1, 3)
        inputs = [
            d.tensor([d.size(1, 3), channels] + spatial),
            d.tensor([filters, channels // groups] + kernel),
        ]
        if d.flag():
            inputs.append(d.tensor([filters]))
        torch_conv = [F.conv1d, F.conv2d, F.conv3d][rank - 1]
        return Call("conv", attrs, inputs, lambda *x: torch_conv(*x, **attrs))

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
        functions = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
        function = functions[rank - 1]
        return Call("conv_transpose", attrs, inputs, lambda *x: function(*x, **attrs))

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
        x = d.tensor(d.shape(2, 2, 4) + [d.size(4, 8) for _ in range(rank)])
        keywords = {k: v for k, v in attrs.items() if k != "kernel"}
        if name == "avg_pool":
            attrs["count_include_pad"] = keywords["count_include_pad"] = d.flag()
        function = getattr(F, f"{name}{rank}d")
        return Call(name, attrs, [x], lambda x: [function(x, kernel, **keywords)])

    return make


def adaptive_avg_pool(rank):
    def make(d):
        size = [d.size(1, 4) for _ in range(rank)]
        x = d.tensor(d.shape(2, 2, 4) + [d.size(4, 8) for _ in range(rank)])
        function = getattr(F, f"adaptive_avg_pool{rank}d")
        return Call("adaptive_avg_pool", {"output_size": size}, [x], lambda x: function(x, size))

    return make


def global_pool(name, function):
    def make(d):
        x = d.tensor(d.shape(3, 5, 5))
        axes = list(range(2, x.dim()))
        return Call(name, {}, [x], lambda x: [function(x, axes, keepdim=True)])

    return make


def batch_norm(d):
    x = d.tensor([d.size(2, 4), d.size(1, 5)] + d.shape(0, 3, 5))

    def function(x, gamma, beta):
        axes = [a for a in range(x.dim()) if a != 1]
        y = F.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-4)
        return [y, x.mean(axes), x.var(axes, unbiased=False)]

    inputs = [x, d.tensor([x.shape[1]]), d.tensor([x.shape[1]])]
    return Call("batch_norm", {"epsilon": 1e-4}, inputs, function, tolerance=10)


def batch_norm_inference(d):
    x = d.tensor([d.size(1, 4), d.size(1, 5)] + d.shape(0, 3, 5))
    c = [x.shape[1]]

    def function(x, *of_channels):
        shape = [-1] + [1] * (x.dim() - 2)
        gamma, beta, mean, var = (t.reshape(shape) for t in of_channels)
        return (x - mean) / torch.sqrt(var + 1e-4) * gamma + beta

    inputs = [x, d.tensor(c), d.tensor(c), d.tensor(c), d.tensor(c, 0.5, 2)]
    return Call("batch_norm_inference", {"epsilon": 1e-4}, inputs, function)


def layer_norm(d):
    x = d.tensor(d.shape(1, 3) + [d.size(2, 40)])
    n = [x.shape[-1]]

    def function(x, gamma, beta):
        return [F.layer_norm(x, n, gamma, beta, eps=1e-4)]

    return Call("layer_norm", {"epsilon": 1e-4}, [x, d.tensor(n), d.tensor(n)], function, 10)


def group_norm(d):
    groups = d.size(1, 3)
    c = [groups * d.size(1, 3)]
    x = d.tensor([d.size(1, 3)] + c + d.shape(1, 3) + [2])

    def function(x, gamma, beta):
        return [F.group_norm(x, groups, gamma, beta, eps=1e-3)]

    attrs = {"groups": groups, "epsilon": 1e-3}
    return Call("group_norm", attrs, [x, d.tensor(c), d.tensor(c)], function, 10)


def instance_norm(d):
    c = [d.size(1, 4)]
    x = d.tensor([d.size(1, 3)] + c + d.shape(1, 2) + [3])

    def function(x, gamma, beta):
        return [F.instance_norm(x, None, None, gamma, beta, eps=1e-3)]

    return Call("instance_norm", {"epsilon": 1e-3}, [x, d.tensor(c), d.tensor(c)], function, 10)


def softmax(name):
    def make(d):
        x = d.tensor(d.shape(1, 4, 20), -5, 5)
        axis = d.axis(x.shape)
        return Call(name, {"axis": axis}, [x], lambda x: getattr(torch, name)(x, axis))

    return make


def softmax_cross_entropy(d):
    x = d.tensor(d.shape(0, 2) + [d.size(2, 12)], -4, 4)
    classes = x.shape[-1]
    smoothing = d.random.choice([0.0, 0.1])
    dense = d.flag()
    if dense:
        labels = torch.softmax(d.tensor(x.shape), -1)
    else:
        labels = d.indices(x.shape[:-1], classes)

    def function(x, labels):
        target = labels if dense else F.one_hot(labels, classes).to(x.dtype)
        target = (1 - smoothing) * target + smoothing / classes
        return [-(target * torch.log_softmax(x, -1)).sum(-1)]

    return Call("softmax_cross_entropy", {"smoothing": smoothing}, [x, labels], function)


def sigmoid_cross_entropy(d):
    x = d.tensor(d.shape(), -6, 6)
    labels = d.tensor(x.shape, 0, 1)

    def function(x, labels):
        return [F.binary_cross_entropy_with_logits(x, labels, reduction="none")]

    return Call("sigmoid_cross_entropy", {}, [x, labels], function)


def ctc_loss(d):
    classes, longest = d.size(2, 7), d.size(1, 4)
    x = d.tensor([d.size(2 * longest, 12), d.size(1, 4), classes], -3, 3)
    blank = d.random.choice([0, classes - 1])
    labels = d.indices([x.shape[1], longest], classes - 1) + (1 if blank == 0 else 0)
    counts = d.indices([x.shape[1]], longest + 1)
    steps = d.indices([x.shape[1]], x.shape[0] - 2 * longest + 1) + 2 * longest
    marked = labels.masked_fill(torch.arange(longest) >= counts[:, None], -1)

    def function(x, marked, steps):
        logs = torch.log_softmax(x, -1)
        return [F.ctc_loss(logs, labels, steps, counts, blank=blank, reduction="none")]

    return Call("ctc_loss", {"blank": blank}, [x, marked, steps], function)


def embedding(d):
    table = d.tensor([d.size(2, 9), d.size(1, 9)])
    indices = d.indices(d.shape(0, 3), table.shape[0])
    return Call("embedding", {}, [indices, table], F.embedding)


def take(d):
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    indices = d.indices(d.shape(1, 1), x.shape[axis])
    return Call("take", {"axis": axis}, [x, indices], lambda x, i: x.index_select(axis, i))


def gather(d):
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    shape = list(x.shape)
    shape[axis] = d.size(1, 5)
    index = d.indices(shape, x.shape[axis])
    return Call("gather", {"axis": axis}, [x, index], lambda x, i: x.gather(axis, i))


def pick(d):
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    shape = list(x.shape)
    del shape[axis]
    index = d.indices(shape, x.shape[axis])

    def function(x, i):
        return x.gather(axis, i.unsqueeze(axis)).squeeze(axis)

    return Call("pick", {"axis": axis}, [x, index], function)


def scatter_add(d):
    x = d.tensor(d.shape(1, 3))
    axis = d.axis(x.shape)
    shape = list(x.shape)
    shape[axis] = d.size(1, 5)
    index = d.indices(shape, x.shape[axis])
    inputs = [x, index, d.tensor(shape)]
    return Call("scatter_add", {"axis": axis}, inputs, lambda x, i, u: x.scatter_add(axis, i, u))


def one_hot(d):
    depth = d.size(2, 6)
    indices = d.indices(d.shape(), depth)

    def function(i):
        return F.one_hot(i, depth).to(torch.float32)

    return Call("one_hot", {"depth": depth}, [indices], function)


def reshape(d):
    x = d.tensor(d.shape(1, 4))
    return Call("reshape", {"shape": [-1, x.shape[0]]}, [x], lambda x: x.reshape(-1, x.shape[0]))


def transpose(d):
    x = d.tensor(d.shape(1, 4))
    axes = list(range(x.dim()))
    d.random.shuffle(axes)
    return Call("transpose", {"axes": axes}, [x], lambda x: x.permute(axes))


def expand(d):
    shape = d.shape(1, 4)
    x = d.tensor(d.broadcast(shape))
    return Call("expand", {"shape": shape}, [x], lambda x: x.expand(shape))


def flip(d):
    x = d.tensor(d.shape(1, 4))
    axes = d.axes(x.shape)
    return Call("flip", {"axes": axes}, [x], lambda x: x.flip(axes))


def slice_(d):
    x = d.tensor(d.shape(1, 4))
    begin = [d.size(0, n - 1) for n in x.shape]
    end = [d.size(b + 1, n) for b, n in zip(begin, x.shape)]
    step = [d.size(1, 2) for _ in begin]
    where = tuple(slice(*t) for t in zip(begin, end, step))
    return Call("slice", {"begin": begin, "end": end, "step": step}, [x], lambda x: x[where])


def concat(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    parts = []
    for _ in range(d.size(1, 4)):
        part = list(shape)
        part[axis] = d.size(1, 5)
        parts.append(d.tensor(part))
    return Call("concat", {"axis": axis}, parts, lambda *x: torch.cat(x, axis))


def split(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    sizes = [d.size(1, 4) for _ in range(d.size(1, 4))]
    shape[axis] = sum(sizes)
    attrs = {"sizes": sizes, "axis": axis}
    return Call("split", attrs, [d.tensor(shape)], lambda x: list(torch.split(x, sizes, axis)))


def pad(d):
    mode = d.random.choice(["constant", "edge", "reflect"])
    x = d.tensor([d.size(1, 3), d.size(1, 3), d.size(4, 6), d.size(4, 6)])
    inner = [d.size(0, 3) for _ in range(4)]  # torch: last axis first
    widths = [0, 0, 0, 0] + inner[2:] + inner[:2]
    value = 0.5 if mode == "constant" else 0.0
    torch_mode = {"edge": "replicate"}.get(mode, mode)

    def function(x):
        return F.pad(x, inner, torch_mode, value)

    return Call("pad", {"mode": mode, "widths": widths, "value": value}, [x], function)


def tile(d):
    x = d.tensor(d.shape(1, 3))
    repeats = [d.size(1, 3) for _ in x.shape]
    return Call("tile", {"repeats": repeats}, [x], lambda x: x.repeat(repeats))


def repeat(d):
    x = d.tensor(d.shape(1, 3))
    axis, count = d.axis(x.shape), d.size(1, 3)
    attrs = {"repeats": count, "axis": axis}
    return Call("repeat", attrs, [x], lambda x: x.repeat_interleave(count, axis))


def sort(name):
    def make(d):
        x = d.tensor(d.shape(1, 3, 30))
        axis, descending = d.axis(x.shape), d.flag()
        part = ["sort", "argsort"].index(name)
        attrs = {"axis": axis, "descending": descending}
        return Call(name, attrs, [x], lambda x: torch.sort(x, axis, descending)[part])

    return make


def topk(d):
    x = d.tensor(d.shape(1, 3, 30))
    axis, largest = d.axis(x.shape), d.flag()
    k = d.size(1, x.shape[axis])
    attrs = {"axis": axis, "largest": largest, "k": k}
    return Call("topk", attrs, [x], lambda x: list(torch.topk(x, k, axis, largest)))


def attention(d):
    batch, heads, size = d.size(1, 2), d.size(1, 3), d.size(1, 20)
    rows = d.size(1, 9)
    columns = rows + d.size(0, 4)
    causal = d.flag()
    kind = d.random.choice(["none", "bool", "float"])
    inputs = [d.tensor([batch, heads, n, size]) for n in (rows, columns, columns)]
    if kind == "bool":
        mask = d.tensor(d.broadcast([batch, heads, rows, columns]) or [1]) > -1
        mask[..., 0] = True
        inputs.append(mask)
    if kind == "float":
        inputs.append(d.tensor(d.broadcast([batch, heads, rows, columns])))

    def function(q, k, v, mask=None):
        scores = q @ k.mT / size**0.5
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        if causal:
            seen = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
            scores = scores.masked_fill(~seen, float("-inf"))
        return [(torch.softmax(scores, -1) @ v).transpose(1, 2)]

    return Call("attention", {"causal": causal}, inputs, function)


def rnn(mode):
    def make(d):
        hidden, layers, both = d.size(1, 9), d.size(1, 2), d.flag()
        x = d.tensor([d.size(1, 6), d.size(1, 3), d.size(1, 9)])
        directions = 2 if both else 1
        gates = {"lstm": 4, "gru": 3}.get(mode, 1) * hidden
        state = [layers * directions, x.shape[1], hidden]
        inputs = [x] + [d.tensor(state) for _ in range(2 if mode == "lstm" else 1)]
        first_weight = len(inputs)
        for layer in range(layers):
            size = hidden * directions if layer else x.shape[2]
            for _ in range(directions):
                for shape in ([gates, size], [gates, hidden], [gates], [gates]):
                    inputs.append(d.tensor(shape, -0.5, 0.5))

        def function(x, *rest):
            states, weights = rest[: first_weight - 1], rest[first_weight - 1 :]
            start = states if mode == "lstm" else states[0]
            return getattr(torch, mode)(x, start, weights, True, layers, 0.0, True, both, False)

        attrs = {"mode": mode, "bidirectional": both}
        return Call("rnn", attrs, inputs, function, tolerance=5)

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
        table[f"adaptive_avg_pool {rank}d"] = adaptive_avg_pool(rank)
    for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        table[mode] = rnn(mode)
    for name in ("sort", "argsort"):
        table[name] = sort(name)
    for name in ("argmax", "argmin"):
        table[name] = arg_reduction(name)
    for name in ("softmax", "log_softmax"):
        table[name] = softmax(name)
    table["slice"] = slice_
    table["global_avg_pool"] = global_pool("global_avg_pool", torch.mean)
    table["global_max_pool"] = global_pool("global_max_pool", torch.amax)
    for function in (
        gelu, leaky_relu, elu, hard_sigmoid, clip, where, cumsum, matmul, dense, batch_norm,
        batch_norm_inference, layer_norm, group_norm, instance_norm, softmax_cross_entropy,
        sigmoid_cross_entropy, ctc_loss, embedding, take, gather, pick, scatter_add, one_hot,
        reshape, transpose, expand, flip, concat, split, pad, tile, repeat, topk, attention,
    ):  # fmt: skip
        table[function.__name__] = function
    return table
