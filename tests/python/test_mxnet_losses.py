# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import nd, sym


def gradient_of(net, **arrays):
    executor = net.bind(mx.cpu(), {k: nd.array(v) for k, v in arrays.items()},
                        {"data": nd.zeros(np.shape(arrays["data"]))})
    executor.forward(is_train=True)
    executor.backward()
    return executor.outputs[0].asnumpy(), executor.grad_dict["data"].asnumpy()


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_softmax_outputs_know_labels_to_ignore_and_how_to_normalise(rng):
    data = rng.normal(size=(4, 3)).astype("float32")
    label = np.array([0, -1, 2, -1], "float32")
    one_hot = np.eye(3)[label.astype(int)]
    keep = (label != -1)[:, None]
    for kind, divisor in (("null", 1), ("batch", 4), ("valid", 2)):
        net = sym.SoftmaxOutput(sym.var("data"), sym.var("label"), use_ignore=True, ignore_label=-1,
                                normalization=kind, grad_scale=3.0)
        out, gradient = gradient_of(net, data=data, label=label)
        np.testing.assert_allclose(out, softmax(data), rtol=1e-5)
        np.testing.assert_allclose(gradient, 3 * (softmax(data) - one_hot) * keep / divisor,
                                   rtol=1e-4, atol=1e-6)


def test_softmax_of_several_places_and_regressions_have_their_gradients(rng):
    data = rng.normal(size=(2, 3, 4)).astype("float32")
    label = rng.integers(0, 3, (2, 4))
    net = sym.SoftmaxOutput(sym.var("data"), sym.var("label"), multi_output=True)
    out, gradient = gradient_of(net, data=data, label=label)
    expected = (softmax(data, 1) - np.moveaxis(np.eye(3)[label], -1, 1)) / 4
    np.testing.assert_allclose(out, softmax(data, 1), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    data, label = rng.normal(size=(5, 2)).astype("float32"), rng.normal(size=(5, 2))
    sigmoid = 1 / (1 + np.exp(-data))
    for op, value, slope in (
            (sym.LinearRegressionOutput, data, data - label),
            (sym.LogisticRegressionOutput, sigmoid, sigmoid - label),
            (sym.MAERegressionOutput, data, np.sign(data - label))):
        out, gradient = gradient_of(op(sym.var("data"), sym.var("label")), data=data, label=label)
        np.testing.assert_allclose(out, value, rtol=1e-5)
        np.testing.assert_allclose(gradient, slope / 2, rtol=1e-4, atol=1e-5)
    net = sym.MakeLoss(sym.square(sym.var("data")), grad_scale=2.0)
    out, gradient = gradient_of(net, data=data)
    np.testing.assert_allclose(gradient, 4 * data, rtol=1e-5)


class SoftmaxHead(mx.gluon.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self._options = options

    def hybrid_forward(self, F, data, label):
        return F.SoftmaxOutput(data, label, **self._options)


def softmax_gradients(data, label, **options):
    """Those of an executor, of mx.nd, and of a hybridized block."""
    net = sym.SoftmaxOutput(sym.var("data"), sym.var("label"), **options)
    made = [gradient_of(net, data=data, label=label)[1]]
    block = SoftmaxHead(**options)
    block.hybridize()
    for function in (lambda x, y: nd.SoftmaxOutput(x, y, **options), block):
        x = nd.array(data)
        x.attach_grad()
        with mx.autograd.record():
            out = function(x, nd.array(label))
        out.backward()
        made.append(x.grad.asnumpy())
    return made


@pytest.mark.parametrize("options, shape, divisor", [
    ({"multi_output": True}, (2, 3, 4, 5), 20),
    ({"multi_output": True, "normalization": "batch"}, (2, 3, 4, 5), 40),
    ({"multi_output": True, "normalization": "valid"}, (2, 3, 4, 5), 40),
    ({"preserve_shape": True}, (2, 6, 3), 1),
    ({"preserve_shape": True, "normalization": "batch"}, (2, 6, 3), 12),
    ({"preserve_shape": True, "normalization": "valid"}, (2, 6, 3), 12),
    ({"normalization": "batch"}, (4, 3), 4),
])
def test_a_softmax_outputs_gradient_is_divided_by_what_mxnet_divides_by(rng, options, shape,
                                                                        divisor):
    axis = 1 if "multi_output" in options else -1
    data = rng.normal(size=shape).astype("float32")
    label = rng.integers(0, 3, np.delete(shape, axis)).astype("float32")
    hot = np.moveaxis(np.eye(3)[label.astype(int)], -1, axis)
    for gradient in softmax_gradients(data, label, grad_scale=2.0, **options):
        np.testing.assert_allclose(gradient, 2 * (softmax(data, axis) - hot) / divisor, rtol=1e-4,
                                   atol=1e-6)


def test_a_softmax_outputs_label_has_an_axis_for_all_places_unless_told(rng):
    net = sym.SoftmaxOutput(sym.var("data"), name="softmax", multi_output=True)
    assert net.infer_shape(data=(2, 3, 4, 5))[0] == [(2, 3, 4, 5), (2, 20)]
    for shape in ((2, 20), (2, 4, 5), (2, 1, 4, 5)):
        told, _, _ = net.infer_shape(data=(2, 3, 4, 5), softmax_label=shape)
        assert told[1] == shape
        executor = net.simple_bind(mx.cpu(), data=(2, 3, 4, 5), softmax_label=shape)
        executor.forward(is_train=True)
        executor.backward()
        np.testing.assert_allclose(executor.grad_dict["data"].asnumpy()[:, 0], -2 / 3 / 20,
                                   rtol=1e-5)


def test_a_softmax_output_counts_valid_labels_whether_or_not_it_ignores_the_others(rng):
    data = rng.normal(size=(2, 3, 4)).astype("float32")
    label = np.array([[0, 1, 2, 0], [1, 0, 2, 1]], "float32")
    difference = softmax(data, 1) - np.moveaxis(np.eye(3)[label.astype(int)], -1, 1)
    for ignores in (False, True):
        keep = (label != 0)[:, None] if ignores else 1
        for gradient in softmax_gradients(data, label, multi_output=True, use_ignore=ignores,
                                          ignore_label=0, normalization="valid"):
            np.testing.assert_allclose(gradient, difference * keep / 5, rtol=1e-4, atol=1e-6)


def test_a_softmax_outputs_labels_may_be_probabilities_of_any_sum(rng):
    for shape, options in (((4, 3), {}), ((2, 3, 4), {"multi_output": True}),
                           ((2, 3, 4), {}), ((2, 3, 4), {"preserve_shape": True})):
        data, label = rng.normal(size=shape).astype("float32"), rng.random(shape).astype("float32")
        flat = data.reshape(2, -1) if len(shape) == 3 and not options else data
        made = softmax(flat, 1 if "multi_output" in options else -1).reshape(shape)
        for gradient in softmax_gradients(data, label, normalization="batch", **options):
            np.testing.assert_allclose(gradient, made - label, rtol=1e-4, atol=1e-6)


def test_a_softmax_output_with_out_grad_multiplies_by_what_comes_from_above(rng):
    data, above = rng.normal(size=(2, 4, 3)).astype("float32")
    label = np.array([0, 2, 1, 1], "float32")
    net = sym.SoftmaxOutput(sym.var("data"), sym.var("label"), out_grad=True)
    executor = net.simple_bind(mx.cpu(), data=data.shape, grad_req="write")
    executor.forward(is_train=True, data=nd.array(data), label=nd.array(label))
    executor.backward([nd.array(above)])
    expected = (softmax(data) - np.eye(3)[label.astype(int)]) * above
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), expected, rtol=1e-4, atol=1e-6)


def test_make_loss_is_normalised_alike_in_graphs_and_on_arrays(rng):
    data = rng.normal(size=(4, 3)).astype("float32")
    for kind, divisor in (("null", 1), ("batch", 4), ("valid", (data > 0.5).sum())):
        options = {"grad_scale": 3.0, "normalization": kind, "valid_thresh": 0.5}
        _, gradient = gradient_of(sym.MakeLoss(sym.var("data"), **options), data=data)
        x = nd.array(data)
        x.attach_grad()
        with mx.autograd.record():
            out = nd.MakeLoss(x, **options)
        out.backward()
        for made in (gradient, x.grad.asnumpy()):
            np.testing.assert_allclose(made, np.full((4, 3), 3 / divisor), rtol=1e-6)
