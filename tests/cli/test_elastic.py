# SPDX-License-Identifier: Apache-2.0
"""Jobs that lose workers, and have others in their place: they end with the bits of a job that
nobody disturbed, and every step is there once."""
import json
import os
import random
import signal

import pytest

from jobs import (checkpoints_of, descendants, is_running, name_of, state_of, steps_done,
                  wait_until, workers_of)

STEPS = 600
TRAIN = ["mnist-mlp", "--data", "synthetic", "--steps", STEPS, "--global-batch", 32, "--threads", 1,
         "--quiet", "--no-report", "--json", "--checkpoint-every", 40, "--eval-every", 60]
LONG_ENOUGH = 120


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    from conftest import Lockstep
    folder = tmp_path_factory.mktemp("undisturbed")
    return Lockstep(folder).run("train", *TRAIN, "--out", "run", status=0).json


def start(lockstep, *words, workers=3, **settings):
    return lockstep.start("train", *TRAIN, "--out", "run", "--workers", workers, *words, **settings)


def reach(lockstep, process, step):
    wait_until(lambda: steps_done(lockstep.folder / "run") >= step or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def events_of(lockstep):
    return [json.loads(line) for line in open(lockstep.folder / "run" / "events.jsonl")]


def recorded_steps(lockstep):
    rows = [json.loads(line) for line in open(lockstep.folder / "run" / "metrics.jsonl")]
    return ([row["step"] for row in rows if "learning_rate" in row],
            [row["step"] for row in rows if "val_loss" in row])


def check_end(lockstep, process, undisturbed):
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == undisturbed["params_sha256"], errors
    assert result["test_accuracy"] == undisturbed["test_accuracy"]
    assert result["train_loss"] == undisturbed["train_loss"]
    assert result["steps_lost"] == 0
    steps, evaluations = recorded_steps(lockstep)
    assert steps == list(range(1, STEPS + 1))
    assert evaluations == list(range(60, STEPS + 1, 60))
    assert not list((lockstep.folder / "run").rglob("*.tmp*"))
    return result, errors


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_worker_that_is_killed_costs_the_step_in_flight(lockstep, undisturbed, rank, transport):
    process = start(lockstep, "--transport", transport, "--max-restarts", 0)
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[rank], signal.SIGKILL)
    result, errors = check_end(lockstep, process, undisturbed)
    assert [one["kind"] for one in result["recoveries"]] == ["lost"], result
    assert result["recoveries"][0]["member"] == rank and result["recoveries"][0]["workers"] == 2
    assert result["generation"] == 2
    assert f"worker {rank} is lost" in errors and "generation 2: 2 workers go on" in errors
    events = events_of(lockstep)
    assert [event["event"] for event in events] == ["lost", "generation"], events
    assert events[0]["member"] == rank


def test_another_worker_takes_the_place_of_a_lost_one(lockstep, undisturbed):
    process = start(lockstep, "--min-workers", 3)
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    result, errors = check_end(lockstep, process, undisturbed)
    assert "the job waits for workers: 2 of 3 workers are there" in errors
    assert result["recoveries"][-1]["workers"] == 3
    assert {"event": "joined", "member": 3}.items() <= next(
        event for event in events_of(lockstep) if event["event"] == "joined").items()


@pytest.mark.parametrize("how", ["signal", "request"])
def test_a_job_that_waits_for_workers_stops_with_a_checkpoint_when_it_is_asked_to(
        lockstep, undisturbed, how):
    process = start(lockstep, "--min-workers", 3, "--max-restarts", 0)
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    wait_until(lambda: any(line.startswith("lockstep: the job waits") for line in process.stderr))
    if how == "signal":
        lockstep.run("stop", "run", status=0)
    else:  # what `lockstep stop` does for a job of another host
        (lockstep.folder / "run" / "stop.request").write_text("stop\n")
    _, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 143, errors
    steps, _ = recorded_steps(lockstep)
    assert checkpoints_of(lockstep.folder / "run")[-1] == steps[-1] < STEPS
    result = lockstep.run("train", *TRAIN, "--out", "run", "--resume", "--workers", 2, status=0)
    assert result.json["params_sha256"] == undisturbed["params_sha256"]


def test_the_last_of_the_first_workers_may_go_once_another_has_come(lockstep, undisturbed):
    process = start(lockstep, "--min-workers", 2, workers=2)
    for victim, step in ((0, 25), (1, 80)):
        reach(lockstep, process, step)
        os.kill(workers_of(process)[victim], signal.SIGKILL)
        wait_until(lambda: f'"joined","generation":{victim + 2}' in
                   (lockstep.folder / "run" / "events.jsonl").read_text()
                   if (lockstep.folder / "run" / "events.jsonl").exists() else False)
    result, _ = check_end(lockstep, process, undisturbed)
    assert result["generation"] == 3


def test_a_worker_that_is_stopped_is_put_out_and_ended(lockstep, undisturbed):
    process = start(lockstep, "--heartbeat", 1, "--min-workers", 3)
    reach(lockstep, process, 25)
    victim = workers_of(process)[1]
    os.kill(victim, signal.SIGSTOP)
    result, errors = check_end(lockstep, process, undisturbed)
    assert result["recoveries"][0]["kind"] == "expelled"
    assert "worker 1 is put out: nothing was heard from it for 1.0 s" in errors
    assert not is_running(victim)


def test_a_worker_that_is_stopped_for_a_moment_stays(lockstep, undisturbed):
    process = start(lockstep, "--heartbeat", 20)
    reach(lockstep, process, 25)
    victim = workers_of(process)[1]
    os.kill(victim, signal.SIGSTOP)
    os.kill(victim, signal.SIGCONT)
    result, _ = check_end(lockstep, process, undisturbed)
    assert result["recoveries"] == [] and result["generation"] == 1


@pytest.mark.parametrize("point", ["report", "told"])
@pytest.mark.parametrize("workers", [2, 3])
def test_the_first_worker_may_be_lost_when_all_is_done_but_the_report(lockstep, undisturbed, point,
                                                                     workers):
    process = start(lockstep, "--heartbeat", 1, "--min-workers", workers, workers=workers,
                    env=dict(os.environ, LOCKSTEP_STOP_AT=f"0:{point}"))
    _, errors = check_end(lockstep, process, undisturbed)
    assert "nothing was heard from it for 1.0 s" in errors


def test_a_worker_that_is_killed_when_the_result_is_told_takes_nothing_from_it(lockstep,
                                                                              undisturbed):
    process = start(lockstep, workers=2, env=dict(os.environ, LOCKSTEP_STOP_AT="0:over"))
    wait_until(lambda: 0 in workers_of(process) and state_of(workers_of(process)[0]) == "T",
               seconds=LONG_ENOUGH)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    check_end(lockstep, process, undisturbed)


def test_an_error_of_the_program_ends_the_job_with_its_message(lockstep):
    outcome = lockstep.run("train", *TRAIN, "--out", "run", "--workers", 2, "--learning-rate", 1e30,
                           status=1, timeout=LONG_ENOUGH)
    assert "train: " in outcome.err and "is started" not in outcome.err.splitlines()[-1]
    assert outcome.err.splitlines()[-1].startswith("lockstep: worker "), outcome.err


def test_fail_fast_ends_the_job_with_the_first_loss(lockstep):
    process = start(lockstep, "--fail-fast")
    reach(lockstep, process, 25)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("lockstep: worker 1 was ended by signal 9"), errors


def test_all_workers_lost_at_once_end_a_job_that_may_not_begin_again(lockstep):
    process = start(lockstep, "--max-restarts", 0, workers=2)
    reach(lockstep, process, 45)
    wait_until(lambda: checkpoints_of(lockstep.folder / "run"))  # they are written beside the steps
    for pid in workers_of(process).values():
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 1
    assert "was ended by signal 9" in errors.splitlines()[-1] and "--resume" in errors, errors


def test_all_workers_lost_with_their_agent_are_no_success(lockstep):
    process = start(lockstep, "--max-restarts", 0, workers=2)
    reach(lockstep, process, 20)
    agent = next(pid for pid in descendants(process) if name_of(pid) == "lockstep-agent")
    os.kill(agent, signal.SIGKILL)
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 1 and out == ""
    assert "the agent was ended by signal 9" in errors.splitlines()[-1]


def test_workers_are_killed_again_and_again(lockstep, undisturbed):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    process = start(lockstep, "--heartbeat", 1, workers=4)
    for step in (20, 60, 110, 180):
        reach(lockstep, process, step)
        pids = [pid for pid in workers_of(process).values() if is_running(pid)]
        if len(pids) > 1:
            os.kill(draw.choice(pids), draw.choice([signal.SIGKILL, signal.SIGSTOP]))
    result, errors = check_end(lockstep, process, undisturbed)
    # Where the last one that had the state was hit too, another job counts from one again.
    assert result["generation"] > 1 or "the job begins again" in errors, errors
