# SPDX-License-Identifier: Apache-2.0
"""Jobs whose workers are not in step, and which lose some: what they had goes to others, and each
sample is applied once."""
import json
import os
import signal

import pytest

from jobs import checkpoints_of, end, has_event, is_running, reach, workers_of

STEPS = 1200
TICKETS = 4  # of a step, for three workers
LONG_ENOUGH = 240
MODES = {"async": ["--kvstore", "ps_async"], "ssp": ["--kvstore", "ps_ssp", "--staleness", 1]}


def start(lockstep, mode, *words, workers=3, steps=STEPS):
    return lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--steps", steps,
                          "--global-batch", 32, "--shards", 8, "--threads", 1, "--quiet",
                          "--no-report", "--json", "--checkpoint-every", 200, "--eval-every", 300,
                          "--out", "run", "--workers", workers, "--servers", 2, *MODES[mode], *words)


def check_end(lockstep, process, tickets=TICKETS, steps=STEPS):
    try:
        out, errors = process.communicate(timeout=LONG_ENOUGH)
    finally:
        if process.poll() is None:
            end(process)
    assert process.returncode == 0, errors
    result = json.loads(out.strip().splitlines()[-1])
    assert result["steps"] == steps and result["test_accuracy"] > 0.7
    assert result["pushes"]["count"] == steps * tickets, errors  # of whoever made them
    rows = [json.loads(line) for line in open(lockstep.folder / "run" / "metrics.jsonl")]
    told = [row["step"] for row in rows if "learning_rate" in row]
    assert told == sorted(set(told)) and told[-1] == steps
    return result, errors


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rank", [0, 2])
def test_what_a_killed_worker_had_goes_to_the_others(lockstep, mode, rank):
    process = start(lockstep, mode, "--max-restarts", 0)
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[rank], signal.SIGKILL)
    result, errors = check_end(lockstep, process)
    assert [one["kind"] for one in result["recoveries"]] == ["lost"], errors
    assert result["recoveries"][0]["workers"] == 2 and f"worker {rank} is lost" in errors
    assert mode == "async" or result["pushes"]["steps_ahead_max"] <= 1
    assert STEPS in checkpoints_of(lockstep.folder / "run")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_worker_takes_its_place(lockstep, number):
    process = start(lockstep, "async", "--min-workers", 3, "--heartbeat", 1)
    reach(lockstep, process, 25)
    victim = workers_of(process)[1]
    os.kill(victim, number)
    result, _ = check_end(lockstep, process)
    assert result["recoveries"][-1]["workers"] == 3
    assert has_event(lockstep, "joined") and not is_running(victim)


def test_workers_come_and_leave_where_all_have_met(lockstep):
    process = start(lockstep, "ssp", workers=2, steps=3000)
    reach(lockstep, process, 20)
    lockstep.run("scale", "run", 3, status=0, timeout=LONG_ENOUGH)
    lockstep.run("leave", "run", "--worker", 0, status=0, timeout=LONG_ENOUGH)
    result, errors = check_end(lockstep, process, tickets=2, steps=3000)
    assert result["steps_lost"] == 0 and result["generation"] >= 3, errors
