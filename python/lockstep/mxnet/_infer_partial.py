# SPDX-License-Identifier: Apache-2.0
"""Shapes of which not all is known, spread over a graph in both directions.

A shape is None where not even the number of axes is known, an extent -1 where it is not. Each op that
has a rule here tells what its inputs and outputs say of each other; rules are applied forward and
backward until nothing new is found, as MXNet does it.
"""

from lockstep.errors import InvalidArgument

UNKNOWN = -1


def is_whole(shape):
    """Whether all of it is known."""
    return shape is not None and UNKNOWN not in shape


def merge(a, b):
    """What two shapes of the same thing say together. Raises ValueError where they differ."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise ValueError(f"{_shown(a)} and {_shown(b)} have not as many axes")
    return tuple(_extent(x, y) for x, y in zip(a, b))


def _extent(x, y):
    if x == UNKNOWN or y == UNKNOWN:
        return max(x, y)
    if x != y:
        raise ValueError(f"{x} is not {y}")
    return x


def _shown(shape):
    return str([extent if extent != UNKNOWN else "?" for extent in shape])


def _tuple(value, count, default):
    if value is None or value == ():
        return (default,) * count
    return (value,) * count if isinstance(value, int) else tuple(value)


def _product(extents):
    made = 1
    for extent in extents:
        if extent == UNKNOWN:
            return UNKNOWN
        made *= extent
    return made


def _solve(extents, product):
    """The extents, where one of them is not known and the product tells it."""
    if product == UNKNOWN or list(extents).count(UNKNOWN) != 1:
        return tuple(extents)
    rest = _product(extent for extent in extents if extent != UNKNOWN)
    if rest == 0 or product % rest:
        raise ValueError(f"{_shown(extents)} has not {product} elements")
    return tuple(product // rest if extent == UNKNOWN else extent for extent in extents)


# Rules: (params, inputs, outputs) as lists of shapes, changed in place.


def _all_same(params, ins, outs):
    whole = None
    for shape in ins + outs[:1]:
        whole = merge(whole, shape)
    ins[:] = [whole] * len(ins)
    outs[0] = whole


def _first_same(params, ins, outs):
    ins[0] = outs[0] = merge(ins[0], outs[0])


def _norm(default_axis):
    def rule(params, ins, outs):
        _first_same(params, ins, outs)
        if ins[0] is None:
            return
        axis = int(params.get("axis", default_axis)) % len(ins[0])
        channels = (ins[0][axis],)
        for shape in ins[1:]:
            channels = merge(channels, shape)
        ins[1:] = [channels] * (len(ins) - 1)
        ins[0] = outs[0] = ins[0][:axis] + channels + ins[0][axis + 1:]

    return rule


def _dense(params, ins, outs):
    if ins[0] is None:
        return
    units, data = int(params["num_hidden"]), ins[0]
    flat = params.get("flatten", True)
    features = _product(data[1:]) if flat else data[-1]
    weight = merge((units, features), ins[1])
    lead = data[:1] if flat else data[:-1]
    outs[0] = merge(lead + (units,), outs[0])
    ins[1] = weight
    ins[2:] = [merge((units,), shape) for shape in ins[2:]]
    lead = outs[0][:-1]
    ins[0] = lead + (_solve(data[1:], weight[1]) if flat else (weight[1],))


def _conv(params, ins, outs):
    if ins[0] is None:
        return
    data, filters, groups = ins[0], int(params["num_filter"]), int(params.get("num_group", 1))
    kernel, count = _tuple(params.get("kernel"), len(data) - 2, 1), len(data) - 2
    stride, dilate, pad = (_tuple(params.get(key), count, default) for key, default in (
        ("stride", 1), ("dilate", 1), ("pad", 0)))
    channels = data[1] // groups if data[1] != UNKNOWN else UNKNOWN
    ins[1] = merge((filters, channels) + kernel, ins[1])
    channels = data[1] if ins[1][1] == UNKNOWN else ins[1][1] * groups
    spans = [d * (k - 1) + 1 for d, k in zip(dilate, kernel)]
    ahead = tuple(UNKNOWN if extent == UNKNOWN else (extent + 2 * p - span) // s + 1
                  for extent, p, span, s in zip(data[2:], pad, spans, stride))
    outs[0] = merge((data[0], filters) + ahead, outs[0])
    back = tuple(extent if extent != UNKNOWN or out == UNKNOWN else (out - 1) * s + span - 2 * p
                 for extent, out, p, span, s in zip(data[2:], outs[0][2:], pad, spans, stride))
    ins[0] = (outs[0][0], channels) + back
    ins[2:] = [merge((filters,), shape) for shape in ins[2:]]


def _deconv(params, ins, outs):
    if ins[0] is None:
        return
    data, groups = ins[0], int(params.get("num_group", 1))
    kernel, filters = _tuple(params.get("kernel"), len(data) - 2, 1), int(params["num_filter"])
    ins[1] = merge((data[1], filters // groups) + kernel, ins[1])
    outs[0] = merge((data[0], filters) + (UNKNOWN,) * len(kernel), outs[0])
    ins[0] = (outs[0][0], ins[1][0]) + data[2:]


def _pool(params, ins, outs):
    if ins[0] is None and outs[0] is None:
        return
    count = len(ins[0] or outs[0]) - 2
    spatial = (1 if params.get("global_pool", False) else UNKNOWN,) * count
    outs[0] = merge((ins[0] or (UNKNOWN,) * 2)[:2] + spatial, outs[0])
    ins[0] = merge(ins[0], outs[0][:2] + (UNKNOWN,) * count)


def _split(params, ins, outs):
    axis, parts = int(params.get("axis", 1)), int(params["num_outputs"])
    squeezed = params.get("squeeze_axis", False)
    whole = None
    for shape in outs:
        whole = merge(whole, shape)
    if whole is not None:
        place = axis % (len(whole) + (1 if squeezed else 0))
        if squeezed:
            own = whole[:place] + (parts,) + whole[place:]
        else:
            size = UNKNOWN if whole[place] == UNKNOWN else whole[place] * parts
            own = whole[:place] + (size,) + whole[place + 1:]
        ins[0] = merge(ins[0], own)
    if ins[0] is None:
        return
    place, size = axis % len(ins[0]), ins[0][axis]
    middle = () if squeezed else (UNKNOWN if size == UNKNOWN else size // parts,)
    outs[:] = [ins[0][:place] + middle + ins[0][place + 1:]] * len(outs)


def _concat(params, ins, outs):
    like = next((shape for shape in ins + outs if shape is not None), None)
    if like is None:
        return
    axis = int(params.get("dim", 1)) % len(like)
    common = None
    for shape in ins + outs:
        if shape is not None:
            common = merge(common, shape[:axis] + (UNKNOWN,) + shape[axis + 1:])
    sizes = [UNKNOWN if shape is None else shape[axis] for shape in ins]
    total = UNKNOWN if UNKNOWN in sizes else sum(sizes)
    total = _extent(total, UNKNOWN if outs[0] is None else outs[0][axis])
    if sizes.count(UNKNOWN) == 1 and total != UNKNOWN:
        rest = total - sum(size for size in sizes if size != UNKNOWN)
        sizes = [rest if size == UNKNOWN else size for size in sizes]
    ins[:] = [common[:axis] + (size,) + common[axis + 1:] for size in sizes]
    outs[0] = common[:axis] + (total,) + common[axis + 1:]


def _stack(params, ins, outs):
    whole = None
    for shape in ins:
        whole = merge(whole, shape)
    axis = int(params.get("axis", 0))
    if outs[0] is not None:
        place = axis % len(outs[0])
        whole = merge(whole, outs[0][:place] + outs[0][place + 1:])
    if whole is None:
        return
    place = axis % (len(whole) + 1)
    ins[:] = [whole] * len(ins)
    outs[0] = merge(outs[0], whole[:place] + (len(ins),) + whole[place:])


def _reshape(params, ins, outs):
    target = params.get("shape", params.get("newshape", ()))
    target = (target,) if isinstance(target, int) else tuple(target or ())
    if target and all(extent > 0 for extent in target):
        outs[0] = merge(outs[0], target)
    elif target and is_whole(ins[0]) is False and ins[0] is not None and (
            not params.get("reverse", False) and all(extent >= -1 for extent in target)):
        # Zeros copy the extent of their place.
        ahead = tuple(ins[0][i] if extent == 0 and i < len(ins[0]) else extent or UNKNOWN
                      for i, extent in enumerate(target))
        outs[0] = merge(outs[0], ahead)
    if outs[0] is None or ins[0] is None:
        return
    if is_whole(outs[0]):
        ins[0] = _solve(ins[0], _product(outs[0]))
    if is_whole(ins[0]):
        outs[0] = _solve(outs[0], _product(ins[0]))


def _flatten(params, ins, outs):
    if ins[0] is None:
        return
    outs[0] = merge((ins[0][0], _product(ins[0][1:])), outs[0])
    ins[0] = (outs[0][0],) + _solve(ins[0][1:], outs[0][1])


def _permute(order_of):
    def rule(params, ins, outs):
        rank = len(ins[0] if ins[0] is not None else outs[0] if outs[0] is not None else ())
        if not rank:
            return
        order = order_of(params, rank)
        if ins[0] is not None:
            outs[0] = merge(outs[0], tuple(ins[0][axis] for axis in order))
        back = [UNKNOWN] * rank
        for place, axis in enumerate(order):
            back[axis] = outs[0][place]
        ins[0] = merge(ins[0], tuple(back))

    return rule


def _transposed(params, rank):
    axes = params.get("axes") or range(rank - 1, -1, -1)
    return [axis % rank for axis in axes]


def _swapped(params, rank):
    order = list(range(rank))
    a, b = (int(params.get(key, 0)) % rank for key in ("dim1", "dim2"))
    order[a], order[b] = order[b], order[a]
    return order


def _expand_dims(params, ins, outs):
    axis = int(params["axis"])
    if ins[0] is not None:
        place = axis % (len(ins[0]) + 1)
        outs[0] = merge(outs[0], ins[0][:place] + (1,) + ins[0][place:])
    elif outs[0] is not None:
        place = axis % len(outs[0])
        ins[0] = outs[0][:place] + outs[0][place + 1:]


def _dot(params, ins, outs):
    a, b = ins[:2]
    if a is None or b is None or not a or not b:
        return
    flip_a, flip_b = params.get("transpose_a", False), params.get("transpose_b", False)
    at_a, at_b = 0 if flip_a else len(a) - 1, len(b) - 1 if flip_b else 0
    inner = _extent(a[at_a], b[at_b])
    out = a[:at_a] + a[at_a + 1:] + b[:at_b] + b[at_b + 1:]
    if out:
        outs[0] = merge(outs[0], out)
        out = outs[0]
    left, right = out[:len(a) - 1], out[len(a) - 1:]
    ins[0] = left[:at_a] + (inner,) + left[at_a:]
    ins[1] = right[:at_b] + (inner,) + right[at_b:]


def _np_dot(params, ins, outs):
    """Of a matrix or a vector on the right; others are left to be computed."""
    if ins[0] and ins[1] and len(ins[1]) <= 2:
        _dot({}, ins, outs)


def _batch_dot(params, ins, outs):
    a, b = ins[:2]
    if a is None or b is None or len(a) != 3 or len(b) != 3:
        return
    rows, inner = (2, 1) if params.get("transpose_a", False) else (1, 2)
    first, columns = (2, 1) if params.get("transpose_b", False) else (1, 2)
    if a[inner] == UNKNOWN or b[first] == UNKNOWN:
        return
    _extent(a[inner], b[first])
    batch = _extent(a[0], b[0])
    outs[0] = merge(outs[0], (batch, a[rows], b[columns]))
    batch = outs[0][0]
    ins[0], ins[1] = (batch,) + a[1:], (batch,) + b[1:]


def _embedding(params, ins, outs):
    size = int(params["output_dim"])
    ins[1] = merge(ins[1], (int(params["input_dim"]), size))
    if ins[0] is not None:
        outs[0] = merge(outs[0], ins[0] + (size,))
    if outs[0] is not None:
        ins[0] = merge(ins[0], outs[0][:-1])


def _pick(params, ins, outs):
    if ins[0] is None or params.get("axis", -1) is None:
        return
    axis = int(params.get("axis", -1)) % len(ins[0])
    middle = (1,) if params.get("keepdims", False) else ()
    outs[0] = merge(outs[0], ins[0][:axis] + middle + ins[0][axis + 1:])


def _reduce(params, ins, outs):
    if ins[0] is None or params.get("exclude", False):
        return
    axis, rank = params.get("axis"), len(ins[0])
    axes = range(rank) if axis is None or axis == () else (
        [axis] if isinstance(axis, int) else axis)
    gone, kept = {one % rank for one in axes}, params.get("keepdims", False)
    out = tuple(1 if place in gone else extent for place, extent in enumerate(ins[0])
                if kept or place not in gone)
    if out:
        outs[0] = merge(outs[0], out)


def _broadcast(params, ins, outs):
    if len(ins) != 2 or None in ins:
        return
    rank = max(map(len, ins))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in ins)
    outs[0] = merge(outs[0], tuple(
        max(x, y) if UNKNOWN not in (x, y) or max(x, y) > 1 else UNKNOWN for x, y in zip(a, b)))


_UNARY = """Activation relu sigmoid tanh softsign exp log sqrt rsqrt square abs sign floor ceil round
rint fix trunc sin cos tan sinh cosh arcsin arccos arctan arcsinh arccosh arctanh erf erfinv expm1
log1p log2 log10 negative reciprocal cbrt rcbrt gamma gammaln degrees radians logical_not Cast amp_cast
BlockGrad MakeLoss _copy Dropout softmax log_softmax softmin SoftmaxActivation clip zeros_like
ones_like LRN L2Normalization smooth_l1 hard_sigmoid IdentityAttachKLSparseReg flip sort cumsum
_npi_absolute _npi_negative _npi_exp _npi_log _npi_sqrt _npi_square _npi_sin _npi_cos _npi_tanh
_np_copy _npx_relu _npx_sigmoid""".split()
_RULES = {
    **{name: _first_same for name in _UNARY}, "LeakyReLU": _first_same,
    "SoftmaxOutput": _first_same, "SVMOutput": _first_same,
    "LinearRegressionOutput": _all_same, "LogisticRegressionOutput": _all_same,
    "MAERegressionOutput": _all_same, "_identity_with_attr_like_rhs": _all_same,
    "BatchNorm": _norm(1), "LayerNorm": _norm(-1), "InstanceNorm": _norm(1),
    "GroupNorm": _first_same, "FullyConnected": _dense, "Convolution": _conv,
    "Deconvolution": _deconv, "Pooling": _pool, "SliceChannel": _split, "Concat": _concat,
    "stack": _stack, "Reshape": _reshape, "Flatten": _flatten, "transpose": _permute(_transposed),
    "_np_reshape": _reshape, "_np_transpose": _permute(_transposed), "SwapAxis": _permute(_swapped),
    "expand_dims": _expand_dims, "dot": _dot, "_np_dot": _np_dot, "_npi_matmul": _np_dot,
    "batch_dot": _batch_dot, "Embedding": _embedding, "pick": _pick,
    **{name: _reduce for name in ("sum", "mean", "max", "min", "prod", "nansum", "nanprod", "_np_sum",
                                  "_npi_mean", "_np_max", "_np_min", "_np_prod")},
}


def _rule_of(op, is_same):
    if op in _RULES:
        return _RULES[op]
    if op.endswith("_scalar"):
        return _first_same
    if is_same(op):
        return _all_same
    if op.startswith("broadcast_") or op in ("_npi_add", "_npi_subtract", "_npi_multiply",
                                             "_npi_true_divide", "_npi_maximum", "_npi_minimum"):
        return _broadcast
    return None


def spread(order, table, is_same):
    """Completes `table`, shapes by (id of node, output), as far as rules go. `is_same` says of which
    ops all inputs have one shape."""
    ops = [(node, rule) for node in order if not node.is_variable
           and (rule := _rule_of(node.op, is_same)) is not None and node.inputs]
    changed = True
    while changed:
        changed = False
        for node, rule in ops + ops[::-1]:
            changed = _apply(node, rule, table) or changed


def _apply(node, rule, table):
    places = [(id(child), at) for child, at in node.inputs]
    results = [(id(node), at) for at in range(node.count())]
    ins, outs = [table.get(place) for place in places], [table.get(place) for place in results]
    before = ins + outs
    if all(is_whole(shape) for shape in before):
        return False
    try:
        rule(node.params(), ins, outs)
    except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as error:
        shapes = ", ".join("?" if shape is None else _shown(shape) for shape in before)
        raise InvalidArgument(
            f"infer_shape: {node.name} ({node.op}) of {shapes}: {error}") from None
    changed = False
    for place, shape in zip(places + results, ins + outs):
        if shape is not None and shape != table.get(place):
            table[place] = tuple(shape)
            changed = True
    return changed
