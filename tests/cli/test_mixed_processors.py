# SPDX-License-Identifier: Apache-2.0
"""Workers whose processors differ: they agree on instructions, or the job says that they differ."""
import os

from conftest import PROGRAM

FEW = ["--data", "synthetic", "--quiet", "--no-report", "--json", "--steps", "3", "--global-batch",
       "16", "--threads", "1"]
# The library's own setting, of which the job does not know.
LIMIT = "ONEDNN_MAX_CPU_ISA=SSE41"


def launch(lockstep, setting, recipe, *words, **how):
    """Two workers; the second has another setting in its environment."""
    script = f'if [ "$LOCKSTEP_RANK" = 1 ]; then export {setting}; fi; exec "$0" "$@"'
    return lockstep.run("launch", "--workers", 2, "--", "sh", "-c", script,
                        os.path.abspath(PROGRAM), "train", recipe, *FEW, *words, **how)


def alone(lockstep, out, **environment):
    return lockstep.run("train", "mnist-lenet", *FEW, "--out", out,
                        env=dict(os.environ, **environment)).json


def test_workers_use_what_all_of_them_have(lockstep):
    mixed = launch(lockstep, "LOCKSTEP_ISA=sse4", "mnist-lenet", "--out", "mixed").json
    assert mixed["invariant"] is True
    assert mixed["params_sha256"] == alone(lockstep, "low", LOCKSTEP_ISA="sse4")["params_sha256"]
    assert mixed["params_sha256"] != alone(lockstep, "best")["params_sha256"]


def test_a_worker_that_computes_other_bits_is_refused(lockstep):
    outcome = launch(lockstep, LIMIT, "mnist-mlp", "--out", "refused", status=1)
    assert "train: worker 1 (" in outcome.err
    assert ") computes other bits than worker 0 (" in outcome.err
    assert "--allow-different-bits" in outcome.err


def test_other_bits_may_be_allowed_and_are_told(lockstep):
    words = ["--out", "allowed", "--allow-different-bits"]
    assert launch(lockstep, LIMIT, "mnist-mlp", *words).json["invariant"] is False


def test_weights_in_another_order_are_never_allowed(lockstep):
    words = ["--out", "order", "--allow-different-bits"]
    outcome = launch(lockstep, LIMIT, "mnist-lenet", *words, status=1)
    assert ") keeps its weights in another order than worker 0 (" in outcome.err


def test_an_unknown_instruction_set_is_named(lockstep):
    outcome = lockstep.run("train", "mnist-mlp", *FEW, status=1,
                           env=dict(os.environ, LOCKSTEP_ISA="avx9"))
    assert outcome.complaint.startswith("lockstep: instruction set: 'avx9', expected one of sse4, ")
