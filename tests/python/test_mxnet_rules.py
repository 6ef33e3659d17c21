# SPDX-License-Identifier: Apache-2.0
"""Update rules: their rates, what a Trainer keeps between steps, and rules as ops."""

import warnings

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd, sym


def parameter(value=0.0, **options):
    made = gluon.Parameter("w", shape=(1,), **options)
    made.initialize(mx.init.Constant(value))
    return made


def step(trainer, parameters, gradient=1.0, batch=1, **options):
    """One step of a loss with this gradient; the first parameter's value."""
    parameters = parameters if isinstance(parameters, list) else [parameters]
    with autograd.record():
        loss = sum((p.data() * gradient).sum() for p in parameters)
    loss.backward()
    trainer.step(batch, **options)
    return parameters[0].data().asnumpy()[0]


def mxnet_adam(gradients, w=0.0, lr=0.001, wd=0.0, clip=np.inf, epsilon=1e-8):
    mean = square = 0.0
    for t, gradient in enumerate(gradients, 1):
        g = np.clip(gradient + wd * w, -clip, clip)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        rate = lr * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        w -= rate * mean / (np.sqrt(square) + epsilon)
    return w


# Rules as ops.


def test_rules_as_ops_clip_the_decay_with_the_gradient():
    weight, gradient = nd.array([2.0]), nd.array([-0.5])  # with the decay 1.5, clipped to 1
    options = {"lr": 0.1, "wd": 1.0, "clip_gradient": 1.0}
    made = nd.adam_update(weight, gradient, nd.ones((1,)), nd.ones((1,)), **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1], rtol=1e-5)
    made = nd.rmsprop_update(weight, gradient, nd.ones((1,)), gamma1=0.75, **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1], rtol=1e-5)
    made = nd.rmspropalex_update(weight, gradient, nd.ones((1,)), nd.zeros((1,)), nd.zeros((1,)),
                                 gamma1=0.75, **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1 / np.sqrt(1 - 0.0625)], rtol=1e-5)
    made = nd.ftml_update(weight, gradient, nd.zeros((1,)), nd.ones((1,)), nd.zeros((1,)), t=1,
                          lr=0.1, wd=1.0, clip_grad=1.0)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.4 / (4 / np.sqrt(0.001))], rtol=1e-5)
    made = nd.sgd_update(weight, nd.array([3.0]), **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1 * (1 + 2)], rtol=1e-6)


def test_signsgd_takes_the_sign_of_the_gradient_alone():
    made = nd.signsgd_update(nd.array([2.0]), nd.array([-0.1]), lr=0.1, wd=0.5, clip_gradient=0.01)
    np.testing.assert_allclose(made.asnumpy(), [2.0], rtol=1e-6)
