# SPDX-License-Identifier: Apache-2.0
"""Jobs whose parameters servers keep, and which lose workers: they end with the bits of a job that
nobody disturbed, and every step is there once."""
import json
import os
import signal

import pytest

from conftest import Lockstep
from jobs import end, has_event, is_running, reach, servers_of, workers_of

STEPS = 400
TRAIN = ["mnist-mlp", "--data", "synthetic", "--steps", STEPS, "--global-batch", 32, "--threads", 1,
         "--quiet", "--no-report", "--json", "--checkpoint-every", 40, "--eval-every", 100]
LONG_ENOUGH = 240
# One that keeps numbers beside the weights, and one that needs all gradients before it begins.
RULES = {"adam": ["--optimizer", "adam"], "clipped": ["--clip-norm", 1]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """By rule, of one process."""
    def train(rule):
        folder = tmp_path_factory.mktemp(rule)
        return Lockstep(folder).run("train", *TRAIN, *RULES[rule], "--out", "run", status=0,
                                    timeout=LONG_ENOUGH).json
    return {rule: train(rule) for rule in RULES}


def start(lockstep, *words, rule="adam", workers=3, servers=2):
    return lockstep.start("train", *TRAIN, *RULES[rule], "--out", "run", "--kvstore", "ps_sync",
                          "--workers", workers, "--servers", servers, *words)


def check_end(lockstep, process, undisturbed):
    try:
        out, errors = process.communicate(timeout=LONG_ENOUGH)
    finally:
        if process.poll() is None:
            end(process)
    assert process.returncode == 0, errors
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == undisturbed["params_sha256"], errors
    assert result["test_accuracy"] == undisturbed["test_accuracy"]
    assert result["train_loss"] == undisturbed["train_loss"]
    assert result["steps_lost"] == 0
    rows = [json.loads(line) for line in open(lockstep.folder / "run" / "metrics.jsonl")]
    assert [row["step"] for row in rows if "learning_rate" in row] == list(range(1, STEPS + 1))
    return result, errors


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rank", [0, 2])
def test_a_worker_that_is_killed_costs_the_step_in_flight(lockstep, undisturbed, rank, rule):
    process = start(lockstep, "--max-restarts", 0, rule=rule)
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[rank], signal.SIGKILL)
    result, errors = check_end(lockstep, process, undisturbed[rule])
    assert [one["kind"] for one in result["recoveries"]] == ["lost"], result
    assert result["recoveries"][0]["member"] == rank and result["recoveries"][0]["workers"] == 2
    assert f"worker {rank} is lost" in errors and "generation 2: 2 workers go on" in errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_worker_takes_its_place_and_has_the_weights(lockstep, undisturbed, number):
    process = start(lockstep, "--min-workers", 3, "--heartbeat", 1)
    reach(lockstep, process, 25)
    victim = workers_of(process)[1]
    os.kill(victim, number)
    result, errors = check_end(lockstep, process, undisturbed["adam"])
    assert "the job waits for workers: 2 of 3 workers are there" in errors
    assert result["recoveries"][-1]["workers"] == 3
    assert has_event(lockstep, "joined") and not is_running(victim)


def test_all_of_the_first_workers_may_go_one_after_the_other(lockstep, undisturbed):
    process = start(lockstep, "--min-workers", 2, workers=2)
    for victim, step in ((0, 25), (1, 120)):
        reach(lockstep, process, step)
        os.kill(workers_of(process)[victim], signal.SIGKILL)
    result, errors = check_end(lockstep, process, undisturbed["adam"])
    assert result["generation"] >= 3 and "begins again" not in errors


def test_a_worker_and_a_server_that_has_a_backup_are_lost(lockstep, undisturbed):
    process = start(lockstep, "--replicas", 2)
    reach(lockstep, process, 25)
    os.kill(servers_of(process)[0], signal.SIGKILL)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    _, errors = check_end(lockstep, process, undisturbed["adam"])
    assert "its backup takes over" in errors and "worker 1 is lost" in errors


def test_a_job_gets_more_workers_and_fewer_and_a_guest(lockstep, undisturbed):
    process = start(lockstep, workers=2)
    reach(lockstep, process, 20)
    lockstep.run("scale", "run", 3, status=0, timeout=LONG_ENOUGH)
    guest = lockstep.start("join", "run", "--threads", 1)
    lockstep.run("scale", "run", 2, status=0, timeout=LONG_ENOUGH)
    check_end(lockstep, process, undisturbed["adam"])
    guest.communicate(timeout=LONG_ENOUGH)
