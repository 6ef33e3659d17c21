# SPDX-License-Identifier: Apache-2.0
import operator

import numpy as np
import pytest

import lockstep as ls

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
          operator.mod, operator.pow]
COMPARE = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


@pytest.mark.parametrize("op", BINARY + COMPARE, ids=lambda op: op.__name__)
def test_operators_are_numpys(rng, op):
    a = rng.uniform(0.5, 3, size=(3, 4)).astype("float32")
    b = rng.uniform(0.5, 3, size=(4,)).astype("float32")
    x, y = ls.tensor(a), ls.tensor(b)
    for ours, theirs in ((op(x, y), op(a, b)), (op(x, 2.0), op(a, np.float32(2))),
                         (op(x, b), op(a, b)), (op(2.0, x), op(np.float32(2), a))):
        assert isinstance(ours, ls.Tensor)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-6)


def test_an_array_on_the_left_gives_a_tensor():
    result = np.ones(3, dtype="float32") * ls.ones(3)
    assert isinstance(result, ls.Tensor)
    assert isinstance(np.float32(2) * ls.ones(3), ls.Tensor)


def test_numbers_take_the_tensors_dtype():
    for dtype in ("float16", "float32", "int32", "uint8"):
        assert (ls.ones(2, dtype) + 1).dtype == dtype
    assert (ls.ones(2, "int32") + 0.5).dtype == "float32"
    assert (ls.ones(2, "int64") / 2).dtype == "float32"
    assert (ls.ones(2, "int64") + (2**60 + 1)).tolist() == [2**60 + 2] * 2


def test_mixed_dtypes_promote():
    assert (ls.ones(2, "int32") + ls.ones(2, "float16")).dtype == "float16"
    assert (ls.ones(2, "float32") + ls.ones(2, "float64")).dtype == "float64"


def test_matrices_and_logic():
    a, b = ls.tensor([[1.0, 2.0], [3.0, 4.0]]), ls.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert (a @ b).tolist() == [[2, 1], [4, 3]]
    assert (a @ b.numpy()).tolist() == [[2, 1], [4, 3]]
    mask = (a > 1) & ~(a > 3) | (a == 4)
    assert mask.tolist() == [[False, True], [True, True]]
    assert ((a > 1) ^ (a > 2)).tolist() == [[False, True], [False, False]]
    assert (-a).tolist()[0] == [-1, -2] and abs(-a).tolist() == a.tolist() and (+a) is a
    with pytest.raises(ValueError, match="bool"):
        a & b


def test_in_place_operators_write_into_the_memory():
    x = ls.ones(3)
    other = x
    view = x[1:]
    x += 2
    x *= ls.tensor([1.0, 2.0, 3.0])
    x -= 1
    x /= 2
    assert other is x and view.tolist() == [2.5, 4.0]
    ints = ls.ones(2, "int32")
    with pytest.raises(ValueError, match="cut off"):
        ints += 0.5


def test_in_place_operators_are_recorded_as_new_tensors():
    x = ls.tensor([2.0]).attach_grad()
    with ls.autograd.record():
        y = x * 3
        y += x
    y.backward()
    assert x.grad.item() == 4


def test_bad_shapes_name_the_op():
    with pytest.raises(ls.InvalidArgument, match=r"add: .*\[2\].*\[3\]"):
        ls.ones(2) + ls.ones(3)
    with pytest.raises(TypeError):
        ls.ones(2) + "text"
    with pytest.raises(TypeError):
        ls.ones(2) + None
