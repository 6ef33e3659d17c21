# SPDX-License-Identifier: Apache-2.0
"""Jobs whose membership is kept in etcd: they go on without their launcher, whoever coordinates
them, and without one of three etcd servers; the bits are those of a job that nobody disturbed."""
import base64
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.request

import pytest

from conftest import SHOW_ROLE
from jobs import free_ports, is_running, steps_done, wait_until, workers_of

STEPS = 12000  # so many that it is under way when something happens to it
TRAIN = ["mnist-mlp", "--data", "synthetic", "--steps", STEPS, "--global-batch", 32, "--threads", 1,
         "--quiet", "--no-report", "--json", "--checkpoint-every", 2000, "--eval-every", 5000]
LONG_ENOUGH = 150

needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd-server is not installed")


class Etcd:
    def __init__(self, folder, count):
        ports = free_ports(2 * count)
        self.clients = [f"127.0.0.1:{port}" for port in ports[:count]]
        peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        cluster = ",".join(f"s{i}={peer}" for i, peer in enumerate(peers))
        self.servers = [subprocess.Popen(
            ["etcd", "--name", f"s{i}", "--data-dir", str(folder / f"etcd{i}"),
             "--listen-client-urls", f"http://{self.clients[i]}",
             "--advertise-client-urls", f"http://{self.clients[i]}",
             "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
             "--initial-cluster", cluster],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(count)]
        wait_until(lambda: self.names() is not None)

    @property
    def address(self):
        return "etcd://" + ",".join(self.clients)

    def names(self):
        """What it keeps, by name; None while no server answers."""
        ask = json.dumps({"key": base64.b64encode(b"lockstep/").decode(),
                          "range_end": base64.b64encode(b"lockstep0").decode()}).encode()
        for client in self.clients:
            try:
                with urllib.request.urlopen(f"http://{client}/v3/kv/range", ask, timeout=5) as said:
                    return {base64.b64decode(one["key"]).decode(): base64.b64decode(one["value"])
                            for one in json.load(said).get("kvs", [])}
            except OSError:
                continue
        return None

    def coordinator(self):
        """The port at which the job's coordinator listens; None: there is none."""
        for name, value in (self.names() or {}).items():
            if name.endswith("/leader"):
                return int(value.split()[0].rsplit(b":", 1)[1])
        return None

    def end(self):
        for server in self.servers:
            server.kill()
            server.wait()


@pytest.fixture
def etcd(tmp_path, request):
    servers = Etcd(tmp_path, getattr(request, "param", 1))
    yield servers
    servers.end()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    from conftest import Lockstep
    folder = tmp_path_factory.mktemp("undisturbed")
    return Lockstep(folder).run("train", *TRAIN, "--out", "run", status=0).json


def start(lockstep, etcd, *words):
    process = lockstep.start("train", *TRAIN, "--out", "run", "--workers", 3, "--store",
                             etcd.address, *words)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 25 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def listener_of(port, pids):
    """Which of the processes listens there."""
    wanted = f":{port:04X}"
    for pid in pids:
        try:
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            rows = [line.split() for line in open(f"/proc/{pid}/net/tcp")][1:]
        except OSError:
            continue
        if any(row[1].endswith(wanted) and row[3] == "0A" and f"socket:[{row[9]}]" in links
               for row in rows):
            return pid
    return None


def attach(lockstep, undisturbed):
    result = lockstep.run("attach", "run", "--json", "--quiet", status=0, timeout=LONG_ENOUGH)
    assert result.json["params_sha256"] == undisturbed["params_sha256"]
    rows = [json.loads(line) for line in open(lockstep.folder / "run" / "metrics.jsonl")]
    assert [row["step"] for row in rows if "learning_rate" in row] == list(range(1, STEPS + 1))
    return result


@needs_etcd
def test_an_undisturbed_job_ends_as_ever(lockstep, etcd, undisturbed):
    process = start(lockstep, etcd)
    out, errors = process.communicate(timeout=LONG_ENOUGH)
    assert process.returncode == 0, errors
    assert json.loads(out)["params_sha256"] == undisturbed["params_sha256"]
    assert attach(lockstep, undisturbed)  # what is done is shown


@needs_etcd
def test_a_job_goes_on_without_its_launcher(lockstep, etcd, undisturbed):
    process = start(lockstep, etcd)
    workers = list(workers_of(process).values())
    process.kill()
    process.communicate(timeout=LONG_ENOUGH)
    attach(lockstep, undisturbed)
    wait_until(lambda: not any(is_running(pid) for pid in workers))


@needs_etcd
@pytest.mark.parametrize("etcd", [3], indirect=True)
def test_a_job_goes_on_without_launcher_coordinator_and_one_etcd(lockstep, etcd, undisturbed):
    seed = random.randrange(1000)
    print("seed", seed)
    pauses = random.Random(seed)
    process = start(lockstep, etcd)
    workers = list(workers_of(process).values())
    time.sleep(pauses.uniform(0, 0.2))
    process.kill()
    process.communicate(timeout=LONG_ENOUGH)
    etcd.servers[pauses.randrange(3)].kill()
    time.sleep(pauses.uniform(0, 0.2))

    def elected():
        port = etcd.coordinator()
        return port and listener_of(port, workers)
    wait_until(lambda: elected() or not any(is_running(pid) for pid in workers))
    pid = elected()
    if pid:  # a fast machine may have ended the job by now
        os.kill(pid, signal.SIGKILL)
    attach(lockstep, undisturbed)
    wait_until(lambda: not any(is_running(one) for one in workers))


def test_a_store_that_is_not_there_is_named(lockstep):
    port = free_ports(1)[0]
    result = lockstep.run("train", *TRAIN, "--workers", 2, "--store", f"etcd://127.0.0.1:{port}",
                          status=1, timeout=LONG_ENOUGH)
    assert f"store: etcd://127.0.0.1:{port} does not answer" in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_what_is_no_store_is_wrong_usage(lockstep):
    for wrong in ("http://a:1", "etcd://", "etcd://a:x"):
        result = lockstep.run("train", *TRAIN, "--workers", 2, "--store", wrong, status=2)
        assert "expected etcd://HOST:PORT" in result.err
    for words in (("--workers", 2, "--fail-fast"), ("--workers", 1), ()):
        result = lockstep.run("train", *TRAIN, *words, "--store", "etcd://a:1", status=2)
        assert "--store: this job ends with the first worker that is lost" in result.complaint


def test_launch_refuses_a_program_that_cannot_use_a_store(lockstep):
    where = ("launch", "-n", 2, "--store", "etcd://a:1", "--")
    ends = "--store: this job ends with the first worker that is lost"
    for words, why in (
            (("lockstep", "train", "mnist-mlp", "--fail-fast"), ends),
            (("lockstep", "train", "--resume", "--out", "run", "--fail-fast"), ends),
            (("lockstep", "train", "mnist-mlp", "--shard-state", 3), ends),
            (("lockstep", "eval", "run"), "--store: lockstep eval does not go on without its launcher")):
        result = lockstep.run(*where, *words, status=2)
        assert why in result.complaint
    # The store that the training names is the job's.
    result = lockstep.run("launch", "-n", 2, "--", "lockstep", "train", "mnist-mlp", "--fail-fast",
                          "--store", "etcd://a:1", status=2)
    assert ends in result.complaint


@needs_etcd
def test_a_program_of_ones_own_that_cannot_use_a_store_is_refused(lockstep, etcd):
    result = lockstep.run("launch", "-n", 2, "-s", 1, "--store", etcd.address, "--", SHOW_ROLE,
                          timeout=LONG_ENOUGH)
    assert result.status != 0
    assert "the job has a store (--store), and its program ends with the first worker" in result.err


def test_a_run_without_a_store_cannot_be_attached_to(lockstep):
    result = lockstep.run("attach", "nowhere", status=1)
    assert "attach: 'nowhere' is no run folder, nor the name of a job" in result.err
