# SPDX-License-Identifier: Apache-2.0
"""Signals and waits: whoever is asked to stop first, the job stops with a checkpoint, within the
grace period; whoever hangs is waited for as long as the user says, wherever it hangs."""
import os
import signal
import socket
import subprocess

import pytest

from conftest import PROGRAM
from jobs import (checkpoints_of, descendants, environment, is_running, name_of, steps_done,
                  wait_until, workers_of)

LESS_THAN_A_MINUTE = 50  # which is how long the program waits where nobody says otherwise
TRAIN = ["mnist-mlp", "--data", "synthetic", "--global-batch", 32, "--threads", 1, "--quiet",
         "--no-report", "--out", "run"]
LONG = [*TRAIN, "--steps", 100000, "--checkpoint-every", 50000]


def shell(text):
    return ["sh", "-c", text]


def named(process, name):
    return [pid for pid in descendants(process) if name_of(pid) == name]


def last_line(errors):
    return errors.strip().splitlines()[-1]


def start_training(lockstep, *words, launch=("launch", "--workers", 2, "--", PROGRAM)):
    process = lockstep.start(*launch, "train", *LONG, *words)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def send_to_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def assert_stopped_with_checkpoint(process, lockstep, *statuses):
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode in statuses, errors
    assert "stopped after step" in errors and "to go on: " in errors, errors
    assert "was lost" not in errors and len(checkpoints_of(lockstep.folder / "run")) == 1, errors


# Who is asked to stop.

WHO = {"the launcher": lambda process: [process.pid],
       "an agent": lambda process: named(process, "lockstep-agent"),
       "a worker": lambda process: [workers_of(process)[1]],
       "the first worker": lambda process: [workers_of(process)[0]],
       "all at once": lambda process: [process.pid, *descendants(process)],
       "all from below": lambda process: [*reversed(descendants(process)), process.pid]}


ONE_LEAVES = ("a worker", "the first worker")  # alone, and the others go on: test_scale.py


@pytest.mark.parametrize("who, number",
                         [(who, number) for who in WHO
                          for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
                          if number != signal.SIGTERM or who not in ONE_LEAVES])
def test_whoever_is_asked_first_the_job_stops_with_a_checkpoint(lockstep, who, number):
    process = start_training(lockstep)
    send_to_all(WHO[who](process), number)
    assert_stopped_with_checkpoint(process, lockstep, 128 + number)


def test_a_session_that_ends_sends_two_signals_to_everybody(lockstep):
    process = start_training(lockstep)
    everybody = [process.pid, *descendants(process)]
    send_to_all(everybody, signal.SIGTERM)
    send_to_all(everybody, signal.SIGHUP)
    # Of two that wait together, the system hands out the lower number first.
    assert_stopped_with_checkpoint(process, lockstep, 143, 129)


def test_a_single_process_takes_a_closed_terminal_as_a_wish_to_stop(lockstep):
    process = start_training(lockstep, launch=())
    process.send_signal(signal.SIGHUP)
    assert_stopped_with_checkpoint(process, lockstep, 129)


def test_a_worker_that_was_stopped_goes_on_to_write_its_checkpoint(lockstep):
    process = start_training(lockstep)
    os.kill(workers_of(process)[1], signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    assert_stopped_with_checkpoint(process, lockstep, 143)


def test_an_agent_that_was_stopped_goes_on_to_stop_its_workers(lockstep):
    process = start_training(lockstep)
    os.kill(named(process, "lockstep-agent")[0], signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    assert_stopped_with_checkpoint(process, lockstep, 143)


# A job that is asked to stop is gone within the grace period.

@pytest.mark.parametrize("others", ["exec sleep 1000", "trap '' TERM; while :; do sleep 1; done"])
def test_one_sigterm_ends_a_job_one_of_whose_workers_does_not_stop(lockstep, others):
    process = lockstep.start("launch", "--workers", 2, "--grace", 2, "--", *shell(
        f"test $LOCKSTEP_RANK = 1 || {{ touch ready0; {others}; }}; trap '' TERM; touch ready1; "
        "while :; do sleep 1; done"))
    wait_until(lambda: all((lockstep.folder / f"ready{rank}").exists() for rank in (0, 1)))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode == 143, errors
    assert "did not end within 2.0 s, and was killed" in last_line(errors), errors


def test_one_sigterm_ends_a_training_one_of_whose_workers_hangs(lockstep):
    environment = dict(os.environ, LOCKSTEP_STOP_AT="1:end")
    process = subprocess.Popen([PROGRAM, "train", *map(str, LONG), "--workers", "2", "--grace", "2"],
                               cwd=lockstep.folder, text=True, stderr=subprocess.PIPE,
                               env=environment)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode == 143, errors
    assert "stopped after step" in errors and "worker 1 was lost: somebody stopped it" in last_line(errors), errors


# The status of a stop, from the first moment on.

@pytest.mark.parametrize("words", [
    ["train", *LONG], ["train", *LONG, "--workers", 2], ["launch", "--workers", 2, "--", "sleep", 99],
    ["launch", "--hosts", "nowhere", "--ssh", "./slow_ssh", "--", "true"],
    ["bench", "step"], ["doctor", "--hosts", "nowhere", "--ssh", "./slow_ssh"]], ids=lambda words: " ".join(map(str, words[:3])))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_status_of_a_stop_is_the_signals_from_the_first_moment_on(lockstep, words, number):
    slow = lockstep.folder / "slow_ssh"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    process = lockstep.start(*words)
    handled = 1 << (number - 1)

    def is_handled():  # caught, or blocked to be taken from a queue: the program itself is running
        lines = open(f"/proc/{process.pid}/status").read().splitlines()
        masks = dict(line.split(":", 1) for line in lines if line.startswith("Sig"))
        return int(masks["SigCgt"], 16) & handled or int(masks["SigBlk"], 16) & handled
    wait_until(lambda: process.poll() is not None or is_handled())
    process.send_signal(number)
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode == 128 + number, errors


# Whoever hangs is waited for as long as the user says.

@pytest.mark.parametrize("point", ["meet", "connect", "connected", "folder", "data", "compare", "run",
                                   "fit", "first step", "step"])
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_worker_that_hangs_is_named_wherever_it_hangs(lockstep, point, transport):
    environment = dict(os.environ, LOCKSTEP_STOP_AT=f"1:{point}")
    outcome = lockstep.run("train", *TRAIN, "--steps", 100, "--workers", 3, "--wait", 2,
                           "--transport", transport, "--fail-fast", status=1, env=environment,
                           timeout=LESS_THAN_A_MINUTE)
    last = last_line(outcome.err)
    assert last.startswith("lockstep: worker 1 was lost: somebody stopped it"), outcome.err


@pytest.mark.parametrize("point", ["folder", "data", "compare", "fit"])
def test_a_worker_that_hangs_is_named_in_a_resumed_run_too(lockstep, point):
    lockstep.run("train", *TRAIN, "--steps", 5, status=0)
    outcome = lockstep.run("train", *TRAIN, "--steps", 5, "--workers", 2, "--wait", 2, "--resume",
                           status=1, env=dict(os.environ, LOCKSTEP_STOP_AT=f"1:{point}"),
                           timeout=LESS_THAN_A_MINUTE)
    assert last_line(outcome.err).startswith("lockstep: worker 1 was lost"), outcome.err


def train_in_folders(lockstep, *words):
    """Each worker in a folder of its own, with the data that is there."""
    command = (f"cd w$LOCKSTEP_RANK && exec {os.path.abspath(PROGRAM)} train char-gpt --data "
               "/proc/self/cwd/data --steps 1 --global-batch 8 --quiet --no-report --out run "
               "--wait 2")
    for rank in range(3):
        (lockstep.folder / f"w{rank}" / "data").mkdir(parents=True)
        (lockstep.folder / f"w{rank}" / "data" / "book.txt").write_text("the whale swims. " * 1000)
    return ["launch", "--workers", 3, *words, "--", *shell(command)]


def test_a_worker_whose_file_does_not_answer_is_named(lockstep):
    words = train_in_folders(lockstep, "--grace", 1)
    book = lockstep.folder / "w1" / "data" / "book.txt"
    book.unlink()
    os.mkfifo(book)  # to open it for reading takes somebody who writes
    outcome = lockstep.run(*words, status=1, timeout=LESS_THAN_A_MINUTE)
    assert "lockstep: worker 1 is missed by worker " in last_line(outcome.err), outcome.err
    assert "worker 1 has used no processor time for 2.0 s" in last_line(outcome.err), outcome.err


def test_workers_that_are_all_stopped_end_the_job(lockstep):
    process = start_training(lockstep, "--fail-fast",
                             launch=("launch", "--workers", 2, "--timeout", 5, "--", PROGRAM))
    for pid in workers_of(process).values():
        os.kill(pid, signal.SIGSTOP)
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode == 1
    assert "somebody stopped it (SIGSTOP), and it did not go on for 5.0 s" in last_line(errors), errors


# Processes have names, and are missed when they are killed.

def test_launcher_agent_and_reaper_have_titles_of_their_own(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", "sleep", 1000)
    wait_until(lambda: len(workers_of(process)) == 2)
    assert name_of(process.pid) == "lockstep-launch"
    titles = sorted(open(f"/proc/{pid}/cmdline").read().strip("\0") for name in
                    ("lockstep-agent", "lockstep-reaper") for pid in named(process, name))
    assert titles == ["lockstep agent", "lockstep reaper"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LESS_THAN_A_MINUTE) == 143
    process.communicate()


def test_a_reaper_that_is_killed_is_noticed_and_replaced(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell("setsid sleep 1000 & wait"))
    wait_until(lambda: len(named(process, "sleep")) == 2)
    sleeps, (reaper,) = named(process, "sleep"), named(process, "lockstep-reaper")
    os.kill(reaper, signal.SIGKILL)
    wait_until(lambda: len(named(process, "lockstep-reaper")) == 1
               and named(process, "lockstep-reaper") != [reaper])
    os.kill(named(process, "lockstep-agent")[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert "the reaper beside the agent was ended by signal 9; there is another one" in errors
    wait_until(lambda: not any(is_running(pid) for pid in sleeps))


def test_a_reaper_that_is_stopped_is_not_left(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", "sleep", 1000)
    wait_until(lambda: len(workers_of(process)) == 2)
    (reaper,), (agent,) = named(process, "lockstep-reaper"), named(process, "lockstep-agent")
    os.kill(reaper, signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    process.communicate(timeout=LESS_THAN_A_MINUTE)
    wait_until(lambda: not is_running(reaper))


# What a job leaves.

def shared_files_of(pid):
    lines = open(f"/proc/{pid}/maps").read().splitlines()
    return [line[line.index("/dev/shm/"):] for line in lines if "/dev/shm/" in line]


@pytest.mark.parametrize("victims", ["worker", "agent", "launcher"])
def test_files_of_a_transport_go_with_the_job_whoever_is_killed(lockstep, victims):
    process = start_training(lockstep, "--fail-fast",
                             launch=("launch", "--workers", 2, "--transport", "ucx", "--", PROGRAM))
    pid = workers_of(process)[1]
    folder = environment(pid)["LOCKSTEP_SCRATCH"]
    files = [file for file in shared_files_of(pid) if "ucx" in file]
    if not files:
        pytest.skip("UCX is not there, or has no shared memory")
    assert all(file.startswith(folder) for file in files), files
    open(os.path.join(folder, "ucx_shm_posix_1"), "w").close()  # as UCX has it for a moment
    os.kill({"worker": pid, "agent": named(process, "lockstep-agent")[0],
             "launcher": process.pid}[victims], signal.SIGKILL)
    process.communicate(timeout=LESS_THAN_A_MINUTE)
    wait_until(lambda: not os.path.exists(folder))


# Who is named.

def test_refused_connections_are_logged_once_with_their_source(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell(
        "echo $LOCKSTEP_COORDINATOR > place$LOCKSTEP_RANK; while ! test -e go; do sleep 0.1; done"))
    wait_until(lambda: (lockstep.folder / "place0").exists()
               and (lockstep.folder / "place0").read_text().endswith("\n"))
    host, port = (lockstep.folder / "place0").read_text().strip().rsplit(":", 1)
    for _ in range(20):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 40)
            stranger.settimeout(20)
            try:
                while stranger.recv(1000):
                    pass
            except ConnectionResetError:
                pass
    (lockstep.folder / "go").touch()
    _, errors = process.communicate(timeout=LESS_THAN_A_MINUTE)
    assert process.returncode == 0
    lines = [line for line in errors.splitlines() if "refused" in line]
    assert len(lines) == 2 and "a connection was refused: 127.0.0.1:" in lines[0], errors
    assert "20 connections were refused: 127.0.0.1 (20)" in lines[1], errors


def test_the_last_line_names_who_is_at_fault_and_not_who_noticed(lockstep):
    words = train_in_folders(lockstep)
    (lockstep.folder / "w2" / "data" / "book.txt").unlink()
    outcome = lockstep.run(*words, status=1, timeout=LESS_THAN_A_MINUTE)
    assert "worker 2 gave up: " in outcome.err, outcome.err
    assert last_line(outcome.err).startswith("lockstep: worker 2 "), outcome.err
