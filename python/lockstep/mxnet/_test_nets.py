# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: nets hybridized and not, optimisers beside each other, matrices that suit tests."""

import copy

import numpy as np

from lockstep.mxnet import autograd, initializer
from lockstep.mxnet._test_close import assert_almost_equal, compare_ndarray_tuple
from lockstep.mxnet.ndarray import random as nd_random
from lockstep.mxnet.util import use_np


class _Given(initializer.Initializer):
    """Parameters from arrays by name."""

    def __init__(self, arrays):
        super().__init__()
        self._arrays = arrays

    def _init_weight(self, name, arr):
        arr[()] = self._arrays[name]


def _run(net, inputs, with_gradient):
    inputs = [value.copy() for value in inputs]
    if not with_gradient:
        return net(*inputs).asnumpy(), None
    for value in inputs:
        value.attach_grad()
    with autograd.record():
        out = net(*inputs)
    out.backward(out)
    return out.asnumpy(), [value.grad.asnumpy() for value in inputs]


@use_np
def check_gluon_hybridize_consistency(net_builder, data_l, numpy_func=None, test_grad=True,
                                      rtol=1e-4, atol=1e-4):
    """Compares a net's values and gradients, hybridized and not, recorded and not, and a function
    of NumPy arrays."""
    parameters = first = first_gradients = None
    for hybridized in (False, True):
        for with_gradient in ((False, True) if test_grad else (False,)):
            net = net_builder(prefix="net_")
            net.initialize(*(() if parameters is None else (parameters,)))
            if hybridized:
                net.hybridize()
            out, gradients = _run(net, data_l, with_gradient)
            if parameters is None:
                parameters = _Given({name: value.data().asnumpy()
                                     for name, value in net.collect_params().items()})
            first = out if first is None else first
            first_gradients = first_gradients or gradients
            assert_almost_equal(out, first, rtol=rtol, atol=atol)
            for one, other in zip(gradients or (), first_gradients or ()):
                assert_almost_equal(one, other, rtol=rtol, atol=atol)
    if numpy_func is not None:
        expected = numpy_func(*[value.asnumpy() for value in data_l])
        assert_almost_equal(first, expected, rtol=rtol, atol=atol)


def _random(shape, dtype, stype, **kwargs):
    from lockstep.mxnet.test_utils import rand_ndarray

    if stype == "default":
        return nd_random.uniform(shape=shape, dtype=dtype)
    return rand_ndarray(shape, stype, dtype=dtype, **kwargs)


def compare_optimizer(opt1, opt2, shape, dtype, w_stype="default", g_stype="default", rtol=1e-4,
                      atol=1e-5, compare_states=True, ntensors=1):
    """Compares a step of two optimisers; shapes in a list: the second updates all at once."""
    if isinstance(shape, list):
        _compare_many(opt1, opt2, shape, dtype, rtol, atol, compare_states)
        return
    weight, gradient = _random(shape, dtype, w_stype, density=1), _random(shape, dtype, g_stype)
    dense = [value.copy() if value.stype == "default" else value.tostype("default")
             for value in (weight, gradient)]
    states = (opt1.create_state_multi_precision(0, dense[0]),
              opt2.create_state_multi_precision(0, weight))
    if compare_states:
        compare_ndarray_tuple(*states)
    opt1.update_multi_precision(0, dense[0], dense[1], states[0])
    opt2.update_multi_precision(0, weight, gradient, states[1])
    if compare_states:
        compare_ndarray_tuple(*states, rtol=rtol, atol=atol)
    assert_almost_equal(dense[0], weight, rtol=rtol, atol=atol)


def _compare_many(opt1, opt2, shapes, dtype, rtol, atol, compare_states):
    weights = [_random(shape, dtype, "default") for shape in shapes]
    gradients = [_random(shape, dtype, "default") for shape in shapes]
    together = copy.deepcopy(weights)
    states = [opt2.create_state_multi_precision(0, weight) for weight in together]
    opt2.update_multi_precision(list(range(len(shapes))), together, copy.deepcopy(gradients), states)
    for i, (weight, gradient) in enumerate(zip(weights, gradients)):
        state = opt1.create_state_multi_precision(i, weight)
        opt1.update_multi_precision(i, weight, gradient, state)
        if compare_states:
            compare_ndarray_tuple(state, states[i], rtol, atol)
        compare_ndarray_tuple(weight, together[i], rtol, atol)


def _stacked(make, shape):
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.stack([make(shape[-1]) for _ in range(count)]).reshape(shape)


def _orthonormal(n):
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_matrix_with_real_eigvals_2d(n):
    """A random n x n matrix with real eigenvalues, far from singular eigenvectors."""
    basis = _orthonormal(n) @ np.diag(np.random.uniform(0.5, 1.0, n))
    return np.linalg.inv(basis) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ basis


def new_matrix_with_real_eigvals_nd(shape):
    """Such matrices in the last two axes."""
    return _stacked(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_2d(n):
    """A random symmetric n x n matrix."""
    basis = _orthonormal(n)
    return basis.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ basis


def new_sym_matrix_with_real_eigvals_nd(shape):
    """Such matrices in the last two axes."""
    return _stacked(new_sym_matrix_with_real_eigvals_2d, shape)
