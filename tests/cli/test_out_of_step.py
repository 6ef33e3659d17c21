# SPDX-License-Identifier: Apache-2.0
"""ps_async and ps_ssp: workers that are not in step, with real processes."""
import json
import os
import signal
import time

import pytest
from jobs import checkpoints_of, descendants, environment, steps_done, wait_until

MODES = [["--kvstore", "ps_async"], ["--kvstore", "ps_ssp", "--staleness", 1]]
JOB = ["--workers", 3, "--servers", 2]
SIZE = ["--global-batch", 32, "--shards", 8]
TICKETS = 4  # of a step, for three workers


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("mode", MODES, ids=["async", "ssp"])
def test_it_learns_and_says_what_it_does_not_promise(lockstep, mode):
    outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", "--no-report", "--json",
                           "--steps", 200, *SIZE, *JOB, *mode, "--out", "run", status=0,
                           timeout=120)
    result = outcome.json
    assert result["kvstore"] == mode[1] and not result["invariant"]
    assert f"with {mode[1]} the bits depend on which worker was faster" in outcome.err
    assert result["steps"] == 200 and result["test_accuracy"] > 0.7
    pushes = result["pushes"]
    assert pushes["count"] == 200 * TICKETS
    assert pushes["staleness_max"] >= pushes["staleness_mean"] >= 0
    assert mode[1] == "ps_async" or pushes["steps_ahead_max"] <= 1
    assert result["stale_gradients"] == "damped"
    rows = [row for row in metrics_of(lockstep.folder / "run") if "loss" in row]
    assert rows[-1]["step"] == 200 and all(row["staleness"] >= 0 for row in rows)
    assert mode[1] == "ps_async" or all(row["steps_ahead"] <= 1 for row in rows)


def test_a_run_that_is_stopped_goes_on_with_other_workers(lockstep):
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--steps", 100000, *SIZE, *JOB, *MODES[0], "--out", "run")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 10 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "stopped after step" in errors, errors
    step = json.loads((lockstep.folder / "run" / "result.json").read_text())["steps"]
    assert step >= 10 and len(checkpoints_of(lockstep.folder / "run")) >= 1
    result = lockstep.train("mnist-mlp", "--resume", "--out", "run", "--steps", step + 20,
                            "--workers", 2, "--servers", 1, *MODES[1], timeout=120).json
    assert result["resumed_from_step"] == step and result["steps"] == step + 20
    assert result["pushes"]["count"] == 20 * 2


def worker_of(process, rank):
    return next(pid for pid in descendants(process)
                if environment(pid).get("LOCKSTEP_RANK") == str(rank)
                and environment(pid).get("LOCKSTEP_ROLE") != "server")


def test_the_bound_holds_while_a_worker_is_stopped_again_and_again(lockstep):
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--steps", 100000, *SIZE, *JOB, *MODES[1], "--out", "run")
    folder = lockstep.folder / "run"
    wait_until(lambda: steps_done(folder) >= 10 or process.poll() is not None)
    slow = worker_of(process, 2)
    for _ in range(5):
        before, resume_at = steps_done(folder), time.monotonic() + 0.3
        os.kill(slow, signal.SIGSTOP)
        wait_until(lambda: time.monotonic() >= resume_at)
        os.kill(slow, signal.SIGCONT)
        wait_until(lambda: steps_done(folder) > before + 3 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=120)
    assert "stopped after step" in errors, errors
    assert json.loads(out.splitlines()[-1])["pushes"]["steps_ahead_max"] == 1
    rows = [row for row in metrics_of(folder) if "loss" in row]
    assert rows and all(row["steps_ahead"] <= 1 for row in rows)


def test_a_worker_that_dies_is_named_where_the_job_is_to_end_with_it(lockstep):
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--steps", 100000, *SIZE, *JOB, *MODES[1], "--out", "run",
                             "--fail-fast")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 10 or process.poll() is not None)
    os.kill(worker_of(process, 1), signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and "worker 1" in errors, errors


@pytest.mark.parametrize("lost", [0, 1])
def test_a_server_that_is_killed_is_replaced_by_its_backup(lockstep, lost):
    """Server 0 deals the tickets, too."""
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--steps", 100000, *SIZE, *JOB, *MODES[1], "--replicas", 2,
                             "--out", "run")
    folder = lockstep.folder / "run"
    wait_until(lambda: steps_done(folder) >= 10 or process.poll() is not None)
    victim = next(pid for pid in descendants(process)
                  if environment(pid).get("LOCKSTEP_RANK") == str(lost)
                  and environment(pid).get("LOCKSTEP_ROLE") == "server")
    before = steps_done(folder)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: steps_done(folder) > before + 20 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=120)
    assert f"server {lost}" in errors and "its backup takes over" in errors, errors
    result = json.loads(out.splitlines()[-1])
    assert result["steps"] > before + 20
    assert result["pushes"]["count"] == result["steps"] * TICKETS
    assert result["pushes"]["steps_ahead_max"] <= 1


def test_compression_is_refused_in_one_line(lockstep):
    outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", *SIZE, *JOB, *MODES[0],
                           "--compression", "2bit:0.1", status=1)
    assert outcome.complaint == ("lockstep: kvstore 'ps_async': gradients are not compressed, "
                                 "expected compression none, got 2bit:0.1")
