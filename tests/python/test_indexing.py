# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import lockstep as ls

A = np.arange(2 * 3 * 4, dtype="float32").reshape(2, 3, 4)
KEYS = [
    0, -1, (1, 2), (1, 2, 3), slice(1, None), slice(None, None, 2), slice(None, None, -1),
    (slice(None), 1), (slice(None), slice(0, 2), slice(3, 0, -2)), Ellipsis, (Ellipsis, 0),
    (0, Ellipsis, 1), None, (slice(None), None), (None, 0, Ellipsis, None), (0, None, 1),
    [0, 1, 1], ([0, 1], [2, 0]), (slice(None), [2, 0]), ([1, 0], slice(None), [3, 3]),
    np.array([[0, 1], [1, 0]]), A > 5, (0, A[0] > 5), (slice(None), A[0, :, 0] > 3),
    (slice(None), np.array([True, False, True])), np.int64(1), (np.int32(1), slice(None)),
    (1, [0, 2], slice(1, 3)), slice(5, 2), np.array([], dtype="int64"), [-1, 0],
]


def ours(key):
    """The same key with tensors where NumPy's has arrays."""
    if isinstance(key, tuple):
        return tuple(ours(item) for item in key)
    if isinstance(key, np.ndarray):
        return ls.tensor(key)
    return key


def ids(key):
    return str(key).replace("\n", "")[:40]


@pytest.mark.parametrize("key", KEYS, ids=ids)
def test_an_index_reads_what_numpys_reads(key):
    theirs = A[key]
    for mine in (key, ours(key)):
        got = ls.tensor(A)[mine]
        assert got.shape == theirs.shape
        np.testing.assert_array_equal(got.numpy(), theirs)


@pytest.mark.parametrize("key", KEYS, ids=ids)
def test_an_index_writes_what_numpys_writes(key):
    theirs = A.copy()
    theirs[key] = -7
    x = ls.tensor(A)
    x[ours(key)] = -7
    np.testing.assert_array_equal(x.numpy(), theirs)


def test_values_broadcast_and_convert():
    x = ls.zeros((2, 3), "int32")
    x[:, 1:] = ls.tensor([[1.0], [2.0]])
    assert x.tolist() == [[0, 1, 1], [0, 2, 2]]
    x[...] = np.arange(3)
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(ValueError):
        x[0] = ls.ones(4)


def test_slices_are_windows_and_arrays_are_copies():
    x = ls.zeros((2, 3))
    x[0][1] = 5
    x[:, 2][1] = 6
    assert x.tolist() == [[0, 5, 0], [0, 0, 6]]
    x[[0]][0, 0] = 9
    assert x[0, 0].item() == 0


@pytest.mark.parametrize("key", [2, -3, (0, 3), (0, 0, 0), [0, 2], (slice(None), [3]), 1.5, "a"])
def test_what_is_out_of_range_is_an_index_error(key):
    x = ls.zeros((2, 3))
    with pytest.raises((IndexError, TypeError)):
        x[key]
    with pytest.raises((IndexError, TypeError)):
        x[key] = 1


def test_random_indices_are_numpys(rng):
    for _ in range(200):
        shape = tuple(rng.integers(1, 5, size=rng.integers(1, 4)))
        array = rng.normal(size=shape).astype("float32")
        key = tuple(random_item(rng, extent) for extent in shape[:rng.integers(0, len(shape) + 1)])
        np.testing.assert_array_equal(ls.tensor(array)[ours(key)].numpy(), array[key])


def random_item(rng, extent):
    kind = rng.integers(0, 4)
    if kind == 0:
        return int(rng.integers(-extent, extent))
    if kind == 1:
        ends = [None if rng.random() < 0.3 else int(v) for v in rng.integers(-6, 7, size=2)]
        return slice(*ends, int(rng.choice([1, 2, -1, 3])))
    if kind == 2:
        return slice(None)
    return rng.integers(-extent, extent, size=2)


def test_an_index_has_a_gradient():
    x = ls.tensor([1.0, 2.0, 3.0]).attach_grad()
    with ls.autograd.record():
        y = (x[1:] * x[[0, 0]]).sum()
    y.backward()
    assert x.grad.tolist() == [5.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype, value, kept", [
    ("uint8", 300, 44), ("uint8", -1, 255), ("int8", 200, -56), ("int32", 2 ** 31, -2 ** 31),
    ("uint8", 2.7, 2), ("uint8", 1e30, 255), ("int8", float("nan"), 0)])
def test_what_does_not_fit_wraps_around_where_it_is_written(dtype, value, kept):
    import lockstep.mxnet as mx

    for x in (ls.tensor(np.zeros(3, dtype)), mx.nd.zeros((3,), dtype=dtype),
              mx.np.zeros((3,), dtype=dtype)):
        x[0] = value
        x[1:] = value
        assert np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x).tolist() == [kept] * 3
    with pytest.raises(ValueError):
        ls.full((1,), 300, "uint8")
