# SPDX-License-Identifier: Apache-2.0
"""Random cases: single ops, geometries of convolutions and pools, nets, with special values."""

from calls import Call, Draw, calls
from nets import draw_net
from programs import finish, single

CALLS = calls()
DTYPES = ["float32"] * 4 + ["float64", "bfloat16", "bfloat16", "float16"]
SPECIALS = ["nan", "nan", "inf", "-inf", "infs", "zeros", "subnormal", "tiny", "large"]
# Which of equal elements it takes, what a NaN is as an integer, what LAPACK makes of infinities, how
# a product with zeros or infinities is differentiated.
UNSAID = {
    "topk", "median", "cast", "categorical", "solve", "solve_triangular", "cumprod", "linear_scan",
}  # fmt: skip
LOGITS = {"softmax", "log_softmax", "softmax_cross_entropy", "attention", "logsumexp"}
SHIFTS = [1e4, -1e4, 1e5, 3e3]


def draw_call(d, server):
    names = list(CALLS)
    return CALLS[names[d.random.randrange(len(names))]](d)


def fills_blocks(g):
    """Whole blocks of channels and padding: what libraries have kernels of their own for, and went
    wrong with."""
    whole = g["in_channels"] % 16 == 0 and g["out_channels"] % 16 == 0 and g["groups"] == 1
    return whole and g["padding"][0] > 0


def draw_conv(d, server):
    blocked, rank = d.chance(0.5), d.random.choice([1, 2, 3, 3])
    for _ in range(150):
        g = server.ask({"command": "conv", "seed": d.seed()})
        if not blocked or fills_blocks(g) and len(g["input"]) == rank:
            break
    attrs = {name: g[name] for name in ("stride", "padding", "dilation", "groups")}
    weight = [g["out_channels"], g["in_channels"] // g["groups"]] + g["kernel"]
    x = [g["batch"], g["in_channels"]] + g["input"]
    op, bias = "conv", g["out_channels"]
    if d.chance(0.25) and transposed_fits(g):
        op, bias = "conv_transpose", weight[1] * g["groups"]
        x[1] = weight[0]
        attrs["output_padding"] = [d.size(0, s - 1) for s in g["stride"]]
    inputs = [d.tensor(x), d.tensor(weight)] + ([d.tensor([bias])] if d.flag() else [])
    return Call(op, attrs, inputs)


def transposed_fits(g):
    """Something is left of every axis when the padding has been cut off."""
    axes = zip(g["input"], g["kernel"], g["stride"], g["padding"], g["dilation"])
    return all((n - 1) * s - 2 * p + e * (k - 1) + 1 > 0 for n, k, s, p, e in axes)


def draw_pool(d, server):
    g = server.ask({"command": "pool", "seed": d.seed()})
    attrs = {name: g[name] for name in ("kernel", "stride", "padding", "ceil_mode")}
    op = d.random.choice(["max_pool", "avg_pool"])
    if op == "avg_pool":
        attrs["count_include_pad"] = g["count_include_pad"]
    else:
        attrs["dilation"] = g["dilation"]
    return Call(op, attrs, [d.tensor([g["batch"], g["channels"]] + g["input"])])


def make_special(d, case):
    """Some elements of one input. Not of a convolution's weights: zeros that a library puts around
    the data or between its elements make NaN of them. Nor of a norm's: in which order they are
    multiplied decides whether infinity less infinity comes up."""
    floats = [x for x in case.inputs if x.kind == "float"]
    op = case.nodes[0]["op"]
    if not floats or op in UNSAID:
        return
    floats = floats[:3] if op == "attention" else floats  # a row that it masks is no case
    first = op.startswith("conv") or op.endswith("norm") or op == "batch_norm_inference"
    chosen = floats[0] if first else d.random.choice(floats)
    chosen.special = d.random.choice(SPECIALS)
    if op == "ctc_loss":  # whose gradient is 0 where the loss is infinite, and beyond the length
        chosen.special = "nan" if "inf" in chosen.special else chosen.special
        case.inputs[2].low = case.inputs[2].high = chosen.shape[0]
    if case.dtype == "float16" and chosen.special == "large":
        chosen.special = "zeros"


KINDS = {"op": draw_call, "conv": draw_conv, "pool": draw_pool}


def draw_case(seed, index, server, kind=""):
    """Of the given kind (a key of KINDS, or net), or of any."""
    d = Draw(f"{seed} {index}")
    dtype = d.random.choice(DTYPES)
    kind = kind or d.random.choices(["op", "conv", "pool", "net"], [40, 25, 5, 30])[0]
    if kind == "net":
        return draw_net(d, dtype, server)
    call = KINDS[kind](d, server)
    if call.op in ("topk", "median") and dtype in ("bfloat16", "float16"):
        dtype = "float32"  # fewer equals
    case = single(call, dtype)
    case.second = d.chance(0.2) and dtype in ("float32", "float64")
    if call.op in LOGITS and d.chance(0.3) and dtype in ("float32", "bfloat16"):
        call.inputs[0].shift = d.random.choice(SHIFTS)
        case.second = False
    elif d.chance(0.25):
        make_special(d, case)
        case.second = False
    return finish(server, case)
