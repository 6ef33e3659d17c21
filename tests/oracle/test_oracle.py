# SPDX-License-Identifier: Apache-2.0
"""Lockstep's ops against PyTorch's: outputs and gradients, on random shapes and attributes.

The seed is printed; LOCKSTEP_SEED=N repeats a run.
"""

import os

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (python3-torch) is not installed")

from calls import Draw, calls  # noqa: E402
from op_server import OpError, OpServer  # noqa: E402
from programs import MEANINGS, finish, new_seed, plan_of, run_torch, single  # noqa: E402

SEED = int(os.environ.get("LOCKSTEP_SEED") or new_seed())
ROUNDS = 8
CALLS = calls()
TOLERANCE = {"float64": 1e-9, "float32": 2e-5}


@pytest.fixture(scope="module")
def server():
    torch.set_num_threads(1)
    print(f"LOCKSTEP_SEED={SEED}")
    server = OpServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def names(server):
    return server.names()


def assert_close(got, want, bound, what):
    assert got.shape == want.shape, f"{what}: shape {got.shape}, torch {want.shape}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, torch {want.dtype}"
    if got.dtype == numpy.int64:
        assert numpy.array_equal(got, want), f"{what}: {got}, torch {want}"
        return
    scale = max(1.0, numpy.abs(want).max()) if want.size else 1.0
    numpy.testing.assert_allclose(got, want, bound, bound * scale, equal_nan=True, err_msg=what)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_equals_torch(server, names, name):
    for index in range(ROUNDS):
        dtype = "float64" if index % 2 else "float32"
        call = CALLS[name](Draw(f"{SEED} {name} {index}"))
        assert call.op in names
        if call.op not in MEANINGS:
            pytest.skip(f"PyTorch has no {call.op} of these bits")
        case = finish(server, single(call, dtype))
        plan = plan_of(server, case)
        arrays = plan.arrays(dtype)
        want = run_torch(plan, arrays, dtype)
        ((_, got),) = server.run(plan.request(dtype), arrays, ["tape"])
        assert not isinstance(got, OpError), f"{case.text()}: {got}"
        outputs = len(plan.outputs)
        for i, (mine, torchs) in enumerate(zip(got, want)):
            factor = call.tolerance * (1 if i < outputs else 5)
            mine = numpy.zeros_like(torchs) if mine is None else mine
            what = f"LOCKSTEP_SEED={SEED} {case.text()}, result {i}"
            assert_close(mine, torchs, factor * TOLERANCE[dtype], what)
