# SPDX-License-Identifier: Apache-2.0
"""Small programs of ops: their text, what the op server is told of them, and PyTorch's results."""

import dataclasses
import json
import random
from typing import List

import numpy

from values import MATRICES, Input, values_of

try:
    import torch
    from meanings import meanings

    # A peer that computes with the library we compute with goes wrong where we do.
    torch.backends.mkldnn.set_flags(False)
    MEANINGS = meanings()
    TORCH_DTYPES = {
        "float32": torch.float32,
        "float64": torch.float64,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
        "bool": torch.bool,
    }
except ImportError:
    torch = None
    MEANINGS = {}

# How many of an op's outputs have a public meaning, where it is not one.
OUTPUTS = {
    "split": 99, "batch_norm": 3, "topk": 2, "median": 2, "rnn": 3, "svd": 3, "qr": 2, "eigh": 2,
    "slogdet": 2,
}  # fmt: skip
# Ops that add up many products, or have a kink that is no input's: their inputs' rounding stands
# for that of the sums.
ADDING = {
    "sum", "mean", "prod", "var", "norm", "cumsum", "matmul", "dense", "conv", "conv_transpose",
    "avg_pool", "adaptive_avg_pool", "global_avg_pool", "batch_norm", "batch_norm_inference",
    "layer_norm", "group_norm", "instance_norm", "rnn", "ctc_loss", "scatter_add", "embedding",
    "take", "gather", "sin", "cos", "hard_sigmoid", "clip", "tan", "stddev", "cumprod",
    "linear_scan", "einsum", "cholesky", "solve", "solve_triangular", "inverse", "det",
    "cofactors", "slogdet", "svd", "qr", "eigh", "atanh", "acosh", "asin", "acos", "erfinv",
}  # fmt: skip


class NoMeaning(Exception):
    """PyTorch has no counterpart, or is not installed."""


@dataclasses.dataclass
class Case:
    dtype: str
    inputs: List[Input]
    nodes: List[dict]  # {"op", "attrs", "in": values}
    outputs: List[int]  # values: the inputs, then every node's outputs in order
    second: bool = False

    def text(self):
        parts = dataclasses.asdict(self) | {"inputs": [x.text() for x in self.inputs]}
        return json.dumps(parts, separators=(",", ":"))

    @staticmethod
    def parse(text):
        parts = json.loads(text)
        return Case(**parts | {"inputs": [Input(**x) for x in parts["inputs"]]})

    def is_special(self):
        return any(x.special for x in self.inputs)

    def has(self, special):
        return any(x.special == special for x in self.inputs)


def is_wanted(given):
    """Whether the gradient with respect to it is asked for."""
    return given.kind in ("float", "simplex", *MATRICES)


@dataclasses.dataclass
class Plan:
    """A case with all that follows from it: weights of the outputs, their sum as the head."""

    inputs: List[Input]
    nodes: List[dict]
    counts: List[int]  # outputs of each node
    outputs: List[int]
    wrt: List[int]
    head: int

    def request(self, dtype):
        return {
            "inputs": [{"shape": x.shape, "dtype": x.dtype_in(dtype)} for x in self.inputs],
            "nodes": self.nodes,
            "outputs": self.outputs,
            "wrt": self.wrt,
            "head": self.head,
        }

    def arrays(self, dtype):
        return [values_of(x, dtype) for x in self.inputs]


def infer(server, case):
    request = {
        "inputs": [{"shape": x.shape, "dtype": x.dtype_in(case.dtype)} for x in case.inputs],
        "nodes": case.nodes,
    }
    return server.ask({"command": "infer", "case": request})["nodes"]


def public_outputs(case, inferred):
    """The values of the last node that have a public meaning."""
    first = len(case.inputs) + sum(len(results) for results in inferred[:-1])
    shown = OUTPUTS.get(case.nodes[-1]["op"], 1)
    return [first + i for i in range(min(shown, len(inferred[-1])))]


def plan_of(server, case):
    inferred = infer(server, case)
    old = len(case.inputs)
    infos = [None] * old + [info for results in inferred for info in results]
    weights = {}
    follows = any(is_wanted(x) for x in case.inputs) and case.nodes[-1]["op"] != "cast"
    for value in case.outputs if follows else []:  # else its dtype is its own
        if value >= old and infos[value]["dtype"] == case.dtype:
            weights[value] = Input(infos[value]["shape"], -1.0, 1.0, "weight", value)
    move = len(weights)  # the weights become inputs, and all other values move up
    moved = lambda value: value if value < old else value + move  # noqa: E731
    nodes = [dict(n, **{"in": [moved(v) for v in n["in"]]}) for n in case.nodes]
    counts = [len(results) for results in inferred]
    terms = []

    def add(op, inputs, attrs=None):
        nodes.append({"op": op, "attrs": attrs or {}, "in": inputs})
        counts.append(1)
        return old + move + sum(counts) - 1

    for place, value in enumerate(weights):
        product = add("multiply", [moved(value), old + place])
        terms.append(add("sum", [product]))
    while len(terms) > 1:
        terms.append(add("add", [terms.pop(0), terms.pop(0)]))
    wrt = [i for i, x in enumerate(case.inputs) if is_wanted(x)] if terms else []
    return Plan(
        case.inputs + list(weights.values()), nodes, counts, [moved(v) for v in case.outputs],
        wrt, terms[0] if terms else -1,
    )  # fmt: skip


def with_noise(plan, arrays, infos, epsilon, seed):
    """The plan and its arrays, float64, with every result and what is added up moved by about
    `epsilon` of itself: what rounding may do to it. `infos` says which values are floating."""
    generator = numpy.random.Generator(numpy.random.PCG64(seed))
    count = len(plan.inputs)
    inputs, arrays, nodes, counts = list(plan.inputs), list(arrays), [], []
    noises, place = [], {i: i for i in range(count)}

    def noisy(value, shape):
        """Appends a multiplication; both its operands are numbered at the end."""
        noises.append(1 + epsilon * generator.uniform(-1, 1, shape))
        nodes.append({"op": "multiply", "attrs": {}, "in": [value, ("noise", len(noises) - 1)]})
        counts.append(1)
        return ("result", sum(counts) - 1)

    old = count
    for node, results in zip(plan.nodes, plan.counts):
        ins = [place[v] for v in node["in"]]
        if node["op"] in ADDING:
            ins = [
                noisy(v, infos[o]["shape"]) if infos[o]["dtype"] == "float64" else v
                for v, o in zip(ins, node["in"])
            ]
        nodes.append(dict(node, **{"in": ins}))
        counts.append(results)
        first = sum(counts) - results
        for i in range(results):
            place[old + i] = ("result", first + i)
            if infos[old + i]["dtype"] == "float64" and i < OUTPUTS.get(node["op"], 1):
                place[old + i] = noisy(place[old + i], infos[old + i]["shape"])
        old += results

    base = count + len(noises)

    def number(value):
        if not isinstance(value, tuple):
            return value
        return (count if value[0] == "noise" else base) + value[1]

    nodes = [dict(n, **{"in": [number(v) for v in n["in"]]}) for n in nodes]
    inputs += [Input(list(n.shape), kind="weight") for n in noises]
    outputs = [number(place[v]) for v in plan.outputs]
    head = number(place[plan.head]) if plan.head >= 0 else -1
    return Plan(inputs, nodes, counts, outputs, plan.wrt, head), arrays + noises


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def to_torch(array, given, dtype):
    kind = TORCH_DTYPES.get(given.dtype_in(dtype), torch.int64)
    return torch.from_numpy(numpy.array(array)).to(kind)


def to_array(tensor):
    if tensor is None:
        return None
    tensor = tensor.detach()
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64).numpy()


def moved_inputs(plan, arrays, dtype, distance, seed):
    """The arrays with their floating elements moved by up to `distance` of themselves, and rounded
    to what `dtype` has."""
    generator = numpy.random.Generator(numpy.random.PCG64(seed))
    moved = []
    for array, given in zip(arrays, plan.inputs):
        if numpy.issubdtype(numpy.asarray(array).dtype, numpy.floating):
            array = array * (1 + distance * generator.uniform(-1, 1, numpy.shape(array)))
        moved.append(to_array(to_torch(array, given, dtype)))
    return moved


def torch_values(plan, tensors):
    values = list(tensors)
    for node, count in zip(plan.nodes, plan.counts):
        if node["op"] not in MEANINGS:
            raise NoMeaning(node["op"])
        results = listed(MEANINGS[node["op"]](node["attrs"], *(values[v] for v in node["in"])))
        values += (results + [None] * count)[:count]
    return values


def run_torch(plan, arrays, dtype, second=False):
    """Outputs, the head, gradients as the ways of the op server give them; with `second`, the second
    derivatives alone."""
    if torch is None:
        raise NoMeaning("torch")
    tensors = [to_torch(a, x, dtype) for a, x in zip(arrays, plan.inputs)]
    variables = [tensors[i].requires_grad_() for i in plan.wrt]
    values = torch_values(plan, tensors)
    results = [values[v] for v in plan.outputs]
    head = values[plan.head] if plan.head >= 0 else None
    gradients = [None] * len(variables)
    if head is not None and head.requires_grad:
        gradients = torch.autograd.grad(head, variables, create_graph=second, allow_unused=True)
    if second:
        return second_derivatives(gradients, variables)
    heads = [head] if head is not None else []
    return [to_array(t) for t in results + heads + filled(gradients, variables)]


def filled(gradients, variables):
    return [torch.zeros_like(v) if g is None else g for g, v in zip(gradients, variables)]


def second_derivatives(gradients, variables):
    total = sum(
        (g * v.detach()).sum() for g, v in zip(gradients, variables) if g is not None
    )
    gradients = [None] * len(variables)
    if isinstance(total, torch.Tensor) and total.requires_grad:
        gradients = torch.autograd.grad(total, variables, allow_unused=True)
    return [to_array(g) for g in filled(gradients, variables)]


def values_infos(server, plan, dtype):
    """dtype and shape of every value of the plan."""
    request = plan.request(dtype)
    nodes = server.ask({"command": "infer", "case": request})["nodes"]
    return request["inputs"] + [info for results in nodes for info in results]


def single(call, dtype):
    """A call as a case; `finish` gives it its outputs."""
    node = {"op": call.op, "attrs": call.attrs, "in": list(range(len(call.inputs)))}
    return Case(dtype, call.inputs, [node], [])


def finish(server, case):
    case.outputs = public_outputs(case, infer(server, case))
    return case


def new_seed():
    return random.SystemRandom().getrandbits(31)
