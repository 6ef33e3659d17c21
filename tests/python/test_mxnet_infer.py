# SPDX-License-Identifier: Apache-2.0
"""Shapes of symbols that follow from what comes after or stands beside."""

import pytest

import lockstep.mxnet as mx


def shapes(symbol, **given):
    found, _, _ = symbol.infer_shape(**given)
    return dict(zip(symbol.list_arguments(), found))


def partial(symbol, **given):
    found, out, _ = symbol.infer_shape_partial(**given)
    return dict(zip(symbol.list_arguments(), found)), out


def var(name, shape=None):
    return mx.sym.Variable(name, shape=shape)


def test_siblings_of_a_sum_tell_each_other_their_extents():
    found = shapes(var("a", (0, 10)) + var("b", (12, 0)))
    assert found == {"a": (12, 10), "b": (12, 10)}


def test_the_batch_of_a_dense_layer_follows_from_its_output():
    layer = mx.sym.FullyConnected(var("a", (0, 4, 5)), num_hidden=7, name="fc")
    found = shapes(layer + var("c", (3, 0)))
    assert found == {"a": (3, 4, 5), "fc_weight": (7, 20), "fc_bias": (7,), "c": (3, 7)}


def test_the_features_of_a_dense_layer_follow_from_its_weight():
    layer = mx.sym.FullyConnected(var("x", (6, 0)), var("w"), num_hidden=3, no_bias=True)
    assert shapes(layer, w=(3, 8)) == {"x": (6, 8), "w": (3, 8)}
    kept = mx.sym.FullyConnected(var("x", (2, 5, 0)), var("w"), num_hidden=3, no_bias=True,
                                 flatten=False)
    assert shapes(kept, w=(3, 8))["x"] == (2, 5, 8)


@pytest.mark.parametrize("stride, pad, dilate", [(1, 0, 1), (1, 2, 1), (2, 1, 1), (1, 0, 2), (3, 2, 2)])
def test_a_convolution_tells_its_input_of_its_output(stride, pad, dilate):
    layer = mx.sym.Convolution(var("x", (0, 6, 0, 0)), num_filter=4, kernel=(3, 3), name="conv",
                               stride=(stride, stride), pad=(pad, pad), dilate=(dilate, dilate),
                               num_group=2)
    found = shapes(layer + var("y", (5, 4, 9, 11)))
    assert found["conv_weight"] == (4, 3, 3, 3) and found["x"][:2] == (5, 6)
    # Forward, that input has that output again.
    assert layer.infer_shape(x=found["x"])[1] == [(5, 4, 9, 11)]


def test_a_part_of_a_shape_reaches_a_weight_through_casts():
    data = mx.sym.cast(var("data", (1, 0, 0, 0)), dtype="float16")
    weight = mx.sym.cast(var("weight"), dtype="float16")
    layer = mx.sym.Convolution(data, weight, num_filter=64, kernel=(7, 7), no_bias=True)
    found, _ = partial(layer)
    assert found == {"data": (1, 0, 0, 0), "weight": (64, 0, 7, 7)}
    assert layer.infer_shape() == (None, None, None)


def test_concatenated_parts_follow_from_the_whole():
    whole = mx.sym.Concat(var("a", (0, 10)), var("b", (0, 0)), dim=1) + var("c", (2, 15))
    assert shapes(whole) == {"a": (2, 10), "b": (2, 5), "c": (2, 15)}


@pytest.mark.parametrize("squeeze", [False, True])
def test_what_is_split_follows_from_a_part(squeeze):
    parts = mx.sym.SliceChannel(var("a", (0, 6, 0)), num_outputs=6, axis=1, squeeze_axis=squeeze)
    other = var("c", (3, 2) if squeeze else (3, 1, 2))
    assert shapes(parts[4] + other)["a"] == (3, 6, 2)


def test_reshaping_and_transposing_go_back():
    x = var("x", (0, 6))
    assert shapes(mx.sym.reshape(x, shape=(4, 3, 2)))["x"] == (4, 6)
    turned = mx.sym.transpose(var("x", (0, 3, 0)), axes=(2, 0, 1)) + var("y", (5, 7, 3))
    assert shapes(turned)["x"] == (7, 3, 5)
    assert shapes(mx.sym.Flatten(var("x", (0, 2, 3))) + var("y", (9, 6)))["x"] == (9, 2, 3)
    assert shapes(mx.sym.expand_dims(var("x"), axis=1) + var("y", (2, 1, 3)))["x"] == (2, 3)


def test_channels_follow_from_a_norm_and_words_from_an_embedding():
    norm = mx.sym.BatchNorm(var("x", (2, 0, 5)), name="bn")
    assert shapes(norm, bn_gamma=(4,))["x"] == (2, 4, 5)
    words = mx.sym.Embedding(var("w"), input_dim=50, output_dim=8, name="e") + var("y", (3, 4, 8))
    assert shapes(words)["w"] == (3, 4)


def test_an_identity_passes_the_shape_of_what_stands_beside():
    weight = var("weight")
    moved = mx.sym.broadcast_add(weight, var("shift", (1,)))
    moved = mx.sym._internal._identity_with_attr_like_rhs(moved, weight)
    layer = mx.sym.FullyConnected(var("data"), moved, num_hidden=11, no_bias=True)
    assert shapes(layer, data=(7, 100))["weight"] == (11, 100)


def test_what_is_not_known_is_told_in_part():
    x, y = var("x"), var("y")
    assert partial(mx.sym.dot(x, y), x=(0, 3, 4), y=(4, 5))[1] == [(0, 3, 5)]
    assert partial(mx.sym.batch_dot(x, y), x=(0, 3, 4), y=(0, 4, 5))[1] == [(0, 3, 5)]
    assert partial(mx.sym.transpose(x, axes=(0, 2, 1)), x=(0, 3, 4))[1] == [(0, 4, 3)]
    assert partial(mx.sym.sum(x, axis=1), x=(0, 3, 4))[1] == [(0, 4)]
    assert partial(mx.sym.sin(x)) == ({"x": ()}, [()])
    with mx.np_shape():
        assert partial(mx.sym.sin(x)) == ({"x": None}, [None])
        assert partial(mx.sym.dot(x, y), x=(-1, 3, 4), y=(4, 5))[1] == [(-1, 3, 5)]
        assert mx.sym.sin(x).infer_shape(x=(0, 3))[1] == [(0, 3)]  # there 0 is an extent


def test_a_net_of_which_only_the_label_is_known_is_bound():
    net = mx.sym.FullyConnected(var("data", (0, 3)), num_hidden=2, name="fc")
    net = mx.sym.LinearRegressionOutput(net, var("label"), name="out")
    bound = net.simple_bind(mx.cpu(), label=(5, 2))
    assert bound.arg_dict["data"].shape == (5, 3) and bound.forward()[0].shape == (5, 2)


def test_shapes_that_contradict_each_other_are_an_error_that_names_the_node():
    with pytest.raises(mx.MXNetError, match=r"fc \(FullyConnected\)"):
        mx.sym.FullyConnected(var("x", (0, 3)), var("w", (2, 4)), num_hidden=2, name="fc",
                              no_bias=True).infer_shape_partial()
    with pytest.raises(mx.MXNetError, match="not as many axes"):
        (var("a", (0, 3)) + var("b", (2, 3, 0))).infer_shape_partial()


def test_types_that_are_not_known_are_none():
    net = mx.sym.FullyConnected(mx.sym.Cast(var("data"), dtype="float64"), num_hidden=3)
    import numpy as np

    assert net.infer_type_partial()[0] == [None, np.float64, np.float64]
    assert net.infer_type(data="float16")[0] == [np.float16, np.float64, np.float64]
