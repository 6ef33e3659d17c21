# SPDX-License-Identifier: Apache-2.0
import gc
import threading
import weakref

import pytest

import lockstep as ls
from lockstep import autograd


def test_gradients_of_leaves_are_written_or_added():
    x = ls.tensor([1.0, 2.0]).attach_grad()
    y = ls.tensor([3.0, 4.0])
    y.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            z = (x * y).sum()
        z.backward()
    assert x.grad.tolist() == [3.0, 4.0] and y.grad.tolist() == [2.0, 4.0]
    y.zero_grad()
    assert y.grad.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="write, add, off"):
        x.attach_grad("sum")


def test_scopes_say_what_is_recorded_and_which_mode():
    assert not autograd.is_recording() and not autograd.is_training()
    x = ls.ones(1).attach_grad()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording()
            y = x * 2
        with autograd.predict_mode():
            assert not autograd.is_training() and autograd.is_recording()
    assert not autograd.is_recording() and not y.requires_grad
    with pytest.raises(RuntimeError, match="inside"):
        with autograd.record():
            raise RuntimeError("inside")
    assert not autograd.is_recording()


def test_gradients_of_gradients():
    x = ls.tensor(2.0).attach_grad()
    with autograd.record():
        y = x ** 4
        (dx,) = autograd.grad(y, [x], create_graph=True)
        (d2x,) = autograd.grad(dx, [x], create_graph=True)
    d2x.backward()
    assert (dx.item(), d2x.item(), x.grad.item()) == (32, 48, 48)


def test_head_gradients_and_several_heads():
    x = ls.ones(2).attach_grad()
    with autograd.record():
        a, b = x * 2, x * 3
    autograd.backward([a, b], [ls.tensor([1.0, 10.0]), None])
    assert x.grad.tolist() == [5.0, 23.0]


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + (-x).exp())
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


def test_a_function_of_ones_own_has_its_own_gradient():
    x = ls.tensor([0.5, -1.0]).attach_grad()
    with autograd.record():
        y = Sigmoid()(x)
    y.backward()
    with autograd.record():
        z = x.sigmoid()
    expected = autograd.grad(z, [x])[0] if z.requires_grad else None
    assert y.tolist() == pytest.approx(z.tolist())
    assert x.grad.tolist() == pytest.approx(expected.tolist())


def test_an_error_in_a_function_is_pythons_own():
    class Bad(Sigmoid):
        def backward(self, dy):
            raise KeyError("mine")

    x = ls.ones(1).attach_grad()
    with autograd.record():
        y = Bad()(x)
    with pytest.raises(KeyError, match="mine"):
        y.backward()


def test_functions_go_with_what_they_recorded():
    function = Sigmoid()
    seen = weakref.ref(function)
    x = ls.ones(3).attach_grad()
    with autograd.record():
        y = function(x)
    del function
    assert seen() is not None
    y.backward()
    del y
    gc.collect()
    assert seen() is None


def test_threads_record_for_themselves():
    seen = []

    def work():
        seen.append(autograd.is_recording())

    with autograd.record():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [False]


def test_the_slope_of_a_power_of_zero_is_its_limit_for_every_exponent():
    base = ls.zeros((5,)).attach_grad()
    exponent = ls.tensor([-2.0, -0.5, 0.0, 0.5, 2.0]).attach_grad()
    for power in ls.power, ls.compile(ls.power):
        with autograd.record():
            y = power(base, exponent)
        y.backward()
        assert exponent.grad.tolist() == [-float("inf"), -float("inf"), 0.0, 0.0, 0.0]
