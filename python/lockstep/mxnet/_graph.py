# SPDX-License-Identifier: Apache-2.0
"""The nodes that a symbol is made of, and their text: JSON of every generation."""

import json

from lockstep.errors import Corrupt
from lockstep.mxnet import _op_table
from lockstep.mxnet.util import is_np_shape

VERSION = 10901
_HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
_MOST_NODES = 1 << 24


class Node:
    """A variable (`op` is None) or an op on outputs of other nodes."""

    __slots__ = ("op", "name", "attrs", "inputs", "function", "labels")

    def __init__(self, op, name, attrs=None, inputs=(), labels=()):
        self.op, self.name = op, name
        self.attrs = dict(attrs or {})
        self.inputs = list(inputs)
        self.function = None
        self.labels = set(labels)  # attributes of the script's, which the op does not read

    @property
    def is_variable(self):
        return self.op is None

    def count(self):
        return 1 if self.op is None else _op_table.outputs_of(self.op, self.attrs)

    def params(self):
        """The op's own attributes, as values."""
        return {key: _op_table.parse_value(value) for key, value in self.attrs.items()
                if not is_hidden(key) and key not in self.labels}


def is_hidden(key):
    """Whether an attribute is none of the op's."""
    return key.startswith("__") and key.endswith("__")


def hide(attrs):
    """The keys that the engine reads, as they stand in files."""
    return {f"__{key}__" if key in _HIDDEN_KEYS else key: value for key, value in attrs.items()}


def shown(attrs):
    """Attributes with those keys under both of their names."""
    made = dict(attrs)
    for key in _HIDDEN_KEYS:
        if f"__{key}__" in made:
            made[key] = made[f"__{key}__"]
    return made


def topological(heads):
    """Every node that the heads depend on, each after its inputs."""
    seen, order = set(), []
    for head, _ in heads:
        stack = [(head, 0)]
        if id(head) in seen:
            continue
        seen.add(id(head))
        while stack:
            node, at = stack.pop()
            if at < len(node.inputs):
                stack.append((node, at + 1))
                child = node.inputs[at][0]
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, 0))
            else:
                order.append(node)
    return order


def state_nodes(order):
    """The variables that are states of an op."""
    states = {}
    for node in order:
        for at in _op_table.state_positions(node.op, node.attrs) if node.op else ():
            if at < len(node.inputs):
                states[id(node.inputs[at][0])] = node.inputs[at][0]
    return states


def copy(heads):
    """The same graph of new nodes; also which node became which."""
    made = {}
    for node in topological(heads):
        made[id(node)] = Node(node.op, node.name, node.attrs,
                              [(made[id(child)], at) for child, at in node.inputs], node.labels)
        made[id(node)].function = node.function
    return [(made[id(node)], at) for node, at in heads], made


def dump(heads):
    """The JSON that MXNet 1.9 writes."""
    order = topological(heads)
    number = {id(node): i for i, node in enumerate(order)}
    nodes, row, rows = [], 0, [0]
    for node in order:
        states = _op_table.state_positions(node.op, node.attrs) if node.op else ()
        entry = {"op": node.op or "null", "name": node.name}
        if node.attrs:
            entry["attrs"] = dict(sorted(node.attrs.items()))
        entry["inputs"] = [[number[id(child)], at, 1 if place in states else 0]
                           for place, (child, at) in enumerate(node.inputs)]
        nodes.append(entry)
        row += 1 if node.op is None else _op_table.counted_outputs(node.op, node.attrs)
        rows.append(row)
    return json.dumps({
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(order) if node.op is None],
        "node_row_ptr": rows,
        "heads": [[number[id(node)], at, 0] for node, at in heads],
        "attrs": {"mxnet_version": ["int", VERSION],
                  **({"is_np_shape": ["int", 1]} if is_np_shape() else {})},
    }, indent=2)


def _version(table):
    attrs = table.get("attrs") or {}
    entry = attrs.get("mxnet_version") if isinstance(attrs, dict) else None
    if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], int):
        return entry[1]
    return 800


def _merged_attrs(entry):
    """`attrs` or `attr` first; `param` of the oldest files fills what they lack."""
    made = {}
    for key in ("attrs", "attr"):
        made.update(entry.get(key) or {})
    for key, value in (entry.get("param") or {}).items():
        made.setdefault(key, value)
    return {str(key): str(value) for key, value in made.items()}


def _hide(node):
    """Keys that the engine reads are written as __key__ since 0.9; `weight_lr_mult` belongs to the
    variable that is the weight."""
    for key in list(node.attrs):
        if key in _HIDDEN_KEYS:
            node.attrs[f"__{key}__"] = node.attrs.pop(key)
            continue
        for hidden in _HIDDEN_KEYS:
            if not key.endswith("_" + hidden) or node.op is None:
                continue
            argument = key[:-len(hidden) - 1]
            names = _op_table.inputs_of(node.op, node.attrs, len(node.inputs))
            if argument in names and names.index(argument) < len(node.inputs):
                child = node.inputs[names.index(argument)][0]
                if child.is_variable:
                    child.attrs[f"__{hidden}__"] = node.attrs.pop(key)
            break


def _add_missing_inputs(node):
    """Before 0.9 files did not list states, nor inputs that were variables made for the op."""
    if node.op is None or node.op in _op_table.VARIADIC:
        return
    names = _op_table.inputs_of(node.op, node.attrs, len(node.inputs))
    if node.op not in _op_table.INPUTS:
        return
    for name in names[len(node.inputs):]:
        node.inputs.append((Node(None, f"{node.name}_{name}"), 0))


def _reference(table, number, nodes, where):
    if (not isinstance(table, list) or len(table) < 2
            or not all(isinstance(part, int) for part in table[:2])):
        raise Corrupt(f"symbol: {where} is {table!r}, expected [node, output]")
    if not 0 <= table[0] < number or table[1] < 0:
        raise Corrupt(f"symbol: {where} names node {table[0]}, and {number} come before it")
    node = nodes[table[0]]
    if table[1] >= (1 if node.op is None else _op_table.counted_outputs(node.op, node.attrs)):
        raise Corrupt(f"symbol: {where} names output {table[1]} of {node.name}")
    return node, table[1]


def load(text):
    """The heads of a graph that JSON tells of."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"symbol: no JSON: {error}") from None
    if not isinstance(table, dict) or not isinstance(table.get("nodes"), list):
        raise Corrupt("symbol: JSON without a list of nodes")
    if len(table["nodes"]) > _MOST_NODES:
        raise Corrupt(f"symbol: {len(table['nodes'])} nodes")
    version = _version(table)
    nodes = []
    for number, entry in enumerate(table["nodes"]):
        nodes.append(_load_node(entry, number, nodes, version))
    heads = table.get("heads")
    if not isinstance(heads, list) or not heads:
        raise Corrupt("symbol: JSON without heads")
    return [_reference(head, len(nodes), nodes, "a head") for head in heads]


def _load_node(entry, number, nodes, version):
    if not isinstance(entry, dict) or not isinstance(entry.get("op"), str):
        raise Corrupt(f"symbol: node {number} has no op")
    for key in ("attrs", "attr", "param"):
        if not isinstance(entry.get(key) or {}, dict):
            raise Corrupt(f"symbol: the {key} of node {number} is no table")
    if not isinstance(entry.get("inputs") or [], list):
        raise Corrupt(f"symbol: the inputs of node {number} are no list")
    op = None if entry["op"] == "null" else _op_table.canonical(entry["op"])
    name = str(entry.get("name", f"node{number}"))
    inputs = [_reference(item, number, nodes, f"an input of {name}")
              for item in entry.get("inputs") or []]
    # Where the op's own are apart, the others are the script's.
    labels = (entry.get("attr") or ()) if "param" in entry else ()
    node = Node(op, name, _merged_attrs(entry), inputs, labels)
    if version < 900:
        _hide(node)
        _add_missing_inputs(node)
    elif version < 10000:
        _hide(node)
    if version < 905 and node.op in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
        del node.attrs["axis"]
    return _checked(node)


def _checked(node):
    """The node, where its attributes tell its inputs and outputs."""
    try:
        count = 1 if node.op is None else _op_table.counted_outputs(node.op, node.attrs)
        if node.op is not None:
            _op_table.inputs_of(node.op, node.attrs, len(node.inputs))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"symbol: {node.name} ({node.op}): {error}") from None
    if not 0 < count <= _MOST_NODES:
        raise Corrupt(f"symbol: {node.name} ({node.op}) has {count} outputs")
    return node
