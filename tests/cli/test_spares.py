# SPDX-License-Identifier: Apache-2.0
"""Jobs on what looks like three hosts: workers of a host that is gone, or fails again and again, have
their places on a spare; hosts come and go with the hosts file; and a worker that is lost before the
first step does not end its job."""
import json
import os
import signal
import uuid

import pytest

from conftest import PROGRAM, Lockstep
from jobs import (end, environment, name_of, parents, processes_with, steps_done, wait_until,
                  workers_of)
from sshd import Sshd, find_sshd

TRAIN = ["mnist-mlp", "--data", "synthetic", "--global-batch", 32, "--threads", 1, "--quiet",
         "--no-report", "--json", "--checkpoint-every", 1000, "--eval-every", 10000]
# So many that a host is reached, and a worker there joins, long before the last one.
MANY, FEW = ["--steps", 50000], ["--steps", 300]
LONG_ENOUGH = 300


def train_alone(folder, steps):
    return Lockstep(folder).run("train", *TRAIN, *steps, "--out", "run", status=0,
                                timeout=LONG_ENOUGH).json


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train_alone(tmp_path_factory.mktemp("many"), MANY)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return train_alone(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    if find_sshd() is None:
        pytest.skip("openssh-server is not installed")
    server = Sshd(tmp_path_factory.mktemp("ssh"), sides=(("127.0.0.1", []),) * 3)
    yield server
    server.stop()


class Job:
    def __init__(self, lockstep, sshd, *where):
        self.lockstep, self.mark = lockstep, uuid.uuid4().hex
        self.process = lockstep.start(
            "launch", *where, "--ssh", sshd.ssh(), "--env", f"LOCKSTEP_TEST_MARK={self.mark}",
            "--env", f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}", "--timeout", 30, "--", PROGRAM,
            "train", *TRAIN, *MANY, "--out", "run")

    def reach(self, step):
        wait_until(lambda: steps_done(self.lockstep.folder / "run") >= step
                   or self.process.poll() is not None, LONG_ENOUGH)
        assert self.process.poll() is None, self.process.communicate()

    def workers_on(self, host):
        return [pid for pid in processes_with("LOCKSTEP_TEST_MARK", self.mark)
                if environment(pid).get("LOCKSTEP_HOST") == host]

    def has_worker_on(self, host):
        wait_until(lambda: self.workers_on(host) or self.process.poll() is not None, LONG_ENOUGH)
        assert self.process.poll() is None, self.process.communicate()

    def events(self, kind):
        path = self.lockstep.folder / "run" / "events.jsonl"
        return [event for event in map(json.loads, open(path)) if event["event"] == kind
                ] if path.exists() else []

    def check_end(self, undisturbed):
        try:
            out, errors = self.process.communicate(timeout=LONG_ENOUGH)
        finally:
            if self.process.poll() is None:
                end(self.process)
        assert self.process.returncode == 0, errors
        result = json.loads(out.strip().splitlines()[-1])
        assert result["params_sha256"] == undisturbed["params_sha256"], errors
        return result, errors


def agent_above(pid):
    """The agent that has started it."""
    table = parents()
    while pid in table and name_of(pid) != "lockstep-agent":
        pid = table[pid]
    assert name_of(pid) == "lockstep-agent"
    return pid


def test_the_workers_of_a_host_that_is_gone_have_their_places_on_a_spare(lockstep, sshd, undisturbed):
    job = Job(lockstep, sshd, "--hosts", "node-a:1,node-b:1", "--spares", "node-c:1")
    job.reach(20)
    assert not job.workers_on("node-c")
    os.kill(agent_above(job.workers_on("node-b")[0]), signal.SIGKILL)
    job.has_worker_on("node-c")
    _, errors = job.check_end(undisturbed)
    assert "worker 2 is started on node-c" in errors
    assert [event["member"] for event in job.events("joined")] == [2], errors


def test_a_host_that_has_lost_too_many_workers_has_no_more(lockstep, sshd, undisturbed):
    job = Job(lockstep, sshd, "--hosts", "node-a:1,node-b:1", "--spares", "node-c:1")
    for lost in range(3):
        job.reach(20 + 50 * lost)
        wait_until(lambda: len(job.events("joined")) == lost or job.process.poll() is not None,
                   LONG_ENOUGH)
        os.kill(job.workers_on("node-b")[0], signal.SIGKILL)
        wait_until(lambda: len(job.events("lost")) == lost + 1 or job.process.poll() is not None,
                   LONG_ENOUGH)
    job.has_worker_on("node-c")
    _, errors = job.check_end(undisturbed)
    assert "node-b has lost 3 workers: others have their places" in errors
    assert "worker 4 is started on node-c" in errors


def test_hosts_come_and_go_with_the_hosts_file(lockstep, sshd, undisturbed):
    file = lockstep.folder / "hosts"
    file.write_text("node-a\nnode-b\n")
    job = Job(lockstep, sshd, "--hosts-file", file)
    job.reach(20)
    file.write_text("node-a\nnode-b\nnode-c slots=1\n")
    wait_until(lambda: job.events("joined") or job.process.poll() is not None, LONG_ENOUGH)
    assert job.workers_on("node-c"), job.process.communicate()
    file.write_text("node-a\nnode-c slots=1\n")
    wait_until(lambda: job.events("left") or job.process.poll() is not None, LONG_ENOUGH)
    _, errors = job.check_end(undisturbed)
    assert [event["member"] for event in job.events("left")] == [1], errors
    assert "node-b is not among the hosts any more: its workers leave" in errors


@pytest.mark.parametrize("where,complaint", [
    (["--spares", "c:1"], "--spares c:1 without hosts: expected --hosts or --hosts-file"),
    (["--hosts", "a,b", "--spares", "c:x"], "--spares: hosts: 'c:x': got 'x' workers"),
])
def test_spares_that_cannot_be_meant_are_one_line(lockstep, where, complaint):
    outcome = lockstep.run("launch", *where, "--", "true", status=2)
    assert outcome.err.startswith("lockstep: " + complaint) and outcome.err.count("\n") == 1


@pytest.mark.parametrize("point", ["meet", "connect", "data", "fit"])
def test_a_worker_that_is_lost_before_the_first_step_does_not_end_the_job(lockstep, short,
                                                                         point):
    process = lockstep.start("train", *TRAIN, *FEW, "--out", "run", "--workers", 2, env=dict(
        os.environ, LOCKSTEP_STOP_AT=f"1:{point}"))
    wait_until(lambda: 1 in workers_of(process) and is_stopped(workers_of(process)[1]), LONG_ENOUGH)
    victim = workers_of(process)[1]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: workers_of(process).get(1, victim) != victim
               and is_stopped(workers_of(process)[1]), LONG_ENOUGH)
    os.kill(workers_of(process)[1], signal.SIGCONT)
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    assert json.loads(out.strip().splitlines()[-1])["params_sha256"] == short["params_sha256"]
    assert "before the first step: the job begins again (restart 1 of 20)" in errors


def is_stopped(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False
