# SPDX-License-Identifier: Apache-2.0
import copy
import pickle

import numpy as np
import pytest

import lockstep as ls

DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_goes_in_and_out_with_its_dtype(rng, dtype):
    array = (rng.integers(0, 2, size=(3, 4)) * 3).astype(dtype)
    x = ls.tensor(array)
    assert x.dtype == dtype and x.shape == (3, 4)
    np.testing.assert_array_equal(x.numpy(), array)
    assert x.numpy().dtype == array.dtype


def test_tensor_copies_and_from_numpy_shares():
    array = np.zeros(4, dtype="float32")
    copied, shared = ls.tensor(array), ls.from_numpy(array)
    array[1] = 7
    assert copied[1].item() == 0 and shared[1].item() == 7
    shared[2] = 5
    assert array[2] == 5
    assert shared.numpy().__array_interface__["data"] == array.__array_interface__["data"]


def test_numpy_of_a_tensor_shares_its_memory_and_keeps_it():
    x = ls.zeros((2, 3))
    array = x.numpy()
    array[1, 2] = 4
    assert x[1, 2].item() == 4
    del x
    assert array.sum() == 4
    assert np.asarray(ls.ones(3)).sum() == 3
    assert memoryview(ls.ones((2, 2), "int32")).format == "i"


def test_strided_arrays_are_shared_as_they_lie():
    array = np.arange(24, dtype="int64").reshape(4, 6)[::2, 1::2]
    x = ls.from_numpy(array)
    assert not x.is_contiguous()
    np.testing.assert_array_equal(x.numpy(), array)
    x[0, 0] = 100
    assert array[0, 0] == 100


def test_what_cannot_be_shared_is_copied_or_refused():
    backwards = np.arange(5, dtype="float32")[::-1]
    np.testing.assert_array_equal(ls.tensor(backwards).numpy(), backwards)
    with pytest.raises(ValueError, match="cannot be shared"):
        ls.from_numpy(backwards)
    frozen = np.zeros(3, dtype="float32")
    frozen.flags.writeable = False
    x = ls.asarray(frozen)
    x[0] = 1
    assert frozen[0] == 0
    with pytest.raises(TypeError, match="complex128"):
        ls.tensor(np.zeros(2, dtype=complex))
    with pytest.raises(ValueError, match="several lengths"):
        ls.tensor([[1, 2], [3]])
    big_endian = np.arange(3, dtype=">i4")
    assert ls.tensor(big_endian).tolist() == [0, 1, 2]


def test_numbers_and_lists_have_the_widths_of_models():
    assert ls.tensor(1.5).dtype == ls.float32
    assert ls.tensor(3).dtype == ls.int64
    assert ls.tensor(True).dtype == ls.bool_
    assert ls.tensor([[1, 2], [3, 4]]).dtype == "int64"
    assert ls.tensor([1.0, 2.0]).dtype == "float32"
    assert ls.tensor([np.float64(1.0)]).dtype == "float64"
    assert ls.tensor([1, 2], dtype="bfloat16").dtype == ls.bfloat16
    assert ls.tensor([ls.ones(2), ls.zeros(2)]).shape == (2, 2)
    assert ls.tensor(2**60 + 1).item() == 2**60 + 1


def test_dlpack_shares_memory_with_numpy_both_ways():
    x = ls.zeros((2, 2))
    array = np.from_dlpack(x)
    x[0, 1] = 3
    assert array[0, 1] == 3
    source = np.arange(6, dtype="float64").reshape(2, 3)
    y = ls.from_dlpack(source)
    source[1, 1] = 50
    assert y[1, 1].item() == 50 and y.dtype == "float64"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "uint8"])
def test_dlpack_shares_memory_with_torch_both_ways(dtype):
    torch = pytest.importorskip("torch")
    source = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    x = ls.from_dlpack(source)
    assert x.dtype == dtype and x.shape == (2, 3)
    source[1, 2] = 42
    assert x[1, 2].item() == 42
    back = torch.from_dlpack(x)
    assert back.data_ptr() == source.data_ptr() and back.dtype == source.dtype
    own = ls.zeros((2,), dtype)
    theirs = torch.from_dlpack(own)
    theirs[1] = 9
    assert own[1].item() == 9


def test_memory_of_another_library_lives_as_long_as_its_tensor():
    torch = pytest.importorskip("torch")
    x = ls.from_dlpack(torch.ones(1000) * 3)
    y = ls.tensor(x) * 1
    assert (x.numpy() == 3).all() and y.sum().item() == 3000


def test_bfloat16_is_float32_to_numpy():
    x = ls.tensor([1.0, 2.5], dtype="bfloat16")
    assert x.numpy().dtype == np.float32 and x.tolist() == [1.0, 2.5]
    assert np.asarray(x).dtype == np.float32


def test_pickle_and_copies_have_contents_of_their_own():
    x = ls.tensor([[1.0, 2.0]], dtype="bfloat16")
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy()):
        assert y.dtype == x.dtype and y.tolist() == [[1.0, 2.0]]
        y[0, 0] = 5
        assert x[0, 0].item() == 1
    assert pickle.loads(pickle.dumps(ls.float16)) is ls.float16


def test_protocols_of_python():
    x = ls.tensor([1.0, 2.0, 3.0])
    assert len(x) == 3 and [v.item() for v in x] == [1, 2, 3]
    assert 2.0 in x and 5.0 not in x
    assert float(ls.tensor(1.5)) == 1.5 and int(ls.tensor(7)) == 7
    assert [10, 20, 30][ls.tensor(1)] == 20
    assert f"{ls.tensor(1.23456):.2f}" == "1.23"
    assert "float32[3]" in repr(x)
    assert {x: 1}[x] == 1
    assert bool(ls.tensor(0.0)) is False
    with pytest.raises(ValueError, match="truth value"):
        bool(x)
    with pytest.raises(TypeError):
        len(ls.tensor(1))
    with pytest.raises(TypeError):
        list(ls.tensor(1))
    assert (x == None) is False  # noqa: E711
    assert x.T.shape == (3,) and x.nbytes == 12 and x.itemsize == 4 and x.ndim == 1 and x.size == 3


def test_dtypes_are_known_by_many_names():
    for name in (ls.float16, "float16", np.float16, np.dtype("float16")):
        assert ls.zeros(1, name).dtype == ls.float16
    assert ls.zeros(1, float).dtype == "float32" and ls.zeros(1, int).dtype == "int64"
    with pytest.raises(ValueError, match="float8"):
        ls.zeros(1, "float8")


def test_a_tensor_can_be_a_subclass():
    class Marked(ls.Tensor):
        pass

    x = Marked([1.0, 2.0])
    x.mark = 5
    assert x.mark == 5 and (x + 1).tolist() == [2.0, 3.0]


def test_a_list_that_is_no_tensor_is_told_what_may_be_wrong_with_it():
    for bad in [2**70], [[1, 2], [3]]:
        with pytest.raises(ValueError, match="several lengths, integers of more than 64 bits, or"):
            ls.tensor(bad)
