# SPDX-License-Identifier: Apache-2.0
"""The table of ops by MXNet's names.

An op is written on the engine's tensors and registered under its names; what scripts call takes and
gives arrays. `op(name)` finds one, `op(name).impl` the function on tensors.
"""

import functools

from lockstep import _core
from lockstep.mxnet.base import MXNetError, nearest
from lockstep.mxnet.ndarray.memory import owning
from lockstep.mxnet.ndarray.ndarray import NDArray

_OPS = {}


def op(name):
    """The function on arrays that a name means."""
    found = _OPS.get(name)
    if found is None:
        raise MXNetError(f"operator '{name}' is not in lockstep.mxnet{nearest(name, _OPS)}")
    return found


def op_names():
    """All names, sorted."""
    return sorted(_OPS)


def _tensors(value):
    """Arrays inside a list as tensors."""
    return [item._tensor if isinstance(item, NDArray) else item for item in value]


def into(out, result):
    """Writes results to the arrays that `out` names, and returns those."""
    if isinstance(out, (list, tuple)):
        for array, part in zip(out, result):
            into(array, part)
        return out
    value = result._tensor
    recorded = value.requires_grad or out._tensor.requires_grad
    if _core.is_recording() and not out._is_leaf and recorded:
        out._tensor = value
        return out
    if out.shape != value.shape:
        if out._tensor.size != value.size:
            raise MXNetError(f"out has shape {out.shape}, the result {value.shape}")
        value = value.reshape(out.shape)
    with _core._pause(_core.is_training()):
        out._tensor.assign(value.detach())
    return out


def on_arrays(impl):
    """A function on arrays of one on tensors."""

    @functools.wraps(impl)
    def call(*args, out=None, name=None, **kwargs):
        kind = None
        tensors = []
        for arg in args:
            if isinstance(arg, NDArray):
                if kind is None:
                    kind = arg._out
                arg = arg._tensor
            elif type(arg) is list and arg and isinstance(arg[0], NDArray):
                kind = kind or arg[0]._out
                arg = _tensors(arg)
            tensors.append(arg)
        if kwargs:
            for key, arg in kwargs.items():
                if isinstance(arg, NDArray):
                    if kind is None:
                        kind = arg._out
                    kwargs[key] = arg._tensor
        made = impl(*tensors, **kwargs)
        if kind is None:
            kind = NDArray
        if type(made) is tuple or type(made) is list:
            made = [kind(t) for t in made]
        else:
            made = kind(made)
        return made if out is None else into(out, made)

    call.impl = impl
    return call


def register(*names, window=False):
    """Registers a function on tensors under these names; of one that gives windows on its input,
    arrays get copies."""

    def decorate(impl):
        call = on_arrays(owning(impl) if window else impl)
        call.__name__, call.impl = names[0], impl
        for name in names:
            _OPS[name] = call
        return impl

    return decorate


def register_arrays(*names):
    """Registers a function that takes arrays itself."""

    def decorate(call):
        call.impl = call
        for name in names:
            _OPS[name] = call
        return call

    return decorate


def _fast_unary(engine):
    def call(data, out=None, name=None, **kwargs):
        try:
            result = data._out(engine(data._tensor))
        except AttributeError:
            if isinstance(data, NDArray):
                raise
            result = NDArray(engine(_core._as_tensor(data)))
        return result if out is None else into(out, result)

    return call


def register_unary(engine, *names):
    """An op of one array and no attributes."""
    call = _fast_unary(engine)
    call.impl = lambda data, **kwargs: engine(data)
    call.__name__ = names[0]
    call.__doc__ = engine.__doc__
    for name in names:
        _OPS[name] = call
