# SPDX-License-Identifier: Apache-2.0
"""Gradients: MXNet's `autograd` on the engine's tape."""

import weakref

from lockstep import _core, ops
from lockstep import autograd as _autograd
from lockstep.autograd import (is_recording, is_training, pause, predict_mode, record,
                               train_mode)
from lockstep.mxnet.base import MXNetError, as_list
from lockstep.mxnet.ndarray.ndarray import NDArray, result_class

__all__ = ["Function", "NDArray", "backward", "get_symbol", "grad", "is_recording", "is_training", "mark_variables", "pause",
           "predict_mode", "record", "set_recording", "set_training", "train_mode"]


class _Switch:
    """Scopes that a script enters without a `with`: set_recording(True) ... set_recording(False).
    """

    def __init__(self):
        self.open = []

    def set(self, scope, wanted, is_on):
        before = is_on()
        if wanted == before:
            return before
        if self.open:
            self.open.pop().__exit__(None, None, None)
            if is_on() == wanted:
                return before
        entered = scope()
        entered.__enter__()
        self.open.append(entered)
        return before


_recording, _training = _Switch(), _Switch()


def set_recording(is_recording):  # noqa: A002 - MXNet's name
    """Turns recording on or off; returns what it was."""
    mode = _core.is_training()
    scope = (lambda: _core._record(mode)) if is_recording else (lambda: _core._pause(mode))
    return _recording.set(scope, bool(is_recording), _core.is_recording)


def set_training(train_mode):  # noqa: A002
    """Turns train mode on or off; returns what it was."""
    return _training.set(lambda: _core._mode(bool(train_mode)), bool(train_mode),
                         _core.is_training)


# Arrays of the script's that show another one's gradient, by the id of that one.
_marked = {}


def _show_gradients():
    for key, (variable, gradient) in list(_marked.items()):
        leaf, shown = variable(), gradient()
        if leaf is None or shown is None:
            del _marked[key]
        elif leaf._tensor.grad is not None:
            shown._tensor = leaf._tensor.grad


def mark_variables(variables, gradients, grad_reqs="write"):
    """Makes arrays leaves, whose gradients backward leaves in other arrays."""
    variables, gradients = as_list(variables), as_list(gradients)
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    for variable, gradient, req in zip(variables, gradients, reqs):
        variable.attach_grad(req)
        gradient._tensor = variable.grad._tensor
        variable._fresh_grad = False
        _marked[id(variable)] = (weakref.ref(variable), weakref.ref(gradient))


def _tensors(arrays):
    return [None if a is None else a._tensor for a in as_list(arrays)]


def _live(heads, head_grads):
    """Tensors of the heads that depend on something, and of their gradients: what grad() made and
    found to be constant, and integers, are no error and have no gradient."""
    heads, grads = as_list(heads), None if head_grads is None else as_list(head_grads)
    if grads is not None and len(grads) != len(heads):
        raise ValueError(f"backward: {len(heads)} heads, but {len(grads)} head_grads")
    kept = [i for i, head in enumerate(heads)
            if head._tensor.requires_grad or not (getattr(head, "_constant", False)
                                                  or not head._tensor.dtype.is_floating)]
    tensors = [heads[i]._tensor for i in kept]
    _check_recorded(tensors)
    if grads is None:
        return tensors, None
    grads = _tensors([grads[i] for i in kept])
    # A head of integers is kept in floats; its gradient may be of what it is shown as.
    return tensors, [g if g is None or g.dtype == t.dtype else ops.cast(g, t.dtype)
                     for t, g in zip(tensors, grads)]


def _check_recorded(heads):
    for i, head in enumerate(heads):
        if not head.requires_grad:
            raise MXNetError(
                f"backward: head {i} was not computed under autograd.record() from arrays that "
                "want gradients (attach_grad), or its record was used up: retain_graph=True")


def backward(heads, head_grads=None, retain_graph=False, train_mode=True):  # noqa: A002
    """Sends gradients from the heads to the arrays that want them."""
    heads, head_grads = _live(heads, head_grads)
    if not heads:
        return
    if retain_graph:
        _core.backward(heads, head_grads, True)
    else:
        _core._backward_and_forget(heads, head_grads)
    if _marked:
        _show_gradients()


def grad(heads, variables, head_grads=None, retain_graph=None, create_graph=False,
         train_mode=True):  # noqa: A002
    """Gradients of the heads with respect to the variables: a list, of one variable too."""
    tensors, grads = _live(heads, head_grads)
    wanted = _tensors(variables)
    retain = create_graph if retain_graph is None else retain_graph
    made = _core.grad(tensors, wanted, grads, create_graph, retain) if tensors else [
        _core.zeros_like(t) for t in wanted]
    kind = result_class(as_list(variables)[0])
    arrays = [kind(t) for t in made]
    for array in arrays if create_graph else ():
        array._constant = not array._tensor.requires_grad
    return arrays


class _Bridge(_autograd.Function):
    """An engine's function that calls one of MXNet's."""

    def __init__(self, function, kind):
        self._function, self._kind = function, kind

    def _call(self, method, tensors):
        made = method(*[self._kind(t) for t in tensors])
        return tuple(None if a is None else a._tensor for a in as_list(made))

    def forward(self, *inputs):
        return self._call(self._function.forward, inputs)

    def backward(self, *output_grads):
        return self._call(self._function.backward, output_grads)


class Function:
    """A function with a gradient of its own: `forward` and `backward` on arrays."""

    saved_tensors = ()

    def save_for_backward(self, *args):
        """Keeps arrays for `backward`."""
        self.saved_tensors = args

    def forward(self, *inputs):
        """The outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, *output_grads):
        """One gradient for each input."""
        raise NotImplementedError(f"{type(self).__name__} has no backward")

    def __call__(self, *inputs):
        arrays = [a for a in inputs if isinstance(a, NDArray)]
        if len(arrays) != len(inputs):
            raise TypeError(f"{type(self).__name__}: expected arrays, got "
                            f"{[type(a).__name__ for a in inputs]}")
        kind = result_class(arrays[0])
        made = _core._call_function(_Bridge(self, kind), [a._tensor for a in arrays])
        return kind(made[0]) if len(made) == 1 else [kind(t) for t in made]


def get_symbol(x):
    """The symbol of what was recorded of an array, of variables called var0, var1, ..."""
    from lockstep.mxnet import _history

    return _history.symbol_of(x._tensor)
