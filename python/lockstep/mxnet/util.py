# SPDX-License-Identifier: Apache-2.0
"""Whether arrays are NumPy's kind (`npx.set_np`), and decorators that say so."""

import functools
import os
import threading

_local = threading.local()
_process = {"shape": False, "array": False}


def _flag(name):
    scoped = getattr(_local, name, None)
    return _process[name] if scoped is None else scoped


def is_np_shape():
    """Whether shapes may be () and have extents of 0."""
    return _flag("shape")


def is_np_array():
    """Whether Gluon's layers give arrays of mx.np."""
    return _flag("array")


def set_np_shape(active):
    """Sets it for the process; returns what it was."""
    before, _process["shape"] = _process["shape"], bool(active)
    return before


def set_np(shape=True, array=True, dtype=False):
    """NumPy's semantics from now on."""
    if array and not shape:
        raise ValueError("set_np: arrays of NumPy's kind have shapes of NumPy's kind")
    _process.update(shape=bool(shape), array=bool(array))


def reset_np():
    """MXNet's classic semantics again."""
    set_np(shape=False, array=False)


class _Scope:
    """Sets a flag of this thread while it lasts; also a decorator."""

    def __init__(self, **flags):
        self._flags = flags

    def __enter__(self):
        self._before = {name: getattr(_local, name, None) for name in self._flags}
        for name, value in self._flags.items():
            setattr(_local, name, value)
        return self

    def __exit__(self, *_):
        for name, value in self._before.items():
            setattr(_local, name, value)


def np_shape(active=True):
    """A scope in which shapes are NumPy's."""
    return _Scope(shape=active)


def np_array(active=True):
    """A scope in which arrays are NumPy's."""
    return _Scope(array=active)


def _decorated(target, **flags):
    if isinstance(target, type):
        for name in ("__init__", "forward", "hybrid_forward", "__call__", "initialize"):
            method = target.__dict__.get(name)
            if name == "initialize" and method is None:
                method = getattr(target, name, None)
            if callable(method):
                setattr(target, name, _decorated(method, **flags))
        return target

    @functools.wraps(target)
    def call(*args, **kwargs):
        with _Scope(**flags):
            return target(*args, **kwargs)

    return call


def use_np_shape(target):
    """A function or class whose code has NumPy's shapes."""
    return _decorated(target, shape=True)


def use_np_array(target):
    """A function or class whose code has NumPy's arrays."""
    return _decorated(target, array=True)


def use_np(target):
    """Both."""
    return _decorated(target, shape=True, array=True)


def makedirs(d):
    """Makes a folder and those above it."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def get_gpu_count():
    from lockstep.mxnet.context import num_gpus

    return num_gpus()


def getenv(name):
    """A variable of the environment, or None."""
    return os.environ.get(name)


def setenv(name, value):
    """Sets a variable of the environment."""
    os.environ[name] = value


def default_array(source_array, ctx=None, dtype=None):
    """An array of the kind in use."""
    from lockstep.mxnet import ndarray as nd

    if is_np_array():
        from lockstep.mxnet import numpy

        return numpy.array(source_array, dtype=dtype, ctx=ctx)
    return nd.array(source_array, ctx=ctx, dtype=dtype)
