# SPDX-License-Identifier: Apache-2.0
"""lockstep launch, through a real sshd on what looks like two hosts."""
import os
import random
import shlex
import signal
import subprocess
import time
import uuid

import pytest

from conftest import PROGRAM, ROLES, SHOW_ROLE
from jobs import (descendants, environment, is_running, parents, processes_with, steps_done,
                  wait_until)
from launched import FEW, LONG, last_line, said_by, shell
from networks import ADDRESSES, TwoNetworks
from sshd import Sshd, find_sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    if find_sshd() is None:
        pytest.skip("openssh-server is not installed")
    server = Sshd(tmp_path_factory.mktemp("ssh"))
    yield server
    server.stop()


class Hosts:
    """A job on node-a and node-b; its processes carry a mark."""

    def __init__(self, lockstep, sshd):
        self.lockstep, self.sshd = lockstep, sshd
        self.mark = uuid.uuid4().hex

    def words(self, hosts, command, *options, config="config"):
        return ["launch", "--hosts", hosts, "--ssh", self.sshd.ssh(config), "--env",
                f"LOCKSTEP_TEST_MARK={self.mark}", *options, "--", *command]

    def run(self, hosts, command, *options, config="config", **how):
        return self.lockstep.run(*self.words(hosts, command, *options, config=config), **how)

    def start(self, hosts, command, *options, **how):
        return self.lockstep.start(*self.words(hosts, command, *options), **how)

    def workers(self):
        """Process ids by rank, wherever their parents are."""
        found = processes_with("LOCKSTEP_TEST_MARK", self.mark)
        return {int(environment(pid).get("LOCKSTEP_RANK", -1)): pid for pid in found}

    def start_training(self, *options, step=5, **how):
        train = [PROGRAM, "train", "mnist-mlp", *LONG, "--fail-fast"]
        process = self.start("node-a:1,node-b:2", train, *options, **how)
        run = self.lockstep.folder / "run"
        wait_until(lambda: steps_done(run) >= step or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        workers = self.workers()
        assert sorted(workers) == [0, 1, 2]
        return process, workers

    def all_gone(self):
        wait_until(lambda: not processes_with("LOCKSTEP_TEST_MARK", self.mark))
        return True


@pytest.fixture
def hosts(lockstep, sshd):
    return Hosts(lockstep, sshd)


def test_servers_stand_beside_the_workers_of_hosts(hosts):
    outcome = hosts.run("node-a:1,node-b:1", [SHOW_ROLE], "--servers", 1, status=0)
    assert said_by(outcome) == ROLES
    assert "[server 0 node-a] server 0 of 1" in outcome.err


def test_servers_of_several_hosts_keep_the_parameters(hosts, lockstep):
    train = [PROGRAM, "train", "mnist-mlp", *map(str, FEW), "--out"]
    alone = lockstep.run(*train[1:], "alone", status=0).json
    words = [*train, "run", "--kvstore", "ps_sync"]
    result = hosts.run("node-a:1,node-b:1", words, "--servers", 2, status=0).json
    assert (result["servers"], result["params_sha256"]) == (2, alone["params_sha256"])


def test_hosts_are_reached_by_ssh_and_lines_carry_their_names(hosts):
    outcome = hosts.run("node-a:1,node-b:2", shell("echo $LOCKSTEP_RANK on $LOCKSTEP_HOST"),
                        status=0)
    assert outcome.out == "0 on node-a\n"
    assert sorted(outcome.err.splitlines()) == ["[1 node-b] 1 on node-b", "[2 node-b] 2 on node-b"]


def test_a_job_over_ssh_has_the_bits_of_a_single_process(hosts, lockstep):
    alone = lockstep.run("train", "mnist-lenet", *FEW).json
    for where in ("node-a:1,node-b:1", "node-a:1,node-b:2", "localhost:1,node-b:1"):
        job = hosts.run(where, ["lockstep", "train", "mnist-lenet", *FEW]).json
        assert job["params_sha256"] == alone["params_sha256"]
        assert job["test_loss"] == alone["test_loss"]


def test_resume_works_when_only_the_first_host_sees_the_folder(hosts, lockstep):
    for name in ("mine", "theirs"):
        (lockstep.folder / name).mkdir()
    words = " ".join(map(str, FEW[2:]))
    each = shell(f'test $LOCKSTEP_RANK = 0 && cd mine || cd theirs; exec {PROGRAM} train mnist-mlp '
                 f'--data synthetic {words} --out run $MORE')
    first = ["--env", "MORE=--checkpoint-every 2"]
    hosts.run("node-a:1,node-b:1", each, *first, status=0)
    newest = sorted((lockstep.folder / "mine/run/checkpoints").iterdir())[-1]
    newest.unlink()  # as if the run had been killed after step 2
    again = hosts.run("node-a:1,node-b:1", each, "--env", "MORE=--resume").json
    assert again["resumed_from_step"] == 2
    assert again["params_sha256"] == lockstep.run("train", "mnist-mlp", *FEW).json["params_sha256"]
    assert not (lockstep.folder / "theirs/run").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_worker_that_dies_is_named_with_its_host(hosts, how):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rank = random.Random(seed).randrange(3)
    process, workers = hosts.start_training()
    os.kill(workers[rank], how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    host = "node-a" if rank == 0 else "node-b"
    assert last_line(errors).startswith(
        f"lockstep: worker {rank} ({host}) was ended by signal {int(how)}"), errors
    assert hosts.all_gone()


def test_an_agent_that_dies_takes_its_workers_and_ends_the_job(hosts):
    process, workers = hosts.start_training()
    os.kill(parents()[workers[1]], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert last_line(errors).startswith("lockstep: worker 1 (node-b) was lost: "), errors
    assert hosts.all_gone()


def path_to_agent(pid):
    """The agent of a worker, and the sshd before it."""
    agent = parents()[pid]
    return {"agent": agent, "sshd": parents()[agent]}


@pytest.mark.parametrize("which", ["agent", "sshd"])
def test_a_host_that_falls_silent_ends_the_job_and_its_workers(hosts, which):
    process = hosts.start("node-a:1,node-b:1", shell("test $LOCKSTEP_RANK = 0 || exec sleep 1000"),
                          "--timeout", 5)
    wait_until(lambda: sorted(hosts.workers()) == [1] or process.poll() is not None)
    stopped = path_to_agent(hosts.workers()[1])[which]
    os.kill(stopped, signal.SIGSTOP)
    try:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert last_line(errors) == (
            "lockstep: worker 1 (node-b) was lost: nothing was heard from its host for 5.0 s: the "
            "network is cut, or ssh or the agent hangs; the job is over"), errors
        assert hosts.all_gone()  # not even one whose agent or sshd is still stopped
    finally:
        if is_running(stopped):
            os.kill(stopped, signal.SIGCONT)


@pytest.fixture
def networks(sshd):
    two = TwoNetworks()
    yield two
    two.stop()


def test_a_cut_network_ends_the_job_on_both_sides(lockstep, networks, tmp_path):
    server = Sshd(tmp_path, [(address, networks.inside(side))
                             for side, address in enumerate(ADDRESSES)])
    try:
        hosts = Hosts(lockstep, server)
        process, workers = hosts.start_training("--timeout", 5, inside=networks.inside(0))
        assert sorted(workers) == [0, 1, 2]
        networks.cut()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "(node-b) was lost: nothing was heard from its host for 5.0 s" in errors, errors
        assert hosts.all_gone()  # those that nobody can reach end by themselves
    finally:
        server.stop()


def test_a_launcher_that_is_paused_by_its_reader_loses_nobody(hosts):
    talk = shell("test $LOCKSTEP_RANK = 0 || head -c 20000000 /dev/zero | tr '\\0' x")
    process = hosts.start("node-a:1,node-b:1", talk, "--timeout", 5)
    time.sleep(8)  # nobody reads what it says: all that is on the way to us is full
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, last_line(errors)
    assert errors.count("x") == 20000000


def test_a_launcher_that_was_stopped_for_too_long_hears_why_its_host_is_lost(hosts):
    process = hosts.start("node-a:1", ["sleep", 1000], "--timeout", 5)
    wait_until(lambda: sorted(hosts.workers()) == [0] or process.poll() is not None)
    process.send_signal(signal.SIGSTOP)
    try:
        assert hosts.all_gone()
    finally:
        process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert last_line(errors) == (
        "lockstep: worker 0 (node-a) was lost: the agent heard nothing from the launcher for 5.0 s, "
        "and ended its workers; the job is over"), errors


def test_an_ssh_that_dies_ends_the_job(hosts):
    process, _ = hosts.start_training()
    ssh = [pid for pid in descendants(process)
           if "node-b" in open(f"/proc/{pid}/cmdline").read().split("\0")]
    assert len(ssh) == 1
    os.kill(ssh[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "(node-b) was lost: " in last_line(errors), errors
    assert hosts.all_gone()


def test_nothing_outlives_the_launcher(hosts):
    process, _ = hosts.start_training()
    process.kill()
    process.communicate()
    assert hosts.all_gone()


def test_ctrl_c_stops_all_hosts_and_says_how_to_go_on(hosts):
    process, _ = hosts.start_training()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    again = next(line for line in errors.splitlines() if "to go on: " in line).split("go on: ")[1]
    words = shlex.split(again)
    assert words[:4] == [PROGRAM, "launch", "--hosts", "node-a:1,node-b:2"]
    assert words[-11:] == ["--", PROGRAM, "train", "mnist-mlp", "--resume", "--out", "run",
                           "--checkpoint-every", "20", "--threads", "1"], again
    assert hosts.mark not in again and "--env LOCKSTEP_TEST_MARK " in again
    assert hosts.all_gone()
    process = subprocess.Popen("exec " + again, shell=True, cwd=hosts.lockstep.folder, text=True,
                               env={**os.environ, "LOCKSTEP_TEST_MARK": hosts.mark},
                               stderr=subprocess.PIPE)
    done = steps_done(hosts.lockstep.folder / "run")
    wait_until(lambda: steps_done(hosts.lockstep.folder / "run") > done or
               process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert hosts.all_gone()


def test_a_refused_key_an_unknown_host_and_a_missing_program(hosts):
    outcome = hosts.run("node-a:1,node-b:1", ["true"], config="wrong_key", status=1)
    assert outcome.complaint.startswith("lockstep: launch: node-") and "Permission denied" in \
        outcome.complaint
    outcome = hosts.run("node-a:1,node-b:1", ["true"], config="unknown_host", status=1)
    assert "Host key verification failed" in outcome.complaint
    outcome = hosts.run("node-a:1", ["true"], "--remote-program", "/no/such/lockstep", status=1)
    assert "launch: node-a: " in outcome.complaint and "/no/such/lockstep" in outcome.complaint
    assert outcome.complaint.endswith("; --remote-program says where lockstep is there")
    outcome = hosts.run("node-a:1,node-b:1", ["no-such-program"], status=1)
    assert outcome.complaint in [f"lockstep: launch: node-{x}: no-such-program: there is no such "
                                 "program" for x in "ab"]
    assert hosts.all_gone()


def test_a_host_that_cannot_be_reached(hosts):
    outcome = hosts.run("node-a:1,192.0.2.1:1", ["true"], "--timeout", 2, status=1, timeout=60)
    assert outcome.complaint.startswith("lockstep: launch: 192.0.2.1: ")
    outcome = hosts.run("node-a:1,no-such-host.invalid:1", ["true"], status=1, timeout=100)
    assert outcome.complaint.startswith("lockstep: launch: no-such-host.invalid: ssh: ")


def test_another_version_over_there_is_refused(hosts, lockstep):
    fake = lockstep.folder / "old_lockstep"
    fake.write_text("#!/usr/bin/env python3\nimport struct, sys\n"
                    "def text(t): return struct.pack('<q', len(t)) + t\n"
                    "out = b'\\nlockstep agent 1\\n' + text(b'H' + text(b'0.0.1') + text(b''))\n"
                    "sys.stdout.buffer.write(out)\nsys.stdout.flush()\nsys.stdin.read()\n")
    fake.chmod(0o755)
    outcome = hosts.run("node-a:1", ["true"], "--remote-program", fake, status=1)
    assert outcome.complaint.startswith("lockstep: launch: node-a: has lockstep 0.0.1, this is ")
