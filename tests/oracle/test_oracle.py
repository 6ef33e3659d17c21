# SPDX-License-Identifier: Apache-2.0
"""Lockstep's ops against PyTorch's: outputs and gradients, on random shapes and attributes.

The seed is printed; LOCKSTEP_SEED=N repeats a run.
"""

import os
import random

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (python3-torch) is not installed")

from calls import Draw, calls  # noqa: E402
from op_server import OpServer  # noqa: E402

SEED = int(os.environ.get("LOCKSTEP_SEED") or random.getrandbits(31))
ROUNDS = 8
CALLS = calls()
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}


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


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def assert_close(got, want, factor, what):
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, torch {tuple(want.shape)}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, torch {want.dtype}"
    if not got.is_floating_point():
        assert torch.equal(got, want), f"{what}: {got}, torch {want}"
        return
    bound = factor * TOLERANCE[got.dtype]
    scale = max(1.0, want.abs().max().item()) if want.numel() else 1.0
    torch.testing.assert_close(
        got, want, rtol=bound, atol=bound * scale, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )


def run_torch(call, draw):
    """Outputs, head gradients and input gradients."""
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in call.inputs]
    outputs = listed(call.torch_function(*inputs))
    heads = [y for y in outputs if y is not None and y.requires_grad]
    grads = [draw.tensor(y.shape).to(y.dtype) if y.requires_grad else None for y in outputs]
    if heads:
        torch.autograd.backward(heads, [g for g in grads if g is not None])
    return outputs, grads, [x.grad for x in inputs]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_equals_torch(server, names, name):
    for index in range(ROUNDS):
        dtype = torch.float64 if index % 2 else torch.float32
        draw = Draw(f"{SEED} {name} {index}", dtype)
        call = CALLS[name](draw)
        if call.op not in names:
            pytest.skip(f"there is no op {call.op}")
        shapes = [list(x.shape) for x in call.inputs]
        what = f"LOCKSTEP_SEED={SEED} {call.op} {shapes} {call.attrs}"
        outputs, output_grads, input_grads = run_torch(call, draw)
        got_outputs, got_grads = server.run(call.op, call.attrs, call.inputs, output_grads)
        for i, (got, want) in enumerate(zip(got_outputs, outputs)):
            assert_close(got, want.detach(), call.tolerance, f"{what}, output {i}")
        for i, (got, want) in enumerate(zip(got_grads, input_grads)):
            if want is None:
                continue
            got = torch.zeros_like(want) if got is None else got
            assert_close(got, want, 5 * call.tolerance, f"{what}, gradient of input {i}")
