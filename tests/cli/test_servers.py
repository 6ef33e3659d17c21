# SPDX-License-Identifier: Apache-2.0
"""Jobs with servers: how they are started, found and ended, and what training makes of them."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from conftest import LOSE_MEMBER, PROGRAM, PUSH_PULL, Lockstep
from jobs import (checkpoints_of, descendants, environment, free_ports, is_running,
                  wait_until)

FEW = ["--steps", 3, "--global-batch", 16, "--shards", 8]


def lose(lockstep, *words, status=0):
    return lockstep.run("launch", "-n", 2, "-s", 2, "--grace", 3, "--", LOSE_MEMBER, *words,
                        status=status, timeout=60)


def pid_of_server(outcome, number):
    return re.search(rf"server {number} has pid (\d+)", outcome.err).group(1)


def nothing_is_left(outcome):
    """No process of the job lives on."""
    for pid in re.findall(r"has pid (\d+)", outcome.out + outcome.err):
        assert not is_running(int(pid)), pid


def test_servers_end_when_the_workers_have(lockstep):
    outcome = lose(lockstep)
    assert outcome.err.count("the workers have left") == 2 and "lockstep:" not in outcome.err
    nothing_is_left(outcome)


@pytest.mark.parametrize("way,how", [
    ("killed", r"was ended by signal 9 \(Killed\)"), ("failing", "ended with status 1")])
def test_a_server_that_others_can_do_without_is_told_and_the_job_goes_on(lockstep, way, how):
    outcome = lose(lockstep, way, "tolerant")
    pid = pid_of_server(outcome, 1)
    lines = [line for line in outcome.err.splitlines() if line.startswith("lockstep: ")]
    assert len(lines) == 1, outcome.err
    assert re.fullmatch(rf"lockstep: server 1 on {re.escape(socket.gethostname())} \(pid {pid}\) "
                        # The workers may be done when the launcher hears of it.
                        rf"{how}(; its backup takes over| after the workers)", lines[0])
    assert "member 3 is absent" in outcome.out and "[1] member 3 is absent" in outcome.err
    nothing_is_left(outcome)


def test_a_server_that_others_need_ends_the_job(lockstep):
    outcome = lose(lockstep, "killed", status=1)
    assert "lockstep: server 1 was ended by signal 9 (Killed); the job is over" in outcome.err
    nothing_is_left(outcome)


def test_a_worker_that_fails_ends_the_servers_too(lockstep):
    outcome = lose(lockstep, "failing-worker", "tolerant", status=1)
    assert "lockstep: worker 0 ended with status 1; the job is over" in outcome.err
    assert "takes over" not in outcome.err
    nothing_is_left(outcome)


def test_a_server_that_does_not_end_is_killed_and_the_workers_have_the_status(lockstep):
    outcome = lose(lockstep, "hanging")
    assert len(re.findall(r"lockstep: server [01] on .* did not end by itself after the workers, "
                          "and was killed", outcome.err)) == 2
    nothing_is_left(outcome)


@pytest.mark.parametrize("words,complaint", [
    (["--servers", 2], "--servers 2 without --kvstore: expected --kvstore ps_sync"),
    (["--servers", 2, "--kvstore", "allreduce"], "--servers 2 with --kvstore allreduce: it has non"),
    (["--kvstore", "ps_sync", "--staleness", 2], "--staleness 2 without --kvstore ps_ssp"),
    (["--staleness", 2], "--staleness 2 without --kvstore ps_ssp"),
    (["--kvstore", "ps_sync", "--stale-gradients", "whole"],
     "--stale-gradients whole without --kvstore ps_async or ps_ssp"),
    (["--kvstore", "ps_sync", "--servers", 2, "--replicas", 3],
     "--replicas 3 with --servers 2: each has a server of its own"),
    (["--kvstore", "ps_sync", "--replicas", 2], "--replicas 2 with --servers 1"),
    (["--kvstore", "ps_sync", "--servers", 4, "--replicas", 3], "--replicas 3: expected 1 or 2"),
    (["--replicas", 2], "--replicas 2 without servers"),
    (["--kvstore", "ps_sync", "--algorithm", "ring"], "--algorithm ring with --kvstore ps_sync"),
])
def test_what_does_not_fit_together_is_one_line(lockstep, words, complaint):
    outcome = lockstep.run("train", "mnist-mlp", "--workers", 2, *FEW, *words, status=2)
    assert outcome.complaint.startswith("lockstep: " + complaint)
    assert outcome.err == outcome.complaint + "\n"


def test_what_does_not_fit_a_launched_job_is_told_before_it_starts(lockstep):
    train = ["--", PROGRAM, "train", "mnist-mlp", *FEW]
    outcome = lockstep.run("launch", "-n", 2, "-s", 1, *train, status=2)
    assert outcome.complaint.startswith("lockstep: --servers 1 without --kvstore: expected")
    assert outcome.complaint == outcome.err.strip()
    outcome = lockstep.run("launch", "-n", 2, *train, "--kvstore", "ps_sync", status=2)
    assert outcome.complaint.startswith("lockstep: --kvstore ps_sync: this job has no servers")
    outcome = lockstep.run("launch", "-n", 2, "-s", 2, *train, "--kvstore", "ps_sync",
                           "--servers", 3, status=2)
    assert outcome.complaint == "lockstep: --servers 3: this job has 2; leave it out"


def train(lockstep, *words):
    return lockstep.train("mnist-mlp", *FEW, *words, timeout=120).json


@pytest.fixture(scope="module")
def bits(tmp_path_factory):
    """Of one process."""
    return train(Lockstep(tmp_path_factory.mktemp("alone")))["params_sha256"]


@pytest.mark.parametrize("workers,servers", [(2, 2), (1, 1), (3, 2)])
def test_servers_in_step_have_the_bits_of_one_process(lockstep, bits, workers, servers):
    result = train(lockstep, "--workers", workers, "--servers", servers, "--kvstore", "ps_sync")
    assert result["params_sha256"] == bits and result["invariant"]
    assert (result["kvstore"], result["servers"], result["replicas"]) == ("ps_sync", servers, 1)
    config = json.loads((lockstep.folder / result["run"] / "config.json").read_text())
    assert (config["kvstore"], config["servers"]) == ("ps_sync", servers)


def test_mxnets_name_means_servers_where_there_are_some(lockstep, bits):
    result = train(lockstep, "--workers", 2, "--servers", 1, "--kvstore", "dist_sync")
    assert (result["kvstore"], result["params_sha256"]) == ("ps_sync", bits)
    result = train(lockstep, "--workers", 2, "--kvstore", "dist_sync")
    assert (result["kvstore"], result["servers"], result["params_sha256"]) == ("allreduce", 0, bits)


@pytest.mark.parametrize("words,servers", [(["--workers", 2], 2), (["--kvstore", "local"], 0)])
def test_a_run_goes_on_with_the_servers_it_had_or_with_none(lockstep, bits, words, servers):
    train(lockstep, "--workers", 2, "--servers", 2, "--kvstore", "ps_sync", "--checkpoint-every", 1,
          "--out", "run")
    sorted((lockstep.folder / "run/checkpoints").iterdir())[-1].unlink()  # as if killed after step 2
    result = lockstep.train("mnist-mlp", "--resume", "--out", "run", *words).json
    assert result["resumed_from_step"] == 2 and result["params_sha256"] == bits
    assert result["servers"] == servers


def test_a_launched_job_trains_with_its_servers(lockstep, bits):
    outcome = lockstep.run("launch", "-n", 2, "-s", 2, "--", PROGRAM, "train", "mnist-mlp", "--data",
                           "synthetic", "--quiet", "--no-report", "--json", *FEW, "--kvstore",
                           "ps_sync", status=0)
    assert outcome.json["params_sha256"] == bits
    assert "lockstep:" not in outcome.err


@pytest.mark.parametrize("name,meant", [("dist_sync", "ps_sync"), ("dist_async", "ps_async")])
def test_a_programs_store_is_kept_by_its_servers(lockstep, name, meant):
    outcome = lockstep.run("launch", "-n", 2, "-s", 2, "--", PUSH_PULL, name, status=0, timeout=60)
    assert outcome.out == f"{meant} worker 0 of 2: 10\n"
    assert outcome.err == f"[1] {meant} worker 1 of 2: 10\n"


def run_as_mxnet(lockstep, *words):
    """What the processes of a job print that MXNet's launcher has started."""
    common = {**os.environ, "DMLC_PS_ROOT_URI": "127.0.0.1",
              "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]),
              "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "2"}
    processes = [subprocess.Popen(list(map(str, words)), cwd=lockstep.folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**common, "DMLC_ROLE": role})
                 for role in ("worker", "server", "scheduler", "server", "worker")]
    ends = [(process.communicate(timeout=120), process.returncode) for process in processes]
    assert [status for _, status in ends] == [0] * 5, ends
    return sorted(out for (out, _), _ in ends if out)


def test_processes_of_mxnets_launcher_train(lockstep, bits):
    results = run_as_mxnet(lockstep, PROGRAM, "train", "mnist-mlp", "--data", "synthetic", "--quiet",
                           "--no-report", "--json", *FEW, "--kvstore", "dist_sync", "--out", "run")
    assert len(results) == 1 and json.loads(results[0])["params_sha256"] == bits


def test_a_programs_store_is_kept_by_the_servers_of_mxnets_launcher(lockstep):
    assert run_as_mxnet(lockstep, PUSH_PULL, "dist_sync") == [
        f"ps_sync worker {rank} of 2: 10\n" for rank in (0, 1)]


LONG = ["--steps", 5000, "--global-batch", 16, "--shards", 8, "--checkpoint-every", 20]


def long_run(lockstep, *words, steps=tuple(LONG)):
    """A job that has made some steps, and the ids of its processes by role and rank."""
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--workers", 2, "--servers", 2, "--kvstore", "ps_sync",
                             "--out", "run", *steps, *words)
    wait_until(lambda: checkpoints_of(lockstep.folder / "run") or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    settings = {pid: environment(pid) for pid in descendants(process)}
    return process, {f"{one['LOCKSTEP_ROLE']} {one['LOCKSTEP_RANK']}": pid
                     for pid, one in settings.items() if "LOCKSTEP_RANK" in one}


def test_a_stopped_run_is_saved_and_its_servers_end(lockstep):
    process, members = long_run(lockstep)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.search(r"stopped after step \d+; to go on: .* --resume --out run --workers 2", err)
    assert not any(is_running(pid) for pid in members.values())


@pytest.mark.parametrize("victim", ["server 1", "worker 1"])
def test_with_fail_fast_a_member_that_is_killed_is_named_and_the_job_is_over(lockstep, victim):
    process, members = long_run(lockstep, "--fail-fast")
    assert sorted(members) == ["server 0", "server 1", "worker 0", "worker 1"]
    os.kill(members[victim], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    last = err.splitlines()[-1]
    assert last.startswith(f"lockstep: {victim} was ended by signal 9 (Killed); the job is over; "
                           "to go on: "), err
    assert not any(is_running(pid) for pid in members.values())


def test_what_only_a_killed_server_had_is_computed_again_from_the_checkpoint(lockstep):
    some = ["--steps", 300, "--global-batch", 16, "--shards", 8, "--checkpoint-every", 20]
    undisturbed = lockstep.train("mnist-mlp", *some, "--out", "alone").json["params_sha256"]
    process, members = long_run(lockstep, steps=some)
    os.kill(members["server 1"], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out.strip().splitlines()[-1])["params_sha256"] == undisturbed
    assert "server 1 was ended by signal 9 (Killed)" in err
    assert "the job begins again from the newest checkpoint (restart 1 of" in err
    assert not any(is_running(pid) for pid in members.values())


def test_a_server_that_is_killed_is_replaced_by_its_backup_and_no_bit_is_lost(lockstep):
    some = ["--steps", 300, "--global-batch", 16, "--shards", 8, "--checkpoint-every", 20]
    undisturbed = lockstep.train("mnist-mlp", *some, "--out", "alone").json["params_sha256"]
    process, members = long_run(lockstep, "--replicas", 2, steps=some)
    os.kill(members["server 1"], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == undisturbed and result["replicas"] == 2
    assert re.fullmatch(rf"lockstep: server 1 on \S+ \(pid {members['server 1']}\) was ended by "
                        r"signal 9 \(Killed\); its backup takes over\n", err)
    assert not any(is_running(pid) for pid in members.values())


def test_servers_join_workers_whose_libraries_were_told_to_use_less(lockstep):
    less = {**os.environ, "ONEDNN_MAX_CPU_ISA": "SSE41"}
    outcome = lockstep.train("mnist-mlp", *FEW, "--workers", 2, "--servers", 1, "--kvstore",
                             "ps_sync", env=less, status=0)
    alone = lockstep.train("mnist-mlp", *FEW, env=less, status=0)
    assert outcome.json["params_sha256"] == alone.json["params_sha256"]
