# SPDX-License-Identifier: Apache-2.0
"""Workers that come to a job that is under way and leave it, by command, by signal or by themselves:
it ends with the bits of a job that nobody disturbed."""
import json
import os
import signal
import stat
import threading

import pytest

from conftest import Lockstep
from jobs import checkpoints_of, end, is_running, steps_done, wait_until, workers_of

STEPS = 3000
TRAIN = ["mnist-mlp", "--data", "synthetic", "--steps", STEPS, "--global-batch", 32, "--threads", 1,
         "--quiet", "--no-report", "--json", "--checkpoint-every", 100, "--eval-every", 1000]
LONG_ENOUGH = 300


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return Lockstep(folder).run("train", *TRAIN, "--out", "run", status=0, timeout=LONG_ENOUGH).json


def start(lockstep, *words, workers=2, step=20, **settings):
    process = lockstep.start("train", *TRAIN, "--out", "run", "--workers", workers, *words,
                             **settings)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= step or process.poll() is not None,
               LONG_ENOUGH)
    assert process.poll() is None, process.communicate()
    return process


def events_of(lockstep, kind):
    lines = open(lockstep.folder / "run" / "events.jsonl")
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def result_of(process, undisturbed):
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == undisturbed["params_sha256"], errors
    assert result["train_loss"] == undisturbed["train_loss"]
    assert result["steps_lost"] == 0
    return result, errors


def test_a_job_gets_more_workers_and_fewer(lockstep, undisturbed):
    process = start(lockstep)
    assert lockstep.run("scale", "run", 4, status=0, timeout=LONG_ENOUGH).out.startswith(
        "4 workers in generation")
    assert len(workers_of(process)) == 4
    assert lockstep.run("scale", "run", 1, status=0, timeout=LONG_ENOUGH).out.startswith(
        "1 worker in generation")
    _, errors = result_of(process, undisturbed)
    assert {event["member"] for event in events_of(lockstep, "joined")} == {2, 3}
    assert {event["member"] for event in events_of(lockstep, "left")} == {1, 2, 3}
    assert not events_of(lockstep, "lost") and not events_of(lockstep, "expelled")
    assert "the job is to have 4 workers" in errors


def test_a_worker_leaves_when_it_is_told_to(lockstep, undisturbed):
    process = start(lockstep, workers=3)
    victim = workers_of(process)[0]
    lockstep.run("leave", "run", "--worker", 0, status=0, timeout=LONG_ENOUGH)
    wait_until(lambda: not is_running(victim))
    result_of(process, undisturbed)
    assert [event["member"] for event in events_of(lockstep, "left")] == [0]
    assert not events_of(lockstep, "joined")


@pytest.mark.parametrize("rank", [0, 1])
def test_sigterm_to_one_worker_lets_it_leave_and_the_others_go_on(lockstep, undisturbed, rank):
    process = start(lockstep, workers=2)
    os.kill(workers_of(process)[rank], signal.SIGTERM)
    result, errors = result_of(process, undisturbed)
    assert f"worker {rank} has left" in errors
    assert [event["member"] for event in events_of(lockstep, "left")] == [rank]
    assert result["generation"] == 2


def test_sigterm_to_the_last_worker_stops_the_job_with_a_checkpoint(lockstep):
    process = start(lockstep, workers=2)
    lockstep.run("leave", "run", "--worker", 1, status=0, timeout=LONG_ENOUGH)
    os.kill(workers_of(process)[0], signal.SIGTERM)
    _, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 143, errors
    assert "to go on: " in errors and checkpoints_of(lockstep.folder / "run")


@pytest.mark.parametrize("how", ["folder", "address"])
def test_a_worker_of_another_terminal_joins_and_ends_with_the_job(lockstep, undisturbed, how):
    process = start(lockstep)
    control = json.load(open(lockstep.folder / "run" / "control.json"))
    if how == "folder":
        guest = lockstep.start("join", "run", "--threads", 1)
    else:
        guest = lockstep.start("join", control["coordinator"], "--threads", 1,
                               env=dict(os.environ, LOCKSTEP_SECRET=control["secret"]))
    result, errors = result_of(process, undisturbed)
    _, said = guest.communicate(timeout=LONG_ENOUGH)
    assert guest.returncode == 0, said
    assert [event["member"] for event in events_of(lockstep, "joined")] == [2], errors
    assert result["recoveries"][-1]["workers"] == 3


# By default it would have another transport, and shards of its own.
def test_a_guest_connects_and_deals_as_the_others_do(lockstep, undisturbed):
    process = start(lockstep, "--transport", "zmq", "--deal", "fixed:6,2")
    guest = lockstep.start("join", "run", "--threads", 1)
    result_of(process, undisturbed)
    assert guest.wait(timeout=LONG_ENOUGH) == 0, guest.communicate()
    assert [event["member"] for event in events_of(lockstep, "joined")] == [2]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_guest_takes_part_in_a_deal_by_speed(lockstep, undisturbed, rank):
    process = start(lockstep, "--deal", "speed")
    guest = lockstep.start("join", "run", "--threads", 1)
    wait_until(lambda: (lockstep.folder / "run" / "events.jsonl").exists()
               and events_of(lockstep, "joined"), LONG_ENOUGH)
    slow = DutyCycle(workers_of(process)[rank], on=0.01, off=0.02)
    result_of(process, undisturbed)
    slow.end()
    assert guest.wait(timeout=LONG_ENOUGH) == 0, guest.communicate()


def test_a_guest_that_is_asked_to_end_leaves_the_job_to_the_others(lockstep, undisturbed):
    process = start(lockstep)
    guest = lockstep.start("join", "run", "--threads", 1)
    wait_until(lambda: (lockstep.folder / "run" / "events.jsonl").exists()
               and events_of(lockstep, "joined"), LONG_ENOUGH)
    guest.send_signal(signal.SIGINT)
    assert guest.wait(timeout=LONG_ENOUGH) == 0
    result_of(process, undisturbed)
    assert [event["member"] for event in events_of(lockstep, "left")] == [2]


def test_only_the_owner_reads_what_controls_a_job_and_it_goes_with_the_job(lockstep, undisturbed):
    process = start(lockstep)
    control = lockstep.folder / "run" / "control.json"
    assert stat.S_IMODE(os.stat(control).st_mode) == 0o600
    result_of(process, undisturbed)
    assert not control.exists()
    outcome = lockstep.run("scale", "run", 2, status=1)
    assert outcome.err.startswith("lockstep: scale: 'run' has no control.json"), outcome.err


@pytest.mark.parametrize("text", ["garbage", "{}", '{"coordinator": "x", "secret": "y"}'])
@pytest.mark.parametrize("words", [("scale", "run", 2), ("leave", "run", "--worker", 1),
                                   ("join", "run"), ("attach", "run")])
def test_what_controls_no_job_is_named(lockstep, text, words):
    (lockstep.folder / "run").mkdir()
    (lockstep.folder / "run" / "control.json").write_text(text)
    outcome = lockstep.run(*words, status=1)
    assert f"{words[0]}: run/control.json: it is not what a job writes there" in outcome.complaint


def test_what_a_job_cannot_do_is_said_in_one_line(lockstep):
    process = start(lockstep)
    assert "scale: 9 workers, expected 1 to 8" in lockstep.run("scale", "run", 9, status=1).err
    assert "leave: there is no worker 7; there are 0, 1" in lockstep.run(
        "leave", "run", "--worker", 7, status=1).err
    lockstep.run("leave", "run", "--worker", 1, status=0, timeout=LONG_ENOUGH)
    assert "leave: worker 0 is the only one" in lockstep.run(
        "leave", "run", "--worker", 0, status=1).err
    assert "join: 127.0.0.1:1: the job's secret is missing" in lockstep.run(
        "join", "127.0.0.1:1", status=1).err
    assert "'nothing' is no run folder, nor HOST:PORT" in lockstep.run(
        "scale", "nothing", 2, status=1).err
    end(process)


def test_all_workers_lost_at_once_begin_again_from_the_newest_checkpoint(lockstep, undisturbed):
    process = start(lockstep, step=250)
    wait_until(lambda: checkpoints_of(lockstep.folder / "run"))  # they are written beside the steps
    for pid in workers_of(process).values():
        os.kill(pid, signal.SIGKILL)
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == undisturbed["params_sha256"], errors
    assert result["resumed_from_step"] > 0
    assert "all workers that had the state are lost: the job begins again" in errors


def test_a_worker_that_holds_up_the_others_is_named_and_put_out(lockstep, undisturbed):
    process = start(lockstep, "--heartbeat", 100, "--stall-timeout", 1, workers=3)
    victim = workers_of(process)[1]
    os.kill(victim, signal.SIGSTOP)
    _, errors = result_of(process, undisturbed)
    assert "worker 1 is put out: nothing has moved for 1.0 s: worker " in errors, errors
    assert " waits for it in " in errors
    assert not is_running(victim)


@pytest.mark.parametrize("servers", [[], ["--kvstore", "ps_sync", "--servers", 2]],
                         ids=["allreduce", "servers"])
def test_shards_are_dealt_as_they_are_told_to_be(lockstep, undisturbed, servers):
    process = start(lockstep, "--deal", "fixed:1,5,2", *servers, workers=3)
    result, _ = result_of(process, undisturbed)
    assert result["deal"] == [1, 5, 2]
    for wrong in ("fixed:4,5", "fixed:1,5,1", "fixed:0,6,2", "fixed:", "fastest"):
        outcome = lockstep.run("train", *TRAIN, "--workers", 3, "--deal", wrong, status=2)
        assert "--deal" in outcome.err.splitlines()[0], outcome.err


class DutyCycle:
    """Lets a process run a part of the time only."""

    def __init__(self, pid, on, off):
        self.pid, self.on, self.off, self.over = pid, on, off, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            for number, pause in ((signal.SIGSTOP, self.off), (signal.SIGCONT, self.on)):
                try:
                    os.kill(self.pid, number)
                except ProcessLookupError:
                    return
                self.over.wait(pause)

    def end(self):
        self.over.set()
        self.thread.join()


# Which shares it has at the end depends on what else the machine does.
@pytest.mark.parametrize("servers", [[], ["--kvstore", "ps_sync", "--servers", 1]],
                         ids=["allreduce", "servers"])
def test_shards_are_dealt_again_where_a_worker_is_slow(lockstep, undisturbed, servers):
    process = start(lockstep, "--deal", "speed", *servers, workers=2)
    slow = DutyCycle(workers_of(process)[1], on=0.005, off=0.02)
    result, _ = result_of(process, undisturbed)
    slow.end()
    assert result["deals"] > 0 and sum(result["deal"]) == 8


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be shared out")
def test_a_replaced_worker_has_the_cores_of_the_one_before_it(lockstep, undisturbed):
    process = start(lockstep, "--bind", "core", "--min-workers", 2)
    before = {rank: os.sched_getaffinity(pid) for rank, pid in workers_of(process).items()}
    assert before[0] != before[1]
    os.kill(workers_of(process)[1], signal.SIGKILL)
    wait_until(lambda: 2 in workers_of(process), LONG_ENOUGH)
    assert os.sched_getaffinity(workers_of(process)[2]) == before[1]
    result_of(process, undisturbed)


def test_a_worker_that_fails_by_itself_is_replaced(lockstep, undisturbed):
    for how in ("exit", "throw"):
        process = lockstep.start("train", *TRAIN, "--workers", 2, "--out", f"run-{how}",
                                 env=dict(os.environ, LOCKSTEP_FAIL_AT=f"1:50:{how}"))
        _, errors = result_of(process, undisturbed)
        assert "worker 1 ended with status " in errors and "worker 2 is started" in errors, errors


def test_a_job_whose_workers_all_fail_ends_at_once_and_says_why(lockstep):
    """Each worker that comes finds a job that has failed, or one that fails the same way."""
    outcome = lockstep.run("train", *TRAIN, "--out", "run", "--workers", 3, "--learning-rate", 1e30,
                           status=1, timeout=90)
    assert "is not finite" in outcome.err or "the loss is nan" in outcome.err, outcome.err
    assert "the job is over" in outcome.err.splitlines()[-1], outcome.err
