# SPDX-License-Identifier: Apache-2.0
"""Gradients: ops are recorded inside of `record()`, and `backward` sends gradients to the leaves.

>>> import lockstep
>>> x = lockstep.tensor([3.0]).attach_grad()
>>> with lockstep.autograd.record():
...     y = x ** 3
>>> lockstep.autograd.backward(y)
>>> x.grad.item()
27.0
"""

from lockstep import _core


def record(train_mode=True):
    """While it lasts, ops on tensors that want gradients are recorded, in train mode."""
    return _core._record(train_mode)


def pause(train_mode=False):
    """While it lasts, nothing is recorded."""
    return _core._pause(train_mode)


def train_mode():
    """Train mode alone: dropout drops; what is recorded does not change."""
    return _core._mode(True)


def predict_mode():
    """Predict mode alone: dropout does nothing, batch norm takes its running statistics."""
    return _core._mode(False)


def is_recording():
    """Whether ops of this thread are recorded."""
    return _core.is_recording()


def is_training():
    """Whether this thread is in train mode."""
    return _core.is_training()


def attach_grad(x, mode="write"):
    """Makes `x` a leaf whose gradient is kept: "write" replaces it, "add" adds, "off" has none."""
    _core.attach_grad(x, mode)
    return x


def backward(heads, head_grads=None, retain=False):
    """Sends gradients from the heads, of ones unless given, to the leaves."""
    _core.backward(heads, head_grads, retain)


def grad(heads, variables, head_grads=None, create_graph=False, retain=False):
    """Gradients of the heads with respect to the variables, returned. With `create_graph` they can
    be differentiated again.

    >>> import lockstep
    >>> x = lockstep.tensor(2.0).attach_grad()
    >>> with lockstep.autograd.record():
    ...     y = x ** 3
    ...     first = lockstep.autograd.grad(y, x, create_graph=True)
    ...     second = lockstep.autograd.grad(first, x)
    >>> first.item(), second.item()
    (12.0, 12.0)
    """
    made = _core.grad(heads, variables, head_grads, create_graph, retain)
    return made if isinstance(variables, (list, tuple)) else made[0]


class Function:
    """A function with a gradient of its own; one instance serves one call.

    >>> import lockstep
    >>> class Double(lockstep.autograd.Function):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def backward(self, dy):
    ...         return dy * 10
    >>> x = lockstep.ones(2).attach_grad()
    >>> with lockstep.autograd.record():
    ...     y = Double()(x)
    >>> y.backward()
    >>> x.grad
    [10. 10.]
    float32[2] cpu(0)
    """

    saved_tensors = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors in `saved_tensors` for backward."""
        self.saved_tensors = tensors

    def forward(self, *inputs):
        """The outputs; nothing in here is recorded."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, *output_grads):
        """One gradient for each input, None where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no backward")

    def __call__(self, *inputs):
        outputs = _core._call_function(self, [_core._as_tensor(x) for x in inputs])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
