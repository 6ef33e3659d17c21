# SPDX-License-Identifier: Apache-2.0
"""What ops mean, in PyTorch: for each a function of its attributes and inputs.

It returns a tensor or a list; None stands for an output without a counterpart.
"""

import torch
import torch.nn.functional as F

from math_meanings import math_meanings


def elu(x, alpha):
    """PyTorch's own loses small numbers: it subtracts 1 from the exponential."""
    return torch.where(x > 0, x, alpha * torch.expm1(x.masked_fill(x > 0, 0)))


UNARY = {
    "negative": torch.neg,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "abs": torch.abs,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "relu": torch.relu,
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "silu": F.silu,
    "logical_not": torch.logical_not,
    "stop_gradient": torch.Tensor.detach,
}

BINARY = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "remainder": torch.remainder,
    "power": torch.pow,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}

def prod(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


REDUCTIONS = {
    "sum": lambda x, axes, keep, a: x.sum(axes, keepdim=keep),
    "mean": lambda x, axes, keep, a: x.mean(axes, keepdim=keep),
    "prod": lambda x, axes, keep, a: prod(x, axes, keep),
    "max": lambda x, axes, keep, a: x.amax(axes, keepdim=keep),
    "min": lambda x, axes, keep, a: x.amin(axes, keepdim=keep),
    "var": lambda x, axes, keep, a: torch.var(x, axes, unbiased=a.get("ddof", 0) == 1, keepdim=keep),
    "norm": lambda x, axes, keep, a: torch.linalg.vector_norm(x, a["ord"], axes, keepdim=keep),
    "logsumexp": lambda x, axes, keep, a: torch.logsumexp(x, axes, keepdim=keep),
}


def reduction(function):
    def meaning(a, x):
        axes = [i % x.dim() for i in a.get("axes", [])] or list(range(x.dim()))
        return function(x, axes, a.get("keepdims", False), a) if axes else x.clone()

    return meaning


def arg_reduction(function):
    return lambda a, x: function(x, a["axis"], a.get("keepdims", False))


def cumsum(a, x):
    axis = a["axis"]
    return x.flip(axis).cumsum(axis).flip(axis) if a.get("reverse") else x.cumsum(axis)


def matmul(a, x, y):
    return torch.matmul(
        x.mT if a.get("transpose_a") else x,
        y.mT if a.get("transpose_b") else y,
    )


def dense(a, x, weight, bias=None):
    flat = x.flatten(1) if a.get("flatten", True) else x
    return F.linear(flat, weight, bias)


def window(a, *names):
    return {name: a[name] for name in names if name in a}


def conv(a, x, weight, bias=None):
    function = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    keywords = window(a, "stride", "padding", "dilation", "groups")
    return function(x, weight, bias, **keywords)


def conv_transpose(a, x, weight, bias=None):
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 3]
    keywords = window(a, "stride", "padding", "dilation", "groups", "output_padding")
    return function(x, weight, bias, **keywords)


def max_pool(a, x):
    """The window's padding may exceed half of it, which torch's own refuses."""
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[x.dim() - 3]
    kernel, padding = a["kernel"], a["padding"]
    dilation = a.get("dilation") or [1] * len(kernel)
    if all(2 * p <= k for p, k in zip(padding, kernel)):
        if not all(meets_data(n, *w, step) for n, w, step in zip(x.shape[2:], windows(a), dilation)):
            raise NotImplementedError("torch's gradient of a window of padding alone is written "
                                      "outside of its memory")
        return [function(x, kernel, a["stride"], padding, dilation, a["ceil_mode"])]
    if any(step > 1 for step in dilation):
        raise NotImplementedError("dilated windows whose padding is above their half")
    if torch.isinf(x).any():
        raise NotImplementedError("the padding would be as large as an element")
    sizes = [s for p in reversed(padding) for s in (p, p)]
    wide = F.pad(x, sizes, value=float("-inf"))
    out = [pooled_size(n, *w) for n, w in zip(x.shape[2:], windows(a))]
    need = [(o - 1) * s + k for o, s, k in zip(out, a["stride"], kernel)]
    more = [m for n, w in zip(need[::-1], wide.shape[:1:-1]) for m in (0, n - w)]
    return [function(F.pad(wide, more, value=float("-inf")), kernel, a["stride"])]


def windows(a):
    ceil = [a["ceil_mode"]] * len(a["kernel"])
    return zip(a["kernel"], a["stride"], a["padding"], ceil)


def pooled_size(n, kernel, stride, padding, ceil):
    whole = n + 2 * padding - kernel
    size = -(-whole // stride) + 1 if ceil else whole // stride + 1
    return size - 1 if ceil and (size - 1) * stride >= n + padding else size


def meets_data(n, kernel, stride, padding, ceil, dilation):
    """Whether every window has an element of the data, not of the padding alone."""
    reach = dilation * (kernel - 1) + 1
    starts = range(-padding, pooled_size(n, reach, stride, padding, ceil) * stride - padding, stride)
    return all(any(0 <= start + dilation * tap < n for tap in range(kernel)) for start in starts)


def avg_pool(a, x):
    """As sums over counts, since torch's own refuses padding above half of the window."""
    rank = x.dim() - 2
    ones = torch.ones([1, 1] + list(x.shape[2:]), dtype=x.dtype)
    total, count = summed(a, x), summed(a, ones)
    if a["count_include_pad"]:
        count = padded_counts(a, x.shape[2:]).to(x.dtype).reshape(count.shape)
    return [total / count] if rank else [x]


def padded_counts(a, sizes):
    """How many elements a window has, padding included: what ceil_mode adds beyond is not."""
    counts = torch.ones([])
    for n, (kernel, stride, padding, ceil) in zip(sizes, windows(a)):
        starts = [i * stride - padding for i in range(pooled_size(n, kernel, stride, padding, ceil))]
        sides = torch.tensor([float(min(s + kernel, n + padding) - s) for s in starts])
        counts = counts[..., None] * sides
    return counts


def summed(a, x):
    """The sum of each window, one axis after the other."""
    for axis, (kernel, stride, padding, ceil) in enumerate(windows(a)):
        axis += 2
        n = x.shape[axis]
        out = pooled_size(n, kernel, stride, padding, ceil)
        rows = []
        for i in range(out):
            begin, end = max(i * stride - padding, 0), min(i * stride - padding + kernel, n)
            rows.append(x.narrow(axis, begin, end - begin).sum(axis, keepdim=True))
        x = torch.cat(rows, axis)
    return x


def adaptive_avg_pool(a, x):
    function = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[x.dim() - 3]
    return function(x, a["output_size"])


def adaptive_max_pool(a, x):
    names = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
    return [names[x.dim() - 3](x, a["output_size"])]


def interpolate(a, x):
    linear = ("linear", "bilinear", "trilinear")[x.dim() - 3]
    mode = {"linear": linear, "nearest_exact": "nearest-exact"}.get(a["mode"], a["mode"])
    corners = a["align_corners"] if a["mode"] == "linear" else None
    if a.get("scale"):
        return F.interpolate(x, scale_factor=a["scale"], mode=mode, align_corners=corners)
    return F.interpolate(x, a["size"], mode=mode, align_corners=corners)


def grid_sample(a, x, grid):
    if not torch.isfinite(grid).all():
        raise NotImplementedError("torch reads, and writes, anywhere at infinite coordinates")
    return F.grid_sample(x, grid, a["mode"], a["padding"], a["align_corners"])


def cross_entropy(a, x, labels):
    weights = torch.tensor(a["weights"], dtype=x.dtype) if a["weights"] else None
    ignored = a.get("ignore", -100)
    if (labels == ignored).all():
        return (x * 0).sum()
    return F.cross_entropy(
        x, labels, weights, ignore_index=ignored, label_smoothing=a["smoothing"]
    )


def kl_div(a, x, target):
    if not a["log_target"]:
        return F.kl_div(x, target, reduction="mean")
    # What has no probability adds nothing, written as 0 or as its logarithm; F.kl_div has 0 for the
    # former and NaN for the latter.
    return (target.exp() * (target.masked_fill(target == -torch.inf, 0) - x)).mean()


def global_avg_pool(a, x):
    return x.mean(list(range(2, x.dim())), keepdim=True)


def global_max_pool(a, x):
    """The first of the largest has the gradient, which amax would share."""
    flat = F.adaptive_max_pool1d(x.flatten(2), 1)
    return flat.reshape(list(x.shape[:2]) + [1] * (x.dim() - 2))


def batch_norm(a, x, gamma, beta):
    axes = [i for i in range(x.dim()) if i != 1]
    y = torch.batch_norm(x, gamma, beta, None, None, True, 0.0, a["epsilon"], False)
    y = torch.relu(y) if a.get("relu") else y
    return [y, x.mean(axes), x.var(axes, unbiased=False)]


def batch_norm_inference(a, x, *of_channels):
    shape = [-1] + [1] * (x.dim() - 2)
    gamma, beta, mean, var = (t.reshape(shape) for t in of_channels)
    y = (x - mean) / torch.sqrt(var + a["epsilon"]) * gamma + beta
    return torch.relu(y) if a.get("relu") else y


def layer_norm(a, x, gamma, beta):
    return [F.layer_norm(x, [x.shape[-1]], gamma, beta, eps=a["epsilon"])]


def group_norm(a, x, gamma, beta):
    return F.group_norm(x, a["groups"], gamma, beta, eps=a["epsilon"])


def instance_norm(a, x, gamma, beta):
    return F.instance_norm(x, None, None, gamma, beta, eps=a["epsilon"])


def softmax_cross_entropy(a, x, labels):
    classes, smoothing = x.shape[-1], a.get("smoothing", 0.0)
    target = labels if labels.is_floating_point() else F.one_hot(labels, classes).to(x.dtype)
    target = (1 - smoothing) * target + smoothing / classes
    logs = torch.log_softmax(x, -1)
    # A class that has no part in the target adds nothing, however unlikely it is.
    parts = torch.where((target == 0) & torch.isinf(logs), torch.zeros_like(logs), target * logs)
    return [-parts.sum(-1)]


def sigmoid_cross_entropy(a, x, labels):
    """PyTorch's own makes NaN of infinite logits, where the loss is 0 or infinite."""
    far = torch.isinf(x)
    near = F.binary_cross_entropy_with_logits(x.masked_fill(far, 0), labels, reduction="none")
    if not far.any():
        return [near]
    # How much of the label is on the other side; 0 where the other branch is taken.
    off = torch.where(x > 0, 1 - labels, labels).masked_fill(~far, 0)
    return [torch.where(far, torch.where(off == 0, off, off * x.abs()), near)]


def ctc_loss(a, x, marked, steps):
    counts = (marked >= 0).sum(-1)
    labels = marked.clamp(min=1 if a["blank"] == 0 else 0)
    logs = torch.log_softmax(x, -1)
    return [F.ctc_loss(logs, labels, steps, counts, blank=a["blank"], reduction="none")]


def pick(a, x, index):
    return x.gather(a["axis"], index.unsqueeze(a["axis"])).squeeze(a["axis"])


def slice_(a, x):
    for axis, (begin, end, step) in enumerate(zip(a["begin"], a["end"], a["step"])):
        x = x.index_select(axis, torch.arange(x.shape[axis])[slice(begin, end, step)])
    return x


def pad(a, x):
    widths = a["widths"]
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    inner = [w for pair in reversed(pairs) for w in pair]
    mode = {"edge": "replicate"}.get(a["mode"], a["mode"])
    while mode != "constant" and inner[-2:] == [0, 0] and len(inner) > 4:
        inner = inner[:-2]
    return F.pad(x, inner, mode, a["value"])


def sort(a, x):
    return torch.sort(x, stable=True, dim=a["axis"], descending=a["descending"])


def topk(a, x):
    return list(torch.topk(x, a["k"], a["axis"], a["largest"]))


def median(a, x):
    return list(torch.median(x, a["axis"], a.get("keepdims", False)))


def attention(a, q, k, v, mask=None):
    rows, columns = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / q.shape[-1] ** 0.5
    seen = torch.ones(rows, columns, dtype=torch.bool)
    if a["causal"]:
        seen = seen.tril(columns - rows)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
    if v.isfinite().all():
        return [(weights @ v).transpose(1, 2)]
    # What a query does not see is not multiplied by 0 either.
    terms = weights.unsqueeze(-1) * v.unsqueeze(-3)
    return [terms.masked_fill(~seen.unsqueeze(-1), 0.0).sum(-2).transpose(1, 2)]


def rnn(a, x, *rest):
    mode, both = a["mode"], a["bidirectional"]
    states = 2 if mode == "lstm" else 1
    start = list(rest[:2]) if mode == "lstm" else rest[0]
    weights = list(rest[states : len(rest) - 1 if a.get("lengths") else len(rest)])
    layers = len(weights) // (8 if both else 4)
    function = getattr(torch, mode)
    if not a.get("lengths"):
        return list(function(x, start, weights, True, layers, 0.0, True, both, False))
    lengths, order = torch.sort(rest[-1], descending=True)
    back = torch.argsort(order)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x[:, order], lengths)
    begin = [s[:, order] for s in start] if mode == "lstm" else start[:, order]
    y, *last = function(packed.data, packed.batch_sizes, begin, weights, True, layers, 0.0, True, both)
    packed = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes)
    whole, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=x.shape[0])
    return [whole[:, back]] + [s[:, back] for s in last]


def eye(a):
    return torch.ones(a["rows"], a["columns"]).triu(a["diagonal"]).tril(a["diagonal"])


def ravel_index(a, *indices):
    total = 0
    for index, size in zip(indices, a["dims"]):
        total = total * size + index
    return total


def gelu(x, approximate):
    """In float64, which is the truth, by erfc: 1 + erf(x) loses what is left of a small one."""
    if approximate or x.dtype != torch.float64:
        return F.gelu(x, approximate="tanh" if approximate else "none")
    return 0.5 * x * torch.erfc(-x * 0.5**0.5)


def meanings():
    """Every meaning, by the op's name."""
    table = {name: (lambda a, x, f=f: f(x)) for name, f in UNARY.items()}
    table.update({name: (lambda a, x, y, f=f: f(x, y)) for name, f in BINARY.items()})
    table.update({name: reduction(f) for name, f in REDUCTIONS.items()})
    table.update({name: arg_reduction(getattr(torch, name)) for name in ("argmax", "argmin")})
    table.update({
        "gelu": lambda a, x: gelu(x, a.get("approximate")),
        "leaky_relu": lambda a, x: F.leaky_relu(x, a["slope"]),
        "elu": lambda a, x: elu(x, a["alpha"]),
        "hard_sigmoid": lambda a, x: torch.clamp(a["alpha"] * x + a["beta"], 0, 1),
        "clip": lambda a, x: torch.clamp(x, a["low"], a["high"]),
        "where": lambda a, c, x, y: torch.where(c, x, y),
        "softmax": lambda a, x: torch.softmax(x, a["axis"]),
        "log_softmax": lambda a, x: torch.log_softmax(x, a["axis"]),
        "embedding": lambda a, i, table: F.embedding(i, table),
        "take": lambda a, x, i: x.index_select(a["axis"], i),
        "gather": lambda a, x, i: x.gather(a["axis"], i),
        "scatter_add": lambda a, x, i, u: x.scatter_add(a["axis"], i, u),
        "one_hot": lambda a, i: F.one_hot(i, a["depth"]).to(torch.float32),
        "reshape": lambda a, x: x.reshape(a["shape"]),
        "transpose": lambda a, x: x.permute(a["axes"]),
        "expand": lambda a, x: x.expand(a["shape"]),
        "expand_dims": lambda a, x: x.unsqueeze(a["axis"]),
        "squeeze": lambda a, x: x.squeeze(a["axes"][0]),
        "flip": lambda a, x: x.flip(a["axes"]),
        "slice": slice_,
        "concat": lambda a, *x: torch.cat(x, a["axis"]),
        "split": lambda a, x: list(torch.split(x, a["sizes"], a["axis"])),
        "tile": lambda a, x: x.repeat(a["repeats"]),
        "repeat": lambda a, x: x.repeat_interleave(a["repeats"], a["axis"]),
        "cast": lambda a, x: x.to(getattr(torch, a["dtype"])),
        "arange": lambda a: torch.arange(a["start"], a["stop"], a["step"], dtype=torch.float32),
        "linspace": lambda a: torch.linspace(
            a["start"], a["stop"], a["count"], dtype=torch.float64
        ).to(torch.float32),
        "full": lambda a: torch.full(a["shape"], a["value"]),
        "pixel_shuffle": lambda a, x: F.pixel_shuffle(x, a["factor"]),
        "pixel_unshuffle": lambda a, x: F.pixel_unshuffle(x, a["factor"]),
        "shard_mean": lambda a, x: [x * 1, torch.ones((), dtype=x.dtype)],
        "sort": lambda a, x: sort(a, x)[0],
        "argsort": lambda a, x: sort(a, x)[1],
    })  # fmt: skip
    for function in (
        cumsum, matmul, dense, conv, conv_transpose, max_pool, avg_pool, adaptive_avg_pool,
        adaptive_max_pool, interpolate, grid_sample, cross_entropy, kl_div,
        batch_norm, batch_norm_inference, layer_norm, group_norm, instance_norm,
        softmax_cross_entropy, sigmoid_cross_entropy, ctc_loss, pick, pad, topk, median, attention,
        rnn, eye, ravel_index, global_avg_pool, global_max_pool,
    ):  # fmt: skip
        table[function.__name__] = function
    return table | math_meanings()
