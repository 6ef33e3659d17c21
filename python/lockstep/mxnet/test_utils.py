# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: what scripts and tests take from there."""

import os

import numpy as np

from lockstep.mxnet import autograd
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.context import Context, current_context, num_gpus
from lockstep.mxnet.gluon.utils import download
from lockstep.mxnet.ndarray import array
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["almost_equal", "assert_almost_equal", "assert_exception", "check_numeric_gradient",
           "default_context", "default_dtype", "download", "get_mnist", "list_gpus", "rand_ndarray",
           "rand_shape_2d", "rand_shape_3d", "rand_shape_nd", "same", "set_default_context"]
_state = {"context": None}


def default_context():
    """Where tests run."""
    return _state["context"] or current_context()


def set_default_context(ctx):
    """Sets where tests run."""
    _state["context"] = Context(ctx)


def default_dtype():
    """float32"""
    return np.float32


def list_gpus():
    """The numbers of the GPUs there are."""
    return list(range(num_gpus()))


def _numpy(x):
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def same(a, b):
    """Whether all elements are equal."""
    return np.array_equal(_numpy(a), _numpy(b))


def almost_equal(a, b, rtol=1e-5, atol=1e-20, equal_nan=False, use_broadcast=True):
    """Whether elements are equal up to a tolerance."""
    return np.allclose(_numpy(a), _numpy(b), rtol=rtol or 1e-5, atol=atol or 1e-20,
                       equal_nan=equal_nan)


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False,
                        use_broadcast=True, mismatches=(10, 10)):
    """Raises AssertionError where elements differ."""
    a, b = _numpy(a), _numpy(b)
    loose = np.float16 in (a.dtype, b.dtype)
    np.testing.assert_allclose(a, b, rtol=rtol or (1e-2 if loose else 1e-4),
                               atol=atol or (1e-3 if loose else 1e-5), equal_nan=equal_nan,
                               err_msg=f"{names[0]} and {names[1]}")


def assert_exception(f, exception_type, *args, **kwargs):
    """Raises AssertionError where f does not raise."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"did not raise {exception_type.__name__}")


def rand_shape_nd(num_dim, dim=10, allow_zero_size=False):
    """Random extents."""
    return tuple(np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_shape_2d(dim0=10, dim1=10, allow_zero_size=False):
    """Two random extents."""
    low = 0 if allow_zero_size else 1
    return np.random.randint(low, dim0 + 1), np.random.randint(low, dim1 + 1)


def rand_shape_3d(dim0=10, dim1=10, dim2=10, allow_zero_size=False):
    """Three random extents."""
    low = 0 if allow_zero_size else 1
    return tuple(np.random.randint(low, d + 1) for d in (dim0, dim1, dim2))


def rand_ndarray(shape, stype="default", density=None, dtype=None, **kwargs):
    """A random array."""
    contents = np.random.uniform(-1, 1, shape)
    if stype != "default":
        contents = contents * (np.random.uniform(0, 1, shape) < (density or 0.5))
    made = array(contents, dtype=dtype)
    return made if stype == "default" else made.tostype(stype)


def random_arrays(*shapes):
    """NumPy arrays of normal numbers."""
    made = [np.array(np.random.randn(), dtype="float32") if len(s) == 0
            else np.random.randn(*s).astype("float32") for s in shapes]
    return made[0] if len(made) == 1 else made


def check_numeric_gradient(function, inputs, eps=1e-3, rtol=1e-2, atol=1e-3):
    """Compares gradients with differences of a function of arrays."""
    arrays = [array(_numpy(x), dtype="float64") for x in inputs]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        total = function(*arrays).sum()
    total.backward()
    for place, x in enumerate(arrays):
        contents, numeric = x.asnumpy(), np.zeros(x.shape)
        for i in np.ndindex(*x.shape):
            values = []
            for sign in (1, -1):
                moved = contents.copy()
                moved[i] += sign * eps
                args = [array(moved, dtype="float64") if j == place else a
                        for j, a in enumerate(arrays)]
                values.append(float(function(*args).sum().asscalar()))
            numeric[i] = (values[0] - values[1]) / (2 * eps)
        np.testing.assert_allclose(x.grad.asnumpy(), numeric, rtol=rtol, atol=atol)


def get_mnist(path="data"):
    """{'train_data', 'train_label', 'test_data', 'test_label'} of the files in a folder: float32
    [N, 1, 28, 28] of 0 to 1, and int8."""
    from lockstep.mxnet.gluon.data.vision import MNIST

    root = path if os.path.isdir(path) else os.path.join("~", ".mxnet", "datasets", "mnist")
    made = {}
    for name, train in (("train", True), ("test", False)):
        part = MNIST(root, train)
        pictures = part._data.asnumpy().reshape(-1, 1, 28, 28).astype("float32") / 255
        made[f"{name}_data"], made[f"{name}_label"] = pictures, part._label.astype("int8")
    return _WithHints(made)


class _WithHints(dict):
    """A dict that says so to who takes it for an object."""

    def __getattr__(self, name):
        if name in self:
            raise AttributeError(f"get_mnist() returns a dict: write mnist['{name}']")
        raise AttributeError(name)


__getattr__ = attributes_of(globals())
