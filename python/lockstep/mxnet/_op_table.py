# SPDX-License-Identifier: Apache-2.0
"""What a symbol must know of an op before it runs: its inputs, which of them are states, and how
many outputs it has. What is not here has one input `data` or as many as it is given."""

import ast

from lockstep.errors import InvalidArgument

# Before the names of the engine's own ops, where MXNet has none.
ENGINE = "_lockstep_"

# Other names that scripts call an op by, and the one that stands in files.
ALIASES = {
    "flatten": "Flatten", "concat": "Concat", "reshape": "Reshape", "split": "SliceChannel",
    "cast": "Cast", "swapaxes": "SwapAxis", "SwapAxes": "SwapAxis", "stop_gradient": "BlockGrad",
    "make_loss": "MakeLoss", "Softmax": "SoftmaxOutput", "ElementWiseSum": "add_n",
    "elemwise_plus": "elemwise_add", "_plus": "elemwise_add", "_Plus": "elemwise_add",
    "_sub": "elemwise_sub", "_minus": "elemwise_sub", "_Minus": "elemwise_sub",
    "_mul": "elemwise_mul", "_Mul": "elemwise_mul", "_div": "elemwise_div",
    "_Div": "elemwise_div", "_PlusScalar": "_plus_scalar", "_MinusScalar": "_minus_scalar",
    "_RMinusScalar": "_rminus_scalar", "_MulScalar": "_mul_scalar", "_DivScalar": "_div_scalar",
    "_RDivScalar": "_rdiv_scalar", "_PowerScalar": "_power_scalar", "_Power": "_power",
    "broadcast_plus": "broadcast_add", "broadcast_minus": "broadcast_sub", "pad": "Pad",
    "batch_norm": "BatchNorm", "BatchNorm_v1": "BatchNorm", "Convolution_v1": "Convolution",
    "Pooling_v1": "Pooling", "CuDNNBatchNorm": "BatchNorm", "fully_connected": "FullyConnected",
    "convolution": "Convolution", "max_axis": "max", "min_axis": "min", "sum_axis": "sum",
    "broadcast_axes": "broadcast_axis", "reverse": "flip", "_contrib_CTCLoss": "CTCLoss",
    "_contrib_ctc_loss": "CTCLoss", "ctc_loss": "CTCLoss", "_contrib_SyncBatchNorm": "BatchNorm",
    "crop": "slice", "identity": "_copy", "_Maximum": "_maximum", "_Minimum": "_minimum",
}

INPUTS = {
    "FullyConnected": ("data", "weight", "bias"), "Convolution": ("data", "weight", "bias"),
    "Deconvolution": ("data", "weight", "bias"), "Embedding": ("data", "weight"),
    "BatchNorm": ("data", "gamma", "beta", "moving_mean", "moving_var"),
    "LayerNorm": ("data", "gamma", "beta"), "InstanceNorm": ("data", "gamma", "beta"),
    "GroupNorm": ("data", "gamma", "beta"), "SoftmaxOutput": ("data", "label"),
    "LinearRegressionOutput": ("data", "label"), "LogisticRegressionOutput": ("data", "label"),
    "MAERegressionOutput": ("data", "label"), "SVMOutput": ("data", "label"),
    "softmax_cross_entropy": ("data", "label"), "CTCLoss": ("data", "label", "data_lengths",
                                                            "label_lengths"),
    "LeakyReLU": ("data", "gamma"),
    "RNN": ("data", "parameters", "state", "state_cell", "sequence_length"),
    "dot": ("lhs", "rhs"), "batch_dot": ("lhs", "rhs"), "where": ("condition", "x", "y"),
    "take": ("a", "indices"), "batch_take": ("a", "indices"), "pick": ("data", "index"),
    "gather_nd": ("data", "indices"), "scatter_nd": ("data", "indices"),
    "one_hot": ("indices",), "ROIPooling": ("data", "rois"), "BilinearSampler": ("data", "grid"),
    "SpatialTransformer": ("data", "loc"), "Correlation": ("data1", "data2"),
    "SequenceMask": ("data", "sequence_length"), "SequenceLast": ("data", "sequence_length"),
    "SequenceReverse": ("data", "sequence_length"), "reshape_like": ("lhs", "rhs"),
    "slice_like": ("data", "shape_like"), "broadcast_like": ("lhs", "rhs"),
    "_linalg_gemm": ("A", "B", "C"), "_linalg_gemm2": ("A", "B"), "_linalg_trsm": ("A", "B"),
    "_linalg_trmm": ("A", "B"), "linalg_gemm2": ("A", "B"), "boolean_mask": ("data", "index"),
    "_contrib_MultiBoxTarget": ("anchor", "label", "cls_pred"),
    "_contrib_MultiBoxDetection": ("cls_prob", "loc_pred", "anchor"),
    "_contrib_ROIAlign": ("data", "rois"), "_contrib_box_iou": ("lhs", "rhs"),
}
for _kind in ("elemwise", "broadcast", ""):
    for _name in ("add", "sub", "mul", "div", "power", "maximum", "minimum", "mod", "hypot", "equal",
                  "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and",
                  "logical_or", "logical_xor"):
        INPUTS[f"{_kind}_{_name}"] = ("lhs", "rhs")

# Inputs that are states of the op, which no gradient goes to.
STATES = {"BatchNorm": ("moving_mean", "moving_var")}
VARIADIC = {"Concat": "num_args", "add_n": "num_args", "stack": "num_args", "UpSampling": "num_args",
            "khatri_rao": "num_args", "Crop": "num_args", "amp_multicast": "num_outputs",
            "concatenate": "num_args", "_rnn_param_concat": "num_args"}
NO_INPUTS = ("_zeros", "_ones", "_full", "_arange", "_eye", "_linspace")
# Outputs that a node counts in a file beside those that can be used.
HIDDEN = {"BatchNorm": 3, "LayerNorm": 3, "InstanceNorm": 3, "GroupNorm": 3, "Dropout": 2,
          "L2Normalization": 2, "LRN": 2}
# Ops that read values, so that a graph with one is run op by op.
BY_VALUES = ("Custom", "_contrib_MultiBoxTarget", "_contrib_MultiBoxDetection", "_contrib_box_nms",
             "_contrib_box_iou", "_contrib_box_decode", "_contrib_bipartite_matching",
             "_contrib_ROIAlign", "ROIPooling", "_image_resize")
LOSSES = ("SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput",
          "MAERegressionOutput", "SVMOutput", "MakeLoss")


def canonical(name):
    """The name that stands in files."""
    return ALIASES.get(name, name)


def parse_value(text):
    """What an attribute's text means: a number, a tuple, a truth, or the text itself."""
    if not isinstance(text, str):
        return text
    stripped = text.strip()
    if stripped in ("true", "false"):
        return stripped == "true"
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError):
        pass
    if stripped.startswith(("(", "[")) and "L" in stripped:
        return parse_value(stripped.replace("L", ""))
    return text


def format_value(value):
    """An attribute's text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        value = tuple(value)
    name = getattr(value, "__name__", None) if isinstance(value, type) else None
    if name is None and hasattr(value, "itemsize") and hasattr(value, "name"):
        name = value.name
    return name if name else str(value)


def inputs_of(op, params, count=None):
    """The names of an op's inputs; `count` of them are given to one that takes any number."""
    if op in NO_INPUTS or (op.startswith(("_random_", "_sample_unique")) and not op.endswith("_like")):
        return ()
    if op in VARIADIC:
        count = int(params.get(VARIADIC[op], count or 0))
        return tuple(f"arg{i}" for i in range(count))
    if op == "Custom":
        prop = _custom(params)
        return tuple(prop.list_arguments()) + tuple(prop.list_auxiliary_states())
    names = INPUTS.get(op, ("data",))
    if op in ("FullyConnected", "Convolution") and parse_value(params.get("no_bias", False)):
        return names[:2]
    if op == "Deconvolution" and parse_value(params.get("no_bias", True)):
        return names[:2]
    if op == "LeakyReLU" and params.get("act_type", "leaky") != "prelu":
        return names[:1]
    if op == "RNN":
        lengths = names[4:] if parse_value(params.get("use_sequence_length", False)) else ()
        return names[:4 if params.get("mode") == "lstm" else 3] + lengths
    if op.startswith("Sequence") and not parse_value(params.get("use_sequence_length", False)):
        return names[:1]
    if op == "CTCLoss":
        uses = [parse_value(params.get(key, False)) for key in ("use_data_lengths",
                                                                "use_label_lengths")]
        return names[:2] + tuple(name for name, use in zip(names[2:], uses) if use)
    if op == "SpatialTransformer":
        return names
    return names


def _custom(params):
    from lockstep.mxnet import operator

    own = {key: value for key, value in params.items()
           if key != "op_type" and not key.startswith("__")}
    return operator.prop_of(params.get("op_type"), own)


def state_positions(op, params=()):
    """Which inputs of an op are its states."""
    if op == "Custom" and params:
        prop = _custom(params)
        first = len(prop.list_arguments())
        return list(range(first, first + len(prop.list_auxiliary_states())))
    return [INPUTS[op].index(name) for name in STATES.get(op, ())]


def _topk_outputs(params):
    return 2 if params.get("ret_typ", "indices") == "both" else 1


def _rnn_outputs(params):
    if not parse_value(params.get("state_outputs", False)):
        return 1
    return 3 if params.get("mode") == "lstm" else 2


def _split_v2_outputs(params):
    sections = int(parse_value(params.get("sections", 0)))
    if sections:
        return sections
    return len(tuple(parse_value(params.get("indices", "()")))) or 1


_OUTPUTS = {
    "SliceChannel": lambda p: int(p.get("num_outputs", 1)), "topk": _topk_outputs,
    "RNN": _rnn_outputs, "_split_v2": _split_v2_outputs, "split_v2": _split_v2_outputs,
    "moments": lambda p: 2, "_linalg_gelqf": lambda p: 2, "_linalg_syevd": lambda p: 2,
    "_contrib_bipartite_matching": lambda p: 2, "_linalg_slogdet": lambda p: 2, "_contrib_MultiBoxTarget": lambda p: 3,
    "_npi_svd": lambda p: 3, "_npi_slogdet": lambda p: 2, "_npi_eigh": lambda p: 2,
    "_npi_eig": lambda p: 2,
    "amp_multicast": lambda p: int(p.get("num_outputs", 1)),
}


def outputs_of(op, params):
    """How many outputs can be used."""
    if op == "Custom":
        return len(_custom(params).list_outputs())
    if op in ("BatchNorm", "LayerNorm", "GroupNorm"):
        return 3 if parse_value(params.get("output_mean_var", False)) else 1
    if "__num_outputs__" in params:
        return int(params["__num_outputs__"])
    return _OUTPUTS.get(op, lambda p: 1)(params)


def counted_outputs(op, params):
    """How many outputs a file counts."""
    return max(HIDDEN.get(op, 1), outputs_of(op, params))


def output_names(node):
    """The names of a node's outputs."""
    if node.op is None:
        return [node.name]
    count = outputs_of(node.op, node.attrs)
    if count == 1:
        return [f"{node.name}_output"]
    if node.op in ("BatchNorm", "LayerNorm", "GroupNorm"):
        return [f"{node.name}_{part}" for part in ("output", "mean", "var")]
    if node.op == "RNN":
        parts = ("output", "state_output", "statecell_output")
        return [f"{node.name}_{part}" for part in parts[:count]]
    if node.op == "Custom":
        return [f"{node.name}_{part}" for part in _custom(node.attrs).list_outputs()]
    return [f"{node.name}_output{i}" for i in range(count)]


def check_known(op, exists):
    """Raises unless the op is here or `exists` says that it can be run."""
    if op in INPUTS or op in VARIADIC or op in NO_INPUTS or exists:
        return
    raise InvalidArgument(f"symbol: there is no op '{op}'")
