# SPDX-License-Identifier: Apache-2.0
"""What a function, or a net, does to tensors: its ops as a graph that notebooks draw.

>>> import lockstep as ls
>>> graph = ls.graph.trace(lambda x: ls.relu(x) * 2, ls.ones((2, 3)))
>>> [node.kind for node in graph.nodes]
['input', 'relu', 'constant', 'multiply']
>>> print(graph.nodes[-1].outputs)
['float32[2, 3]']
"""

from lockstep import _core
from lockstep._convert import asarray
from lockstep._drawing import Box, draw

__all__ = ["Graph", "Node", "trace"]

_COLOURS = {"input": "#8dd3c7", "constant": "#eeeeee"}


class Node:
    """An op, an input or a constant: `kind`, `name`, `inputs` as (node, output), and what its
    `outputs` are."""

    def __init__(self, kind, name, inputs, outputs):
        self.kind, self.name, self.inputs, self.outputs = kind, name, inputs, outputs

    def __repr__(self):
        return f"{self.kind} {self.name}".strip() + f" -> {', '.join(self.outputs)}"


class Graph:
    """Nodes in an order in which they can be computed; a drawing in notebooks."""

    def __init__(self, nodes, text):
        self.nodes, self._text = nodes, text

    def __repr__(self):
        return self._text

    def svg(self, constants=False):
        """The drawing: inputs below, results above, with what passes between them. Constants, as
        parameters are in a trace, are left out."""
        boxes = {}
        for number, node in enumerate(self.nodes):
            if node.kind == "constant" and not constants:
                continue
            words = node.name or ", ".join(node.outputs)
            box = Box([node.kind, words], _COLOURS.get(node.kind, "#fccde5"), repr(node))
            box.below = [(boxes[source], self.nodes[source].outputs[output])
                         for source, output in node.inputs if source in boxes]
            boxes[number] = box
        return draw(list(boxes.values()), f"{len(boxes)} nodes")

    def _repr_html_(self):
        return self.svg()


def trace(function, *inputs):
    """The graph of function(*inputs); of the inputs only shapes and dtypes matter. A net has its
    parameters in it as constants."""
    nodes, text = _core._trace(function, [asarray(x) for x in inputs])
    return Graph([Node(*node) for node in nodes], text)
