# SPDX-License-Identifier: Apache-2.0
"""A few schedules of signals, the same each time; and schedules on programs that have a fault, which
must be found."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from schedule import ElasticSchedule, LossOfWorker, Schedule

HERE = pathlib.Path(__file__).parent
PROGRAM = os.path.abspath(os.environ.get("LOCKSTEP", "build/bin/lockstep"))


def run(*words):
    return subprocess.run([sys.executable, HERE / "chaos.py", *map(str, words)], text=True,
                          capture_output=True, timeout=900)


def test_jobs_end_within_their_deadlines_and_leave_nothing_and_go_on_with_the_same_bits():
    done = run("--program", PROGRAM, "--seeds", 8)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jobs_that_lose_workers_end_well_with_the_same_bits():
    done = run("--program", PROGRAM, "--elastic", "--seeds", 8)
    assert done.returncode == 0, done.stdout + done.stderr


def seed_that(condition):
    return next(seed for seed in range(1, 10000) if condition(Schedule(seed, has_ssh=False)))


ASKS_LAUNCHER = seed_that(lambda one: one.is_gentle() and one.kind == "train" and one.events[0].step
                          and one.events[0].target == "launcher"
                          and one.events[0].number == signal.SIGTERM)

# Where it is done: in the job that is disturbed, which is the one with deadlines, or in the one that
# goes on; what; and what is said of it.
FAULTS = {
    "status": ("--wait", '{program} "$@" & trap "kill -TERM $!" TERM; wait; wait; exit 3',
               "ended with status 3, expected"),
    "process": ("--wait", "sleep 100 & :", "processes are left"),
    "memory": ("--wait", "touch /dev/shm/lockstep-fault", "/dev/shm: ['lockstep-fault']"),
    "file": ("--wait", "touch $TMPDIR/fault", "temporary files are left"),
    "hang": ("--wait", 'trap "" TERM; sleep 100', "still there 33.0 s after the last signal"),
    "bits": ("--resume", "{program} \"$@\" | sed 's/sha256.:..../sha256\":\"000/'; exit",
             "other parameters than the undisturbed one"),
}


# The same of jobs that lose a worker.
ELASTIC_FAULTS = {
    "bits": ("--wait", "{program} \"$@\" | sed 's/sha256.:..../sha256\":\"000/'; exit",
             "ended with status 0, and other parameters than the undisturbed run"),
    "twice": ("--wait", '{program} "$@"; head -n 3 run/metrics.jsonl >> run/metrics.jsonl; exit 0',
              "the steps that were made are"),
    "ends": ("--wait", '{program} "$@" --fail-fast; exit', "ended with status 1, expected one of [0]"),
}
LOSES_ONE = next(seed for seed in range(1, 10000) if (one := ElasticSchedule(seed, True)).recipe == "mnist-mlp"
                 and one.kind == "train" and len(one.events) == 1 and type(one.events[0]) is LossOfWorker
                 and not one.environment and "--kvstore" not in one.more)


def program_with(folder, where, text):
    program = folder / "lockstep"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{where}*) {text.format(program=PROGRAM)};; esac\n'
                       f'exec {PROGRAM} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("fault", ELASTIC_FAULTS)
def test_a_fault_of_a_job_that_loses_a_worker_is_found(tmp_path, fault):
    where, text, complaint = ELASTIC_FAULTS[fault]
    done = run("--program", program_with(tmp_path, where, text), "--elastic", "--seed", LOSES_ONE)
    assert done.returncode == 1 and complaint in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(tmp_path, fault):
    where, text, complaint = FAULTS[fault]
    program = program_with(tmp_path, where, text)
    done = run("--program", program, "--seed", ASKS_LAUNCHER, "--margin", 5)
    assert done.returncode == 1 and complaint in done.stdout, done.stdout + done.stderr
    assert f"again: make chaos SEED={ASKS_LAUNCHER}" in done.stdout
    if os.path.exists("/dev/shm/lockstep-fault"):
        os.unlink("/dev/shm/lockstep-fault")
