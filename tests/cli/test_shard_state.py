# SPDX-License-Identifier: Apache-2.0
"""Workers that each have a part of the state: the bits of one process, and less memory."""
import os

import pytest

from conftest import PROGRAM, Lockstep

FEW = ["--shards", 8, "--global-batch", 16]
SYNTHETIC = ["--data", "synthetic", "--quiet", "--no-report", *FEW]
RULES = [[], ["--optimizer", "adam"], ["--optimizer", "lamb", "--clip-norm", 0.5]]


def train(lockstep, *words, steps=4):
    return lockstep.train("mnist-lenet", *FEW, "--steps", steps, *words).json


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Hashes of one process, by rule."""
    folder = tmp_path_factory.mktemp("alone")
    return [train(Lockstep(folder), "--out", f"run{i}", *rule)["params_sha256"]
            for i, rule in enumerate(RULES)]


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("transport", ["auto", "tcp", "zmq"])
def test_the_bits_are_those_of_one_process(lockstep, alone, stage, transport):
    for i, rule in enumerate(RULES):
        for workers, threads in [(2, 1), (3, 2), (5, 1)]:
            result = train(lockstep, "--workers", workers, "--threads", threads, "--transport",
                           transport, "--shard-state", stage, "--out", f"{i}-{workers}", *rule)
            assert result["params_sha256"] == alone[i], (rule, workers)
            assert result["invariant"] is True and result["shard_state"] == stage


def test_a_worker_needs_less_memory_for_a_step(lockstep):
    words = ["--workers", 3, "--threads", 1, "--optimizer", "adam"]
    planned = [train(lockstep, *words, "--shard-state", stage, "--out", f"run{stage}")["step_bytes"]
               for stage in (0, 1, 2)]
    assert planned[0] > planned[1] > planned[2]


def test_a_run_goes_on_with_other_workers_and_another_stage(lockstep):
    whole = train(lockstep, "--optimizer", "adam", "--schedule", "constant", "--out", "whole")
    train(lockstep, "--optimizer", "adam", "--workers", 3, "--shard-state", 2, "--out", "parts",
          "--schedule", "constant", steps=2)
    result = lockstep.train("mnist-lenet", "--resume", "--out", "parts", "--steps", 4,
                            "--workers", 2, "--shard-state", 1).json
    assert result["resumed_from_step"] == 2
    assert result["params_sha256"] == whole["params_sha256"]


def test_a_launched_job_can_have_it(lockstep, alone):
    outcome = lockstep.run("launch", "-n", 2, "--", PROGRAM, "train", "mnist-lenet", *SYNTHETIC,
                           "--json", "--steps", 4, "--shard-state", 1, "--out", "run", status=0)
    assert outcome.json["params_sha256"] == alone[0]


def test_a_lost_worker_ends_the_job_which_goes_on_from_its_checkpoint(lockstep):
    adam = ["--optimizer", "adam", "--schedule", "constant"]
    whole = train(lockstep, *adam, "--out", "whole", steps=8)
    outcome = lockstep.run("train", "mnist-lenet", *SYNTHETIC, *adam, "--steps", 8,
                           "--checkpoint-every", 1, "--workers", 2, "--shard-state", 1, "--out",
                           "run", status=1, env=dict(os.environ, LOCKSTEP_FAIL_AT="1:5:exit"))
    assert outcome.err.endswith("lockstep: worker 1 ended with status 3; the job is over\n")
    result = lockstep.train("mnist-lenet", "--resume", "--out", "run", "--workers", 3,
                            "--shard-state", 2).json
    assert result["resumed_from_step"] in (4, 5)
    assert result["params_sha256"] == whole["params_sha256"]


@pytest.mark.parametrize("words,status,complaint", [
    (["--shard-state", 4], 2, "--shard-state"),
    (["--shard-state", 1, "--kvstore", "ps_sync"], 2, "--shard-state 1 with --kvstore ps_sync"),
    (["--shard-state", 2, "--min-workers", 1], 2, "--shard-state 2 with --min-workers: a worker"),
    (["--shard-state", 1, "--max-workers", 4], 2, "--shard-state 1 with --max-workers: a worker"),
])
def test_what_cannot_be_is_one_line_before_anything_starts(lockstep, words, status, complaint):
    outcome = lockstep.run("train", "mnist-mlp", *SYNTHETIC, "--steps", 4, "--workers", 2, *words,
                           status=status)
    assert outcome.complaint.startswith("lockstep: " + complaint), outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_tables_with_sparse_gradients_are_not_shared(lockstep):
    outcome = lockstep.run("train", "recsys-mf", "--data", "synthetic", "--steps", 2, "--workers", 2,
                           "--shard-state", 3, "--quiet", "--no-report", "--out", "run", status=1)
    assert "has sparse gradients, which workers that share the weights do not train" in outcome.err
