# SPDX-License-Identifier: Apache-2.0
"""What whoever operates jobs needs: going on by one command, logs, ports, binding, figures."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from jobs import checkpoints_of, descendants, end, steps_done, wait_until, workers_of

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ["train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report", "--json",
         "--threads", "1", "--global-batch", "32", "--schedule", "constant", "--warm-up", "0"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("form", [["--resume", "auto"], ["--resume=auto"]])
def test_one_command_starts_a_run_and_goes_on_with_it(lockstep, workers, form):
    whole = lockstep.run(*TRAIN, "--steps", 6, "--out", "whole").json
    words = [*TRAIN, "--steps", "1000000", "--checkpoint-every", "5", "--workers", workers, *form,
             "--out", "run"]
    process = lockstep.start(*words)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    first = json.loads(out.strip().splitlines()[-1])
    assert process.returncode == 143 and first["resumed_from_step"] == 0, err
    words[words.index("1000000")] = str(first["steps"] + 2)
    second = lockstep.run(*words, status=0).json
    assert second["resumed_from_step"] == first["steps"]
    alone = lockstep.run(*TRAIN, "--steps", first["steps"] + 2, "--out", "alone").json
    assert second["params_sha256"] == alone["params_sha256"] != whole["params_sha256"]
    again = lockstep.run(*words, status=0).json  # there is nothing left to do
    assert again["params_sha256"] == alone["params_sha256"]


def test_workers_of_a_launcher_decide_together_whether_to_go_on(lockstep):
    words = ["launch", "-n", 2, "--", os.path.abspath(os.environ.get("LOCKSTEP", "build/bin/lockstep")),
             *TRAIN, "--resume", "auto", "--out", "run", "--steps"]
    first = lockstep.run(*words, 3, status=0).json
    second = lockstep.run(*words, 5, status=0).json
    assert (first["resumed_from_step"], second["resumed_from_step"]) == (0, 3)
    alone = lockstep.run(*TRAIN, "--steps", 5, "--out", "alone").json
    assert second["params_sha256"] == alone["params_sha256"]


def test_what_may_go_on_must_be_named_and_fit(lockstep):
    assert "needs --out RUNDIR" in lockstep.run(*TRAIN, "--resume", "auto", status=2).complaint
    (lockstep.folder / "other").mkdir()
    (lockstep.folder / "other" / "letter.txt").write_text("Dear")
    refused = lockstep.run(*TRAIN, "--steps", 3, "--resume", "auto", "--out", "other", status=1)
    assert "'other' exists already" in refused.complaint
    lockstep.run(*TRAIN, "--steps", 3, "--resume", "auto", "--out", "run", status=0)
    refused = lockstep.run(*TRAIN, "--steps", 3, "--seed", 7, "--resume", "auto", "--out", "run", status=1)
    assert "seed" in refused.complaint
    auto = lockstep.run("train", "--resume", "--out", "run", "auto", status=2)
    assert "auto" in auto.complaint  # a recipe of that name there is none


def test_each_rank_has_a_log_of_its_own(lockstep):
    program = "echo out $LOCKSTEP_ROLE $LOCKSTEP_RANK; echo err $LOCKSTEP_RANK >&2"
    words = ["launch", "-n", 2, "-s", 1, "--log-dir", "logs/job", "--", "sh", "-c", program]
    first = lockstep.run(*words, status=0)
    assert "out worker 0\n" in first.out and "[1] out worker 1\n" in first.err
    logs = lockstep.folder / "logs" / "job"
    assert sorted(path.name for path in logs.iterdir()) == [
        "server-0.log", "worker-0.log", "worker-1.log"]
    for name, lines in (("worker-0", ["err 0", "out worker 0"]), ("worker-1", ["err 1", "out worker 1"]),
                        ("server-0", ["err 0", "out server 0"])):
        assert sorted((logs / f"{name}.log").read_text().splitlines()) == lines
    lockstep.run(*words, status=0)  # a job that goes on goes on in the same files
    assert (logs / "worker-1.log").read_text().count("out worker 1\n") == 2


def test_a_training_job_has_logs_as_well(lockstep):
    result = lockstep.run(*TRAIN, "--steps", 3, "--workers", 2, "--log-dir", "logs", "--out", "run").json
    assert json.loads((lockstep.folder / "logs" / "worker-0.log").read_text()) == result
    assert (lockstep.folder / "logs" / "worker-1.log").read_text() == ""


def test_a_folder_for_logs_that_cannot_be_is_told_before_anything_runs(lockstep):
    (lockstep.folder / "file").write_text("")
    outcome = lockstep.run("launch", "--log-dir", "file/logs", "--", "touch", "ran", status=1)
    assert "the folder for logs 'file/logs' cannot be written to" in outcome.complaint
    assert not (lockstep.folder / "ran").exists()


def listening_ports(pids):
    """Of processes, by what the kernel says of their sockets."""
    inodes = set()
    for pid in pids:
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{number}"))
                inodes.update(found.groups() if found else [])
        except (FileNotFoundError, ProcessLookupError):
            continue
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in open(table).readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def free_range(count):
    """So many ports in a row that nobody has now."""
    for first in range(23000 + os.getpid() % 5000, 60000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first, first + count - 1
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no ports are free")


@pytest.mark.parametrize("more", [["--transport", "tcp"], ["--transport", "zmq"],
                                  ["--servers", 2, "--kvstore", "ps_sync", "--transport", "tcp"]])
def test_every_listener_of_a_job_has_a_port_of_the_range(lockstep, more):
    first, last = free_range(24)
    process = lockstep.start(*TRAIN, "--steps", "1000000", "--workers", 2, *more, "--ports",
                             f"{first}-{last}", "--out", "run")
    try:
        wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        ports = listening_ports([process.pid, *descendants(process)])
        assert ports and all(first <= port <= last for port in ports), (ports, first, last)
        assert len(ports) >= (6 if "--servers" in more else 2)
    finally:
        end(process)


def test_a_range_without_a_free_port_ends_the_job_with_its_name(lockstep):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = lockstep.run("launch", "--ports", f"{port}-{port}", "--", "true", status=1)
    assert f"none of the ports {port}-{port} is free" in outcome.complaint


@pytest.mark.parametrize("text", ["5", "a-b", "7-5", "0-9", "1-70000", "", "1-2-3"])
def test_what_is_no_range_of_ports_is_wrong_usage(lockstep, text):
    outcome = lockstep.run("launch", "--ports", text, "--", "true")
    if text in ("5",):  # one port is a range, but a coordinator needs two
        assert outcome.status == 1
    else:
        assert outcome.status == 2 and "--ports" in outcome.complaint


def test_workers_are_bound_to_their_share_of_the_cores(lockstep):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core alone cannot be shared")
    program = "echo $LOCKSTEP_RANK $(grep Cpus_allowed_list /proc/self/status | cut -f2) >> bound"
    for binding, shares in (("core", True), ("none", False), ("numa", False)):
        (lockstep.folder / "bound").unlink(missing_ok=True)
        lockstep.run("launch", "-n", 2, "--bind", binding, "--", "sh", "-c", program, status=0)
        lines = dict(line.split() for line in (lockstep.folder / "bound").read_text().splitlines())
        sets = [expand(lines[rank]) for rank in ("0", "1")]
        if shares:
            assert not sets[0] & sets[1] and sets[0] | sets[1] == set(cores)
        elif binding == "none":
            assert sets == [set(cores), set(cores)]
    assert "--bind" in lockstep.run("launch", "--bind", "all", "--", "true", status=2).complaint


def expand(text):
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def rows(lockstep, run="run"):
    lines = (lockstep.folder / run / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "learning_rate" in row]


NAMES = {"compute_s", "wait_s", "bytes_sent", "slowest_rank", "slowest_s"}


@pytest.mark.parametrize("more", [[], ["--transport", "tcp"], ["--servers", 1, "--kvstore", "ps_sync"]])
def test_a_step_tells_what_it_sent_and_for_how_long_it_waited(lockstep, more):
    result = lockstep.run(*TRAIN, "--steps", 5, "--workers", 2, *more, "--out", "run").json
    steps = rows(lockstep)
    assert len(steps) == 5
    for row in steps:
        assert row.keys() >= NAMES
        assert row["compute_s"] > 0 and row["wait_s"] >= 0 and row["slowest_s"] >= row["compute_s"]
        assert row["slowest_rank"] in (0, 1)
        assert row["bytes_sent"] > 100000  # the gradient of 100,000 parameters and more
    exchange = result["exchange"]
    assert exchange["steps"] == 5 and exchange["slowest_rank"] in (0, 1)
    assert exchange["bytes_sent"] == sum(row["bytes_sent"] for row in steps)
    assert exchange["compute_s"] == pytest.approx(sum(row["compute_s"] for row in steps))


def test_a_process_alone_waits_for_nobody(lockstep):
    result = lockstep.run(*TRAIN, "--steps", 3, "--out", "run").json
    assert "exchange" not in result
    assert not any(NAMES & row.keys() for row in rows(lockstep))


def test_a_worker_that_pauses_shows_in_the_others_waiting(lockstep):
    process = lockstep.start(*TRAIN, "--steps", "1000000", "--workers", 2, "--out", "run")
    try:
        wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
        paused = workers_of(process)[1]
        os.kill(paused, signal.SIGSTOP)
        before = steps_done(lockstep.folder / "run")
        with pytest.raises(AssertionError):  # nothing moves for a while
            wait_until(lambda: steps_done(lockstep.folder / "run") > before + 1, seconds=0.7)
        os.kill(paused, signal.SIGCONT)
        wait_until(lambda: steps_done(lockstep.folder / "run") > before + 3)
        assert max(row["wait_s"] for row in rows(lockstep)[before - 1:]) > 0.3
    finally:
        end(process)


def test_the_systemd_unit_is_one(lockstep):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (ROOT / "packaging" / "lockstep@.service").read_text()
    (lockstep.folder / "lockstep@.service").write_text(text.replace("/usr/local/bin/lockstep", "/bin/true"))
    outcome = subprocess.run(["systemd-analyze", "verify", "--man=no", "./lockstep@.service"],
                             cwd=lockstep.folder, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0 and outcome.stderr == "", outcome.stderr


def test_the_image_is_made_of_what_is_there():
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
              for word in line.split()[:-1]]
    assert copied and all((ROOT / word).exists() for word in copied)
    kept = (ROOT / "packaging" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in kept if line.startswith("!")} == {word.rstrip("/") for word in copied}
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
