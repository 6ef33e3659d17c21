# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: what scripts and tests take from there."""

import contextlib
import functools
import os

import numpy as np

import lockstep.mxnet as mx
from lockstep.mxnet._test_chance import (chi_square_check, gen_buckets_probs_with_ppf, mean_check,
                                         var_check, verify_generator)
from lockstep.mxnet._test_close import (
    almost_equal, assert_allclose, assert_almost_equal, assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err, assert_exception, compare_ndarray_tuple, default_atols,
    default_numeric_eps, default_rtols, effective_dtype, get_atol, get_rtol, get_tolerance,
    get_tols, same, same_array)
from lockstep.mxnet._test_consistency import check_consistency  # noqa: F401
from lockstep.mxnet._test_data import (download, get_bz2_data, get_cifar10,  # noqa: F401
                                       get_mnist_iterator, get_mnist_ubyte, get_zip_data)
from lockstep.mxnet._test_nets import (
    check_gluon_hybridize_consistency, compare_optimizer, new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd, new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd)
from lockstep.mxnet._test_symbols import (check_numeric_gradient, check_symbolic_backward,
                                          check_symbolic_forward, numeric_grad,
                                          same_symbol_structure, simple_forward)
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.context import Context, current_context, num_gpus
from lockstep.mxnet.ndarray import array
from lockstep.mxnet.util import use_np

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


def random_uniform_arrays(*shapes, low=0.0, high=1.0, dtype=np.float32):
    """NumPy arrays of uniform numbers."""
    return [np.random.uniform(low, high, size=s).astype(dtype) for s in shapes]


def random_sample(population, k):
    """k of the elements, in random order."""
    shuffled = list(population)
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """Two random coordinates."""
    return np.random.randint(x_low, x_high), np.random.randint(y_low, y_high)


def rand_sparse_ndarray(shape, stype, density=None, dtype=None, **kwargs):
    """A random sparse array, and its parts as NumPy arrays."""
    made = rand_ndarray(shape, stype, np.random.rand() if density is None else density, dtype)
    names = ("indptr", "indices", "data") if stype == "csr" else ("data", "indices")
    return made, tuple(getattr(made, name).asnumpy() for name in names)


def create_sparse_array(shape, stype, density=0.5, dtype=None, **kwargs):
    """A random sparse array."""
    return rand_ndarray(shape, stype, density, dtype)


def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A reduction of NumPy's over some axes."""
    axes = range(dat.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = {a % dat.ndim for a in axes}
    reduced = dat
    for a in sorted(axes, reverse=True):
        reduced = numpy_reduce_func(reduced, axis=a)
    if keepdims:
        reduced = reduced.reshape([1 if i in axes else n for i, n in enumerate(dat.shape)])
    return reduced


def collapse_sum_like(a, shape):
    """Sums over the axes by which an array of this shape was broadcast."""
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    lead = a.ndim - len(shape)
    axes = [*range(lead), *(lead + i for i, n in enumerate(shape) if n != a.shape[lead + i])]
    return np.sum(a, axis=tuple(axes)).reshape(shape)


def retry(n):
    """A test that may fail by chance is tried up to n times."""
    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            for left in reversed(range(n)):
                try:
                    return function(*args, **kwargs)
                except AssertionError:
                    if left == 0:
                        raise

        return call

    return decorate


@contextlib.contextmanager
def environment(*args):
    """Variables of the environment while it lasts: a dict, or a name and a value (None: not set).
    """
    wanted = dict(args[0]) if len(args) == 1 else {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in wanted}

    def put(variables):
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(wanted)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def discard_stderr():
    """Nothing is written to stderr while it lasts."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def has_tvm_ops():
    """Whether ops are TVM's: never."""
    return False


def is_op_runnable():
    """Whether this device has the ops: always."""
    return True


def is_cd_run():
    """Whether a release is being made."""
    return os.environ.get("CD_JOB") == "1"


def get_mnist(path="data"):
    """{'train_data', 'train_label', 'test_data', 'test_label'} of the files in a folder: float32
    [N, 1, 28, 28] of 0 to 1, and int8."""
    from lockstep.mxnet.gluon.data.vision import MNIST

    made = {}
    for name, train in (("train", True), ("test", False)):
        part = MNIST(path, train)
        pictures = part._data.asnumpy().reshape(-1, 1, 28, 28).astype("float32") / 255
        made[f"{name}_data"], made[f"{name}_label"] = pictures, np.asarray(part._label).astype("int8")
    return _WithHints(made)


class _WithHints(dict):
    """A dict that says so to who takes it for an object."""

    def __getattr__(self, name):
        if name in self:
            raise AttributeError(f"get_mnist() returns a dict: write mnist['{name}']")
        raise AttributeError(name)


__getattr__ = attributes_of(globals())
