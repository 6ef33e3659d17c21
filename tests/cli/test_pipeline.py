# SPDX-License-Identifier: Apache-2.0
"""Nets in segments: one result for one mesh, whoever computes it; and what is refused."""
import json
import os
import signal

import pytest

from jobs import steps_done, wait_until, workers_of

LONG_ENOUGH = 120
FEW = ["--data", "synthetic", "--global-batch", 8, "--shards", 4, "--seed", 5, "--no-report",
       "--quiet", "--json"]


def train(lockstep, recipe, out, *words, steps=3):
    outcome = lockstep.run("train", recipe, *FEW, "--steps", steps, "--out", out, *words,
                           timeout=300)
    return json.loads(outcome.out.splitlines()[-1])


def go_on(lockstep, recipe, out, *words):
    outcome = lockstep.run("train", recipe, "--resume", "--steps", 3, "--out", out, "--quiet",
                           "--json", *words, timeout=300)
    return json.loads(outcome.out.splitlines()[-1])


@pytest.mark.parametrize("recipe", ["mnist-lenet", "text-lstm", "char-gpt"])
def test_one_mesh_has_one_result_on_any_placement(lockstep, tmp_path, recipe):
    mesh = ["--segments", 2]
    alone = train(lockstep, recipe, tmp_path / "alone", "--threads", 2, *mesh)
    assert alone["segments"] == 2
    for name, words in {
            "1x2": ["--workers", 2, "--pipeline", 2],
            "2x1": ["--workers", 2],
            "2x2": ["--placement", "data=2,pipeline=2", "--schedule", "zero-bubble"],
            "tcp": ["--workers", 2, "--pipeline", 2, "--transport", "tcp", "--recompute",
                    "--pipeline-schedule", "gpipe"],
            "threads": ["--workers", 2, "--pipeline", 2, "--threads", 3]}.items():
        placed = train(lockstep, recipe, tmp_path / name, *mesh, *words)
        data, pipeline = {"2x1": (2, 1), "2x2": (2, 2)}.get(name, (1, 2))
        assert placed["placement"] == {"data": data, "pipeline": pipeline, "tensor": 1}
        assert len(placed["peak_memory_mb_by_worker"]) == placed["workers"] == data * pipeline
        assert placed["bubble"] is None if pipeline == 1 else 0 <= placed["bubble"] < 1
        for key in ("params_sha256", "train_loss", "test_loss", "test_accuracy"):
            assert placed[key] == alone[key], (name, key)


def test_what_a_pipeline_began_one_worker_goes_on_with_and_the_other_way_round(lockstep, tmp_path):
    pipeline = ["--workers", 2, "--pipeline", 2]
    train(lockstep, "mnist-lenet", tmp_path / "a", "--segments", 2, *pipeline, steps=2)
    train(lockstep, "mnist-lenet", tmp_path / "b", "--segments", 2, steps=2)
    one = go_on(lockstep, "mnist-lenet", tmp_path / "a")
    other = go_on(lockstep, "mnist-lenet", tmp_path / "b", *pipeline)
    assert one["resumed_from_step"] == other["resumed_from_step"] == 2
    assert one["segments"] == other["segments"] == 2
    assert one["params_sha256"] == other["params_sha256"]


@pytest.mark.parametrize("words,status,said", [
    (["--pipeline", 2, "--workers", 2], 2,
     "--pipeline 2 with 1 segment: expected --segments 2 or more, or --cuts"),
    (["--pipeline", 2, "--segments", 2, "--workers", 3], 2,
     "--pipeline 2 with 3 workers: expected a multiple of 2"),
    (["--pipeline", 2, "--segments", 2, "--workers", 2, "--deal", "speed"], 2,
     "--pipeline 2 with --deal speed: replicas of several workers share the shards evenly"),
    (["--pipeline", 2, "--segments", 2, "--workers", 2, "--kvstore", "ps_sync"], 2,
     "--pipeline 2: gradients are added in the canonical order, without servers"),
    (["--placement", "data=2,pipeline=2", "--segments", 2, "--workers", 3], 2,
     "--placement data=2,pipeline=2 with --workers 3: it has 4"),
    (["--placement", "data=2,pipeline=2", "--segments", 2, "--pipeline", 4], 2,
     "--placement data=2,pipeline=2 with --pipeline 4: choose one of them"),
    (["--placement", "data=1,tensor=2"], 2, "--tensor 2 with --slices 1: each worker needs a slice"),
    (["--slices", 2, "--tensor", 3, "--workers", 3], 2,
     "--tensor 3 with --slices 2: each worker needs a slice"),
    (["--placement", "data=2,pipeline=2,tensor=2", "--segments", 2, "--slices", 2, "--workers", 4],
     2, "--placement data=2,pipeline=2,tensor=2 with --workers 4: it has 8"),
    (["--slices", 2, "--segments", 2, "--pipeline", 2, "--tensor", 2, "--workers", 6], 2,
     "--pipeline 2 --tensor 2 with 6 workers: expected a multiple of 4"),
    (["--placement", "data=5,pipeline=2,tensor=2", "--segments", 2, "--slices", 2], 2,
     "--workers 20 with --shards 4: a replica (--pipeline 2 --tensor 2) computes at least one"),
    (["--slices", 2, "--slice-layers", "head=half"], 2, "is no way to split a layer"),
    (["--placement", "data=0"], 2, "'0' is no number of workers"),
    (["--placement", "data=1,data=2"], 2, "'data=2' is no axis, or was there before"),
    (["--placement", "rows=2"], 2, "'rows=2' is no axis, or was there before; expected data=D"),
    (["--pipeline", 2, "--segments", 2, "--workers", 2, "--shard-state", 3], 2,
     "--shard-state 3 with --pipeline 2"),
    (["--recompute"], 2, "--recompute: is for the workers of a pipeline, or"),
    (["--balance", "memory"], 2, "--balance memory: is for --segments P; expected it too"),
    (["--cuts", "a,,b"], 2, "--cuts a,,b: expected names of blocks with commas between"),
    (["--cuts", "nothing"], 1, "cut 'nothing' names no block of the net"),
    (["--segments", 99], 1, "99 segments are too many: the net can be cut into"),
])
def test_what_cannot_be_is_said_in_one_line(lockstep, tmp_path, words, status, said):
    outcome = lockstep.run("train", "mnist-lenet", *FEW, "--steps", 3, "--out", tmp_path / "run",
                           *words, status=status, timeout=120)
    lines = [line for line in outcome.err.splitlines() if line.startswith("lockstep: ")]
    assert len(lines) == 1 and said in lines[0], outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [["--segments", 2, "--pipeline", 2, "--schedule", "zero-bubble"],
                                   ["--segments", 2, "--shard-state", 3]])
def test_a_worker_that_is_killed_costs_no_more_than_the_steps_since_the_checkpoint(
        lockstep, words):
    mesh = ["mnist-lenet", *FEW, "--optimizer", "adam", "--steps", 400, "--eval-every", 400]
    alone = lockstep.run("train", *mesh, "--out", "alone", "--segments", 2, timeout=300)
    job = ["train", *mesh, "--checkpoint-every", 20, "--workers", 2, *words, "--out", "run"]
    process = lockstep.start(*job)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 30 or process.poll() is not None,
               LONG_ENOUGH)
    assert process.poll() is None, process.communicate()
    os.kill(workers_of(process)[1], signal.SIGKILL)
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    assert "worker 1" in errors and ("nobody else had its part of the state: the job begins again "
                                     "from the newest checkpoint (restart 1 of 20)") in errors
    result = json.loads(out.splitlines()[-1])
    assert result["params_sha256"] == json.loads(alone.out.splitlines()[-1])["params_sha256"]
    assert result["resumed_from_step"] >= 20 and result["resumed_from_step"] % 20 == 0


def test_a_plan_shows_cuts_and_timeline(lockstep, tmp_path):
    svg = tmp_path / "timeline.svg"
    outcome = lockstep.run("plan", "char-gpt", "--segments", 4, "--workers", 2, "--shards", 8,
                           "--timeline", "--svg", svg)
    assert "begins with" in outcome.out and "blocks." in outcome.out
    assert "\nstage 0  0" in outcome.out and svg.read_text().startswith("<svg")
    split = lockstep.run("plan", "char-gpt", "--segments", 4, "--placement", "data=2,pipeline=4",
                         "--shards", 16, "--timeline", "--schedule", "zero-bubble", "--svg", svg)
    assert "A, B, ...: its weights' gradients" in split.out
    assert "weights' gradients of shard 7" in svg.read_text()
    plan = json.loads(lockstep.run("plan", "char-gpt", "--segments", 2, "--shards", 16,
                                   "--json").out)
    by_memory = json.loads(lockstep.run("plan", "cifar-resnet18", "--segments", 2, "--balance",
                                        "memory", "--json").out)
    assert 0.2 < by_memory["segments"][0]["parameters"] / sum(
        s["parameters"] for s in by_memory["segments"]) < 0.8
    assert plan["shards_under_way"] == [2, 1] and 0.05 < plan["bubble"] < 0.2
    assert abs(sum(s["work"] for s in plan["segments"]) - 1.0) < 1e-9
