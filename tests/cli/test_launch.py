# SPDX-License-Identifier: Apache-2.0
"""lockstep launch, on this machine."""
import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import termios
import time

import pytest

from conftest import PROGRAM, ROLES, SHOW_ROLE
from jobs import descendants, is_running, parents, steps_done, wait_until, workers_of
from launched import FEW, LONG, last_line, said_by, shell


def test_workers_learn_their_place_and_the_first_has_the_output(lockstep):
    outcome = lockstep.run("launch", "--workers", 3, "--", *shell(
        "echo out $LOCKSTEP_RANK of $LOCKSTEP_WORKERS; echo err $LOCKSTEP_RANK >&2"), status=0)
    assert outcome.out == "out 0 of 3\n"
    lines = outcome.err.splitlines()
    assert sorted(lines) == ["[1] err 1", "[1] out 1 of 3", "[2] err 2", "[2] out 2 of 3", "err 0"]


def test_a_program_learns_whether_it_is_a_worker_or_a_server(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--servers", 1, "--", SHOW_ROLE, status=0)
    assert said_by(outcome) == ROLES
    assert outcome.out.startswith("worker 0 ") and "[server 0] server 0 of 1" in outcome.err


def test_a_server_that_fails_is_named(lockstep):
    fails = shell("[ $LOCKSTEP_ROLE = worker ] || { echo broken >&2; exit 3; }; exec sleep 60")
    outcome = lockstep.run("launch", "--workers", 2, "--servers", 2, "--grace", 1, "--", *fails,
                           status=1)
    assert re.search(r"lockstep: server [01] ended with status 3; the job is over", outcome.err)


def test_the_first_worker_reads_our_standard_input(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", "cat", status=0, input="words\n")
    assert outcome.out == "words\n"


def test_the_secret_is_on_no_command_line(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell(
        'printenv LOCKSTEP_SECRET > secret$LOCKSTEP_RANK; cat /proc/[0-9]*/cmdline 2>/dev/null | '
        'tr "\\0" "\\n" | grep -c -F -f secret$LOCKSTEP_RANK; true'), status=0)
    assert len((lockstep.folder / "secret0").read_text()) > 32
    assert outcome.out.strip() == "0"


def test_workers_with_different_transports_are_told_so(lockstep):
    words = " ".join(map(str, FEW))
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell(
        f"test $LOCKSTEP_RANK = 0 || more=--secure; exec {PROGRAM} train mnist-mlp {words} $more"),
        status=1, timeout=60)
    assert "transport: rank 1 (" in outcome.err and "has zmq, rank 0 (" in outcome.err, outcome.err
    assert "has auto: all members need the same" in outcome.err


def test_a_failing_worker_is_named_with_its_last_lines_not_those_that_are_ended_then(lockstep):
    outcome = lockstep.run("launch", "--workers", 3, "--", *shell(
        'test $LOCKSTEP_RANK = 1 || exec sleep 100; echo trouble >&2; exit 7'), status=1, timeout=60)
    assert outcome.err.endswith("worker 1 said last:\n[1] trouble\n"
                                "lockstep: worker 1 ended with status 7; the job is over\n")


def test_what_a_worker_started_itself_goes_with_the_job(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell("sleep 1000 & echo $! >&2"),
                           status=0, timeout=60)
    pids = [int(line.split()[-1]) for line in outcome.err.splitlines()]
    assert len(pids) == 2
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_what_a_worker_put_into_a_session_of_its_own_goes_with_the_job(lockstep):
    lockstep.run("launch", "--workers", 2, "--", *shell(
        "setsid sh -c 'sleep 1000 & echo $$ $! > new$LOCKSTEP_RANK; mv new$LOCKSTEP_RANK pids$LOCKSTEP_RANK; wait' & "
        "while [ ! -e pids$LOCKSTEP_RANK ]; do sleep 0.02; done"), status=0, timeout=60)
    pids = [int(pid) for rank in range(2)
            for pid in (lockstep.folder / f"pids{rank}").read_text().split()]
    left = [pid for pid in pids if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 4 and not left


def tree_of(process, size):
    wait_until(lambda: len(descendants(process)) == size)
    return descendants(process)


def test_killing_the_agent_leaves_nothing_not_even_behind_a_shell(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell("sleep 1000; true"))
    pids = tree_of(process, 6)
    os.kill(next(pid for pid in pids if parents()[pid] == process.pid), signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert last_line(errors).startswith(
        "lockstep: worker 0 was lost: the agent was ended by signal 9"), errors
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_killing_the_agent_leaves_nothing_in_a_session_of_its_own(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell("setsid sleep 1000 & wait"))
    pids = tree_of(process, 6)
    os.kill(next(pid for pid in pids if parents()[pid] == process.pid), signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_killing_the_launcher_leaves_nothing_not_even_behind_a_shell(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell("sleep 1000; true"))
    pids = tree_of(process, 6)  # an agent, its keeper, two shells, two sleeps
    process.kill()
    process.communicate()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_ctrl_c_goes_to_all_and_a_second_one_kills(lockstep):
    stubborn = shell('trap "touch asked$LOCKSTEP_RANK" INT; touch ready$LOCKSTEP_RANK; '
                     'while :; do sleep 0.05; done')
    process = lockstep.start("launch", "--workers", 2, "--", *stubborn)

    def are_there(name):
        return all((lockstep.folder / f"{name}{rank}").exists() for rank in range(2))
    wait_until(lambda: are_there("ready"))
    process.send_signal(signal.SIGINT)
    wait_until(lambda: are_there("asked"))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "the job is over" not in errors


def test_one_ctrl_c_ends_programs_that_know_nothing_of_it(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", "sleep", 1000)
    wait_until(lambda: len(workers_of(process)) == 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors


DEAF_AGENT = """#!/usr/bin/env python3
import os, struct, subprocess, time
text = lambda word: struct.pack("<q", len(word)) + word
frame = lambda kind, fields=b"": text(kind + fields)
version = subprocess.check_output([os.environ["PROGRAM"], "--version"]).split()[-1]
os.write(1, b"\\nlockstep agent 1\\n" + frame(b"H", text(version) + text(b"127.0.0.1")))
open("ready", "w").close()
while True:
    os.write(1, frame(b"A"))
    time.sleep(0.5)
"""


def test_an_agent_that_hangs_cannot_keep_the_launcher(lockstep, monkeypatch):
    monkeypatch.setenv("PROGRAM", os.path.abspath(PROGRAM))
    deaf = lockstep.folder / "deaf"
    deaf.write_text(DEAF_AGENT)
    deaf.chmod(0o755)
    process = lockstep.start("launch", "--hosts", "somewhere:1", "--ssh", "./deaf", "--grace", 1,
                             "--", "sleep", 1000)
    wait_until(lambda: (lockstep.folder / "ready").exists())
    pids = descendants(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_a_worker_that_never_stops_talking_is_stopped(lockstep):
    endless = shell("test $LOCKSTEP_RANK = 0 || exec yes; exec sleep 1000")
    with open(os.devnull, "w") as nothing:
        process = subprocess.Popen([PROGRAM, "launch", "--workers", "2", "--", *endless],
                                   stdout=nothing, stderr=nothing)
    wait_until(lambda: len(workers_of(process)) == 2)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


def test_a_line_without_end_is_cut(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell(
        "test $LOCKSTEP_RANK = 0 || head -c 200000 /dev/zero | tr '\\0' x"), status=0)
    lines = outcome.err.splitlines()
    assert len(lines) > 1 and sum(line.count("x") for line in lines) == 200000


def test_a_terminal_that_closes_ends_the_job(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", PROGRAM, "train", "mnist-mlp", *LONG)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 1 or process.poll() is not None)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129, errors


@pytest.mark.parametrize("usual", [True, False])
def test_errors_that_cannot_be_written_do_not_end_the_job(lockstep, usual):
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.run([PROGRAM, "launch", "--workers", "2", "--",
                              *shell("test $LOCKSTEP_RANK = 0 || echo words")],
                             stderr=theirs, restore_signals=usual, timeout=30)
    os.close(theirs)
    assert process.returncode == 0


def test_nohup_is_respected(lockstep):
    process = subprocess.Popen(["nohup", PROGRAM, "launch", "--workers", "2", "--", "sleep", "2"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(workers_of(process)) == 2)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=30) == 0


def test_signals_that_whoever_started_us_ignored(lockstep):
    process = subprocess.run([PROGRAM, "launch", "--workers", "2", "--", "true"], timeout=30,
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert process.returncode == 0


def test_standard_streams_that_are_closed(lockstep):
    words = shell("touch done$LOCKSTEP_RANK; echo out; echo err >&2; true")
    process = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", PROGRAM, "launch", "--workers", "2", "--",
         *words], timeout=30, cwd=lockstep.folder)
    assert process.returncode == 0
    assert all((lockstep.folder / f"done{rank}").exists() for rank in range(2))


def test_a_worker_that_wants_the_terminal_is_not_stopped(lockstep):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "launch", "--workers", "2", "--",
         *shell("test $LOCKSTEP_RANK != 0 || { stty -echo; cat; touch done; }; true")],
        cwd=lockstep.folder, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    assert process.wait(timeout=30) == 0
    os.close(ours)
    assert (lockstep.folder / "done").exists()


def test_a_given_coordinator_is_where_a_job_of_one_machine_meets(lockstep):
    job = lockstep.run("launch", "--workers", 2, "--coordinator", "127.0.0.3", "--", PROGRAM,
                       "train", "mnist-mlp", *FEW)
    assert job.status == 0, job.err


@pytest.mark.parametrize("words, complaint", [
    (["--workers", 2], "launch: no program was named: lockstep launch [OPTIONS] -- PROGRAM ..."),
    (["--hosts", "a:0", "--", "true"],
     "hosts: 'a:0': got '0' workers, expected a number from 1 to 4096"),
    (["--hosts", "a,a", "--", "true"],
     "hosts: a is named twice; give it more workers instead: a:2"),
    (["--hosts", "-oProxyCommand=x", "--", "true"],
     "hosts: '-oProxyCommand=x': '-oProxyCommand=x' is no host's name"),
    (["--env", "LOCKSTEP_NO_SUCH_THING", "--", "true"],
     "--env LOCKSTEP_NO_SUCH_THING: is not set here"),
])
def test_wrong_usage_is_one_line(lockstep, words, complaint):
    assert lockstep.run("launch", *words, status=2).complaint == "lockstep: " + complaint


@pytest.mark.parametrize("words, complaint", [
    (["--workers", 0], "lockstep: --workers: "),
    (["--timeout", -5], "lockstep: --timeout: got -5, expected a number above 0"),
    (["--timeout", "inf"], "lockstep: --timeout: got inf, expected a number above 0, at most 1000000"),
    (["--timeout", "1e30"], "lockstep: --timeout: got 1e30, expected a number above 0, at most"),
    (["--timeout", "nan"], "lockstep: --timeout: got nan, expected a number above 0, at most"),
    (["--wrkers", 2], "lockstep: unknown argument '--wrkers'; did you mean --workers?"),
])
def test_a_wrong_option_before_a_program_is_named(lockstep, words, complaint):
    outcome = lockstep.run("launch", *words, "--", "echo", "a", "--workers", status=2)
    assert outcome.complaint.startswith(complaint)


def launched_by(lockstep, *words):
    return lockstep.run("launch", *words, "printenv", "LOCKSTEP_LAUNCHED_BY", status=0).out


def test_workers_know_how_they_were_launched_but_no_values_of_variables(lockstep):
    assert launched_by(lockstep, "--workers", 1) == f"{PROGRAM} launch --workers 1 --\n"
    words = ["--env", "SECRET=one", "--env=OTHER=two=2", "--folder", "."]
    assert launched_by(lockstep, *words, "--") == (
        f"{PROGRAM} launch --env SECRET --env=OTHER --folder . --\n")


def test_a_launchers_long_words_do_not_keep_a_job_from_starting(lockstep):
    words = ["--ssh", "a" * 70000, "--remote-program", "b" * 70000]
    assert launched_by(lockstep, *words, "--") == "\n"


def test_options_of_the_launcher_after_the_program_are_refused(lockstep):
    outcome = lockstep.run("launch", "--workers", 1, "echo", "words", "--timeout", 3, status=2)
    assert outcome.complaint.startswith(
        "lockstep: launch: options of launch stand after the program echo")


def ignores_broken_pipes(status):
    return int(status.split()[1], 16) >> (signal.SIGPIPE - 1) & 1


def test_broken_pipes_end_what_the_launcher_starts_as_usual(lockstep):
    look = shell("grep SigIgn /proc/self/status")
    assert not ignores_broken_pipes(lockstep.run("launch", "--", *look, status=0).out)
    reach = lockstep.folder / "reach"
    reach.write_text('#!/bin/sh\ngrep SigIgn /proc/$$/status > ssh\n'
                     'while [ $# -gt 2 ]; do shift; done\nexec sh -c "$2"\n')
    reach.chmod(0o755)
    outcome = lockstep.run("launch", "--hosts", "a:1", "--ssh", reach, "--", *look, status=0)
    assert not ignores_broken_pipes(outcome.out)
    assert not ignores_broken_pipes((lockstep.folder / "ssh").read_text())


def test_ctrl_c_ends_a_job_whose_output_nobody_reads(lockstep):
    process = lockstep.start("launch", "--workers", 2, "--", *shell(
        "test $LOCKSTEP_RANK = 0 || exec yes; exec sleep 1000"))
    wait_until(lambda: len(workers_of(process)) == 2)
    workers = workers_of(process).values()
    time.sleep(1)  # all pipes on the way are full
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not any(is_running(pid) for pid in workers))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.communicate()


def test_how_to_go_on_repeats_what_the_run_does_not_keep(lockstep):
    process = lockstep.start("train", "mnist-mlp", *LONG, "--workers", 2, "--secure", "--wait", 30,
                             "--allow-different-bits")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 1 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert ("train mnist-mlp --resume --out run --workers 2 --checkpoint-every 20 --threads 1 "
            "--secure --allow-different-bits --wait 30\n") in errors


def test_more_workers_than_slots(lockstep):
    outcome = lockstep.run("launch", "--hosts", "localhost:2", "--workers", 3, "--", "true")
    assert outcome.status == 2
    assert outcome.complaint == "lockstep: hosts: 3 workers, the hosts take 2"


def test_a_hosts_file_is_read_and_its_lines_are_numbered(lockstep):
    (lockstep.folder / "hosts").write_text("# ours\nlocalhost slots=2  # here\n\n")
    outcome = lockstep.run("launch", "--hosts-file", "hosts", "--", *shell("echo $LOCKSTEP_WORKERS"),
                           status=0)
    assert outcome.out == "2\n"
    (lockstep.folder / "hosts").write_text("localhost slots=2\nb cores=4\n")
    outcome = lockstep.run("launch", "--hosts-file", "hosts", "--", "true", status=2)
    assert outcome.complaint == ("lockstep: hosts:2: hosts: 'b cores=4': got 'cores=4', "
                                 "expected host [slots=N]")


def test_a_program_or_folder_that_is_not_there(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", "no-such-program", status=1)
    assert outcome.complaint == "lockstep: launch: no-such-program: there is no such program"
    outcome = lockstep.run("launch", "--folder", "/no/such", "--workers", 2, "--", "true", status=1)
    assert outcome.complaint == "lockstep: launch: /no/such: there is no such folder"
    outcome = lockstep.run("launch", "--hosts", "a:1", "--ssh", "/no/ssh", "--", "true", status=1)
    assert outcome.complaint == "lockstep: launch: a: /no/ssh: there is no such program"


def test_a_port_in_use(lockstep):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = lockstep.run("launch", "--workers", 2, "--coordinator", f"127.0.0.1:{port}", "--",
                               "true", status=1)
    assert outcome.complaint == (f"lockstep: 127.0.0.1:{port}: cannot listen: "
                                 "Address already in use")


def test_an_interface_that_does_not_exist(lockstep):
    outcome = lockstep.run("train", "mnist-mlp", *FEW, "--workers", 2, "--interface", "nope0")
    assert outcome.status == 1
    assert "nope0" in outcome.err and "lo (127.0.0.1)" in outcome.err
    assert "the job is over" in last_line(outcome.err)


@pytest.mark.parametrize("where, words, complaint", [
    (["--workers", 9], [], "--workers 9 with --shards 8: a worker computes at least one shard"),
    (["--hosts", "far:2,farther:2"], ["--shards", 3], "--workers 4 with --shards 3: a worker"),
    (["--hosts", "far:8,farther:8", "--workers", 9], [], "--workers 9 with --shards 8: a worker"),
    (["--hosts", "far,farther"], ["--kvstore", "local"], "--kvstore local with --workers 2"),
    (["--kubernetes", "--name", "d", "--image", "x", "--workers", 9], [], "--workers 9 with --shards 8")])
def test_more_workers_than_shards_is_found_before_any_host_is_asked(lockstep, where, words, complaint):
    ssh = lockstep.folder / "reach"
    ssh.write_text(f"#!/bin/sh\ntouch {lockstep.folder}/asked\nexit 255\n")
    ssh.chmod(0o755)
    reach = [] if "--kubernetes" in where else ["--ssh", ssh]
    outcome = lockstep.run("launch", *where, *reach, "--", PROGRAM, "train", "mnist-mlp", *FEW, *words)
    assert outcome.status == 2 and complaint in outcome.complaint
    assert outcome.out == "" and not (lockstep.folder / "asked").exists()


def test_more_workers_than_shards_of_a_run_that_goes_on(lockstep):
    lockstep.run("train", "mnist-mlp", *FEW, "--shards", 2, "--out", "run", status=0)
    outcome = lockstep.run("launch", "--workers", 3, "--", PROGRAM, "train", "mnist-mlp", *FEW, "--shards", 2,
                           "--out", "run", "--resume", status=2)
    assert "--workers 3 with --shards 2" in outcome.complaint
    assert outcome.err.count("\n") == 1


def test_workers_that_differ_from_the_job_are_wrong_usage(lockstep):
    outcome = lockstep.run("launch", "--workers", 2, "--", PROGRAM, "train", "mnist-mlp", *FEW,
                           "--workers", 3)
    assert outcome.status == 2
    assert "--workers 3: this is worker 0 of a job of 2; leave it out" in outcome.err


def test_different_configurations_are_refused_and_the_item_is_named(lockstep):
    words = " ".join(map(str, FEW))
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell(
        f'exec {PROGRAM} train mnist-mlp {words} --seed $LOCKSTEP_RANK'), status=1)
    assert "seed is 1, not 0" in outcome.err or "seed is 0, not 1" in outcome.err
    assert "does not fit: its configuration differs from that of rank " in outcome.err
    assert "recipe" not in outcome.err


def test_a_wrong_secret_is_refused(lockstep):
    words = " ".join(map(str, FEW))
    outcome = lockstep.run("launch", "--workers", 2, "--timeout", 3, "--", *shell(
        'test $LOCKSTEP_RANK = 0 || LOCKSTEP_SECRET=guess; '
        f'exec {PROGRAM} train mnist-mlp {words}'), status=1)
    assert "[1] lockstep: " in outcome.err and "secret" in outcome.err


def test_garbage_on_the_port_disturbs_nobody(lockstep):
    noise = ('import os, socket\n'
             'h, p = os.environ["LOCKSTEP_COORDINATOR"].rsplit(":", 1)\n'
             's = socket.create_connection((h, int(p)))\n'
             's.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n" + os.urandom(4096))\n')
    (lockstep.folder / "noise.py").write_text(noise)
    words = " ".join(map(str, FEW))
    outcome = lockstep.run("launch", "--workers", 2, "--", *shell(
        f'python3 noise.py; exec {PROGRAM} train mnist-mlp {words}'), status=0)
    alone = lockstep.run("train", "mnist-mlp", *FEW).json
    assert outcome.json["params_sha256"] == alone["params_sha256"]


@pytest.mark.parametrize("options", [["--transport", "tcp"], ["--transport", "zmq"], ["--secure"],
                                     ["--interface", "127.0.0.1"]])
def test_every_way_to_connect_gives_the_same_bits(lockstep, options):
    job = lockstep.run("train", "mnist-lenet", *FEW, "--workers", 2, *options).json
    assert job["params_sha256"] == lockstep.run("train", "mnist-lenet", *FEW).json["params_sha256"]



def test_a_coordinator_whose_name_has_an_ipv6_address_alone(lockstep):
    reach = lockstep.folder / "reach"
    reach.write_text('#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nexec sh -c "$2"\n')
    reach.chmod(0o755)
    (lockstep.folder / "names").write_text("127.0.0.1 localhost\n::1 six\n")
    words = " ".join(map(str, [PROGRAM, "launch", "--hosts", "a:1,b:1", "--ssh", reach,
                               "--coordinator", "six", "--timeout", 20, "--", PROGRAM, "train",
                               "mnist-mlp", *FEW]))
    process = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"mount --bind names /etc/hosts || exit 77; {words}"],
        cwd=lockstep.folder, capture_output=True, text=True, timeout=60)
    if process.returncode == 77 or "unshare failed" in process.stderr:
        pytest.skip("needs the right to mount")
    assert process.returncode == 0, process.stderr
