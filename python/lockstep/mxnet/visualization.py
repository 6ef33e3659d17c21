# SPDX-License-Identifier: Apache-2.0
"""A symbol as a table, and as a drawing."""

from lockstep._drawing import Box, draw
from lockstep.mxnet import _files, _graph, _infer
from lockstep.mxnet.symbol import Symbol

_COLOURS = {
    "Convolution": "#fb8072", "Deconvolution": "#fb8072", "FullyConnected": "#fb8072",
    "BatchNorm": "#bebada", "Activation": "#ffffb3", "LeakyReLU": "#ffffb3", "Pooling": "#80b1d3",
    "Concat": "#fdb462", "Flatten": "#fdb462", "Reshape": "#fdb462", "SoftmaxOutput": "#b3de69",
}
_STATES = ("_moving_var", "_moving_mean", "_running_var", "_running_mean")
_WEIGHTS = ("_weight", "_bias", "_beta", "_gamma") + _STATES


def _is_weight(node):
    return node.is_variable and node.name.endswith(_WEIGHTS)


def _check(symbol, what):
    if not isinstance(symbol, Symbol):
        raise TypeError(f"{what}: expected a Symbol, got {type(symbol).__name__}")


def _shapes(symbol, shape):
    if shape is None:
        return {}
    known = _infer.complete(symbol, {name: tuple(extents) for name, extents in shape.items()})
    missing = [name for name, s in zip(symbol.list_arguments(), symbol.infer_shape_partial(
        **shape)[0]) if s == ()]
    if missing:
        raise ValueError(f"Input shape is incomplete: {missing}")
    return known


def print_summary(symbol, shape=None, line_length=120, positions=(.44, .64, .74, 1.)):
    """Prints a table of layers, their output shapes, parameters, and what comes before them."""
    _check(symbol, "print_summary")
    known = _shapes(symbol, shape)
    places = [int(line_length * p) for p in positions] if positions[-1] <= 1 else list(positions)

    def row(fields):
        line = ""
        for field, place in zip(fields, places):
            line = (line + str(field))[:place - 1].ljust(place)
        print(line)

    print("_" * line_length)
    row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"])
    print("=" * line_length)
    nodes = [node for node in _graph.topological(symbol._heads) if not _is_weight(node)
             and not (node.is_variable and node.name.endswith("label"))]
    total, drawn = 0, set()
    for node in nodes:
        count, drawn_now = _parameters(node, known, drawn)
        drawn |= drawn_now
        total += count
        before = [child.name for child, _ in node.inputs if not _is_weight(child)]
        extents = known.get((id(node), 0))
        out = "x".join(str(e) for e in extents[1:]) if extents else ""
        row([f"{node.name}({node.op or 'null'})", out, count, before[0] if before else ""])
        for name in before[1:]:
            row(["", "", "", name])
        print("_" * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _parameters(node, known, drawn):
    count, now = 0, set()
    for child, _ in node.inputs:
        # What moves by itself is no parameter.
        if _is_weight(child) and id(child) not in drawn and not child.name.endswith(_STATES):
            size = 1
            for extent in known.get((id(child), 0), (0,)):
                size *= extent
            count += size
            now.add(id(child))
    return count, now


class Drawing:
    """A drawing of a symbol. `render` writes it as SVG; notebooks show it."""

    def __init__(self, title, svg, source):
        self.name, self.svg, self.source = title, svg, source

    def _repr_svg_(self):
        return self.svg

    _repr_image_svg_xml = _repr_svg_

    def render(self, filename=None, directory=None, view=False, cleanup=False, format=None):  # noqa: A002
        """Writes FILENAME.svg and returns its path."""
        import os

        path = os.path.join(directory or "", (filename or self.name) + ".svg")
        _files.write_atomically(path, self.svg.encode())
        return path

    save = render

    def view(self, *args, **kwargs):
        """Writes the file; a browser shows it."""
        return self.render()

    def __str__(self):
        return self.source


def _label(node):
    p = {key: str(value) for key, value in node.attrs.items()}
    if node.is_variable:
        return [node.name]
    if node.op in ("Convolution", "Deconvolution"):
        return [node.op, f"{p.get('kernel', '')}/{p.get('stride', '1')}, {p.get('num_filter', '')}"]
    if node.op == "FullyConnected":
        return [node.op, p.get("num_hidden", "")]
    if node.op in ("Activation", "LeakyReLU"):
        return [node.op, p.get("act_type", "leaky")]
    if node.op == "Pooling":
        return [node.op, f"{p.get('pool_type', 'max')}, {p.get('kernel', '')}/{p.get('stride', '1')}"]
    return [node.op, node.name]


def plot_network(symbol, title="plot", save_format="svg", shape=None, dtype=None, node_attrs=None,
                 hide_weights=True):
    """A drawing of the nodes, data below, outputs above; with the shapes that pass along the edges
    where those of the inputs are given."""
    _check(symbol, "plot_network")
    known = _shapes(symbol, shape)
    order = _graph.topological(symbol._heads)
    nodes = [node for node in order if not (hide_weights and _is_weight(node))]
    shown = {id(node) for node in nodes}
    edges = {id(node): [child for child, _ in node.inputs if id(child) in shown] for node in nodes}
    svg = draw(_boxes(nodes, edges, known), title)
    return Drawing(title, svg, _dot(nodes, edges, title))


def _boxes(nodes, edges, known):
    boxes = {}
    for node in nodes:
        colour = _COLOURS.get(node.op, "#8dd3c7" if node.is_variable else "#fccde5")
        box = boxes[id(node)] = Box(_label(node), colour)
        for child in edges[id(node)]:
            extents = known.get((id(child), 0))
            words = "x".join(str(e) for e in extents[1:]) if extents else ""
            box.below.append((boxes[id(child)], words))
    return list(boxes.values())


def _dot(nodes, edges, title):
    lines = [f'digraph "{title}" {{']
    for node in nodes:
        label = "\\n".join(_label(node)).replace('"', "'")
        lines.append(f'  "{node.name}" [label="{label}"];')
        lines += [f'  "{node.name}" -> "{child.name}" [dir=back];' for child in edges[id(node)]]
    return "\n".join(lines + ["}"])
