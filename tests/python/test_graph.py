# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import xml.etree.ElementTree as xml

import lockstep as ls
from lockstep import nn


def test_a_trace_tells_what_a_function_does():
    graph = ls.graph.trace(lambda x, y: (ls.relu(x @ y), x + 1), np.ones((2, 3), "float32"),
                           ls.ones((3, 4)))
    kinds = [node.kind for node in graph.nodes]
    assert kinds[:2] == ["input", "input"] and {"relu", "matmul", "add"} <= set(kinds)
    relu = graph.nodes[kinds.index("relu")]
    assert relu.outputs == ["float32[2, 4]"]
    assert graph.nodes[relu.inputs[0][0]].kind == "matmul"
    assert "relu" in repr(graph) and "float32[2, 4]" in repr(relu)


def test_notebooks_draw_a_net():
    net = nn.sequential(nn.conv2d(4, 3, activation="relu"), nn.max_pool2d(2), nn.dense(2))
    net.initialize(seed=1)
    x = ls.ones((1, 1, 8, 8))
    net(x)
    graph = ls.graph.trace(net, x)
    root = xml.fromstring(graph._repr_html_())
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "input" in words and "relu" in words and "constant" not in words
    boxes = len(list(root.iter("{http://www.w3.org/2000/svg}rect")))
    assert boxes == sum(node.kind != "constant" for node in graph.nodes)
    with_constants = xml.fromstring(graph.svg(constants=True))
    assert len(list(with_constants.iter("{http://www.w3.org/2000/svg}rect"))) == len(graph.nodes)


def test_what_cannot_be_traced_is_told():
    with pytest.raises(ls.Error):
        ls.graph.trace(lambda x: x @ x, ls.ones((2, 3)))
    with pytest.raises((TypeError, ValueError)):
        ls.graph.trace(lambda x: float(x.sum()), ls.ones(2))


def test_a_compiled_function_gives_a_list_where_it_returns_one():
    function = ls.compile(lambda x: x * 2 if len(x.shape) == 1 else [x * 2])
    for _ in range(2):
        assert function(ls.ones((2,))).tolist() == [2.0, 2.0]
        assert [y.tolist() for y in function(ls.ones((1, 2)))] == [[[2.0, 2.0]]]


def test_a_compiled_function_that_gives_no_tensor_is_an_error():
    for nothing in None, []:
        with pytest.raises(ls.InvalidArgument, match="compile: the function returned [Nn]o"):
            ls.compile(lambda x, nothing=nothing: nothing)(ls.ones((2,)))
