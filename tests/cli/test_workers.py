# SPDX-License-Identifier: Apache-2.0
"""Several worker processes: the same bits as one, and a clear end when one of them dies."""
import os
import random
import signal

import pytest

from conftest import PROGRAM
from jobs import is_running, steps_done, wait_until, workers_of

FEW = ["--steps", 3, "--global-batch", 16, "--threads", 1]
LONG = ["--steps", 400, "--global-batch", 32, "--threads", 1, "--checkpoint-every", 20]


def shared_memory_of(pid):
    """Files in /dev/shm that a process has mapped; the kernel says of one without a name that it
    is deleted."""
    lines = open(f"/proc/{pid}/maps").read().splitlines()
    return {line[line.index("/dev/shm/"):] for line in lines if "/dev/shm/" in line}


def start(lockstep, *words):
    return lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                          "--json", "--out", "run", *LONG, *words)


def start_and_reach(lockstep, step, *words):
    process = start(lockstep, "--workers", 3, *words)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= step or process.poll() is not None)
    return process


def test_ctrl_c_stops_all_and_resume_on_other_workers_gives_the_same_bits(lockstep):
    process = start_and_reach(lockstep, 10)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume --out run --workers 3" in errors
    resumed = lockstep.train("mnist-mlp", *LONG, "--workers", 2, "--resume", "--out", "run").json
    whole = lockstep.train("mnist-mlp", *LONG, "--workers", 1, "--out", "whole").json
    assert 0 < resumed["resumed_from_step"] < 400
    assert resumed["params_sha256"] == whole["params_sha256"]


@pytest.mark.parametrize("transport", ["tcp", "ucx", "zmq"])
def test_threads_of_a_transport_take_no_signal(lockstep, transport):
    process = start_and_reach(lockstep, 5, "--transport", transport)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert "stopped after step" in errors and "--resume --out run --workers 3" in errors


@pytest.mark.parametrize("words, status, what", [
    (["--workers", 20], 2, "--workers 20 with --shards 8"),
    (["--workers", 2, "--algorithm", "rings"], 2, "algorithm 'rings'"),
    (["--workers", 2, "--seed", 4], 1, "seed was 0, now 4"),
])
def test_what_is_wrong_with_a_resume_is_told_once(lockstep, words, status, what):
    lockstep.train("mnist-mlp", *FEW, "--out", "run", status=0)
    outcome = lockstep.train("mnist-mlp", *words, "--resume", "--out", "run", status=status)
    assert what in outcome.complaint


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_worker_that_dies_ends_the_job_with_its_rank(lockstep, how):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rank = random.Random(seed).randrange(3)
    process = start_and_reach(lockstep, 25, "--fail-fast")
    workers = workers_of(process)
    assert sorted(workers) == [0, 1, 2]
    memory = shared_memory_of(workers[rank])
    assert memory and all(file.endswith(" (deleted)") for file in memory)
    os.kill(workers[rank], how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith(
        f"lockstep: worker {rank} was ended by signal {int(how)}"), errors
    assert errors.endswith(
        "; to go on: " + f"{PROGRAM} train mnist-mlp --resume --out run --workers 3 "
        "--checkpoint-every 20 --threads 1\n"), errors
    wait_until(lambda: not any(is_running(pid) for pid in workers.values()))


def test_no_worker_outlives_the_launcher(lockstep):
    process = start_and_reach(lockstep, 5)
    workers = workers_of(process)
    assert len(workers) == 3
    process.kill()
    process.communicate()
    wait_until(lambda: not any(is_running(pid) for pid in workers.values()))


def test_workers_with_other_files_are_refused(lockstep):
    for rank, word in ((0, "whale"), (1, "shark")):
        data = lockstep.folder / f"w{rank}" / "data"
        data.mkdir(parents=True)
        (data / "book.txt").write_text(f"the {word} swims. " * 1000)
    program = os.path.abspath(PROGRAM)
    command = (f"cd w$LOCKSTEP_RANK && exec {program} train char-gpt --data /proc/self/cwd/data "
               "--steps 1 --global-batch 8 --quiet --no-report --out run")
    outcome = lockstep.run("launch", "--workers", 2, "--", "sh", "-c", command, status=1)
    assert ("/proc/self/cwd/data: worker 1 has other files there than worker 0; they must be the "
            "same on all hosts") in outcome.err
    assert not (lockstep.folder / "w0" / "run").exists()


def test_a_worker_that_hangs_is_waited_for_as_long_as_told(lockstep):
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--out", "run", *LONG, "--workers", 3, "--wait", 2, "--fail-fast")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 5 or process.poll() is not None)
    os.kill(workers_of(process)[1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=50)  # less than the minute that is the default
    assert process.returncode == 1
    assert "rank 1 on " in errors and "has not done its part in time" in errors
