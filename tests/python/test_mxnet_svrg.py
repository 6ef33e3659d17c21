# SPDX-License-Identifier: Apache-2.0
"""contrib.svrg_optimization."""

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet.contrib.svrg_optimization import SVRGModule

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = X @ np.float32([1, -2, 0.5]) + RNG.normal(size=40).astype("float32")


def data(batch=8):
    return mx.io.NDArrayIter(X, Y, batch, label_name="y_label")


def net():
    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(layer, mx.sym.var("y_label"), name="y")


def module(kind=SVRGModule, **kwargs):
    made = kind(net(), label_names=["y_label"], **kwargs)
    made.bind(data().provide_data, data().provide_label)
    made.init_params(mx.init.One())
    made.init_optimizer(optimizer_params={"learning_rate": 0.1})
    return made


def gradient(weight, bias, rows):
    """The mean gradient of a weight over rows, by hand."""
    error = X[rows] @ weight + bias - Y[rows]
    return X[rows].T @ error / len(rows), error.mean()


def test_a_step_is_corrected_by_the_remembered_gradients():
    made, batches = module(update_freq=2), list(data())
    made.update_full_grads(data())
    old = (np.ones(3, "float32"), 0.0)  # One() leaves biases zero
    weight, bias = np.ones(3), 0.0
    everything = gradient(*old, range(40))
    for number, batch in enumerate(batches[:3]):
        made.forward_backward(batch)
        made.update()
        rows = range(8 * number, 8 * number + 8)
        now, then = gradient(weight, bias, rows), gradient(*old, rows)
        weight = weight - 0.1 * (now[0] - then[0] + everything[0])
        bias = bias - 0.1 * (now[1] - then[1] + everything[1])
    args, _ = made.get_params()
    np.testing.assert_allclose(args["fc_weight"].asnumpy()[0], weight, rtol=1e-4)
    np.testing.assert_allclose(args["fc_bias"].asnumpy()[0], bias, rtol=1e-4, atol=1e-6)


def test_a_mean_is_made_anew_each_time():
    made = module(update_freq=1)
    for _ in range(2):
        made.update_full_grads(data())
    want = gradient(np.ones(3), 0.0, range(40))[0] * 8  # gradients of a batch are sums
    np.testing.assert_allclose(made._means["fc_weight"].asnumpy()[0], want, rtol=1e-4)


def test_a_batch_that_is_filled_up_counts_in_part():
    made = module(update_freq=1)
    made.update_full_grads(data(16))  # 40 rows are two and a half batches
    total = sum(gradient(np.ones(3), 0.0, [i % 40 for i in range(16 * b, 16 * b + 16)])[0] * 16
                for b in range(3))
    np.testing.assert_allclose(made._means["fc_weight"].asnumpy()[0], total / 2.5, rtol=1e-4)


def test_fit_comes_nearer_than_plain_steps():
    best = np.linalg.lstsq(np.c_[X, np.ones(40)], Y, rcond=None)[0]

    def distance(made):
        made.fit(data(), eval_metric="mse", num_epoch=30, initializer=mx.init.One(),
                 optimizer_params={"learning_rate": 0.1})
        args, _ = made.get_params()
        found = np.r_[args["fc_weight"].asnumpy()[0], args["fc_bias"].asnumpy()]
        return np.abs(found - best).max()

    plain = mx.mod.Module(net(), label_names=["y_label"])
    reduced = SVRGModule(net(), label_names=["y_label"], update_freq=2)
    assert distance(reduced) < 1e-3 < distance(plain)
    assert dict(reduced.score(data(), "mse"))["mse"] > 0


def test_update_freq_is_a_number_of_epochs():
    for wrong, error in ((None, TypeError), ("2", TypeError), (0, ValueError), (-1, ValueError)):
        with pytest.raises(error, match="update_freq"):
            SVRGModule(net(), label_names=["y_label"], update_freq=wrong)
