# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: whether arrays are equal, up to what their dtypes allow."""

import numbers

import numpy as np

from lockstep.mxnet.ndarray.ndarray import NDArray

# By dtype: the part of a value, and the amount, by which two results may differ.
_RELATIVE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-5}
_ABSOLUTE = {"float16": 1e-1, "float32": 1e-3, "float64": 1e-20}
_EXACT = ("bool", "int8", "uint8", "int32", "int64")


def _by_dtype(table, exact):
    made = {np.dtype(name): value for name, value in table.items()}
    made.update({np.dtype(name): exact for name in _EXACT})
    return made


def default_rtols():
    """The relative tolerance of each dtype."""
    return _by_dtype(_RELATIVE, 0)


def default_atols():
    """The absolute tolerance of each dtype."""
    return _by_dtype(_ABSOLUTE, 0)


def default_numeric_eps():
    """How far inputs of each dtype move for a difference: powers of two, which lose no bits."""
    return {np.dtype("float16"): 2.0 ** -6, np.dtype("float32"): 2.0 ** -9,
            np.dtype("float64"): 2.0 ** -14}


def as_numpy(x):
    """NumPy's array of an array or of numbers."""
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def effective_dtype(dat):
    """The dtype whose tolerance fits an array."""
    return np.dtype(dat.dtype)


def get_tolerance(dat, tol, default_tol):
    """A tolerance: the number given, or that of the array's dtype."""
    if isinstance(tol, numbers.Number):
        return tol
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol.get(dtype, 0))


def get_tols(x, y, rtol, atol):
    """The larger tolerances of two arrays."""
    x, y = (v if hasattr(v, "dtype") else np.asarray(v) for v in (x, y))
    return tuple(max(get_tolerance(x, tol, table), get_tolerance(y, tol, table))
                 for tol, table in ((rtol, default_rtols()), (atol, default_atols())))


def get_rtol(rtol=None, dtype=np.dtype("float64")):
    """The relative tolerance given, or a dtype's."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol=None, dtype=np.dtype("float64")):
    """The absolute tolerance given, or a dtype's."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def same(a, b):
    """Whether all elements are equal."""
    return np.array_equal(as_numpy(a), as_numpy(b))


def same_array(array1, array2):
    """Whether two arrays are the same memory."""
    array1[:] += 1
    shared = same(array1, array2)
    array1[:] -= 1
    return shared and same(array1, array2)


def almost_equal(a, b, rtol=None, atol=None, equal_nan=False, use_broadcast=True):
    """Whether elements are equal up to a tolerance."""
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast and a.shape != b.shape:
        return False
    return np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False,
                        use_broadcast=True, mismatches=(10, 10)):
    """Raises AssertionError where elements differ."""
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = as_numpy(a), as_numpy(b)
    if a.dtype == b.dtype == np.bool_:
        np.testing.assert_equal(a, b)
        return
    if not use_broadcast:
        assert a.shape == b.shape, f"{names[0]} is {a.shape}, {names[1]} is {b.shape}"
    if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan):
        a, b = np.broadcast_arrays(a, b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan,
                                   err_msg=f"{names[0]} and {names[1]}")


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """assert_almost_equal with NumPy's tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a, b, rtol=None, atol=None, etol=None, names=("a", "b"),
                                 equal_nan=False, mismatches=(10, 10)):
    """assert_almost_equal, where a part `etol` of the elements may differ."""
    if not etol:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    close = np.isclose(as_numpy(a), as_numpy(b), rtol=rtol, atol=atol, equal_nan=equal_nan)
    different = 1 - np.count_nonzero(close) / max(close.size, 1)
    assert different <= etol, f"{names[0]} and {names[1]}: {different:.2%} of the elements differ"


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """assert_almost_equal of the elements that are numbers in both."""
    a, b = np.copy(as_numpy(a)), np.copy(as_numpy(b))
    either = np.isnan(a) | np.isnan(b)
    a[either] = b[either] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(f, exception_type, *args, **kwargs):
    """Raises AssertionError where f does not raise."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"did not raise {exception_type.__name__}")


def compare_ndarray_tuple(t1, t2, rtol=None, atol=None):
    """assert_almost_equal of arrays, and of tuples of them."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for one, other in zip(t1, t2):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)
