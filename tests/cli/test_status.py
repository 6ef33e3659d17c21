# SPDX-License-Identifier: Apache-2.0
"""lockstep status, jobs and stop: real jobs, looked at and stopped from another terminal."""
import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import PROGRAM
from jobs import checkpoints_of, end, is_running, state_of, steps_done, wait_until, workers_of

TRAIN = ["train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report", "--json",
         "--threads", "1", "--global-batch", "32"]
LONG = [*TRAIN, "--steps", "1000000", "--out", "run"]


@pytest.fixture(autouse=True)
def own_list(tmp_path, monkeypatch):
    """The list of jobs is this test's own."""
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def started(lockstep):
    """Starts jobs, which end with the test."""
    processes = []

    def start(*words):
        processes.append(lockstep.start(*words))
        return processes[-1]
    yield start
    for process in processes:
        end(process)


def start_training(lockstep, started, *words):
    process = started(*LONG, *words)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 3 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def status(lockstep, code=0, run="run"):
    return json.loads(lockstep.run("status", run, "--json", status=code).out)


def read_status(lockstep):
    try:
        return json.loads((lockstep.folder / "run" / "status.json").read_text())
    except FileNotFoundError:
        return {"members": []}


def jobs(lockstep):
    return json.loads(lockstep.run("jobs", "--json", status=0).out)


def test_a_running_job_says_who_is_in_it_and_what_they_do(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2)
    wait_until(lambda: len([one for one in read_status(lockstep)["members"] if one["step"] > 0]) == 2)
    seen = status(lockstep)
    assert (seen["verdict"], seen["state"], seen["recipe"]) == ("running", "training", "mnist-mlp")
    assert (seen["workers"], seen["servers"], seen["generation"]) == (2, 0, 1)
    assert seen["step"] > 0 and seen["total_steps"] == 1000000 and seen["samples_per_s"] > 0
    assert seen["launcher"]["pid"] == process.pid
    workers = workers_of(process)
    assert [(one["role"], one["rank"], one["pid"]) for one in seen["members"]] == [
        ("worker", 0, workers[0]), ("worker", 1, workers[1])]
    assert [one["shards"] for one in seen["members"]] == [[0, 4], [4, 8]]
    assert all(one["compute_s"] > 0 and one["bytes_sent"] > 0 for one in seen["members"])
    assert all(one["heard_s"] < 5 for one in seen["members"])
    text = lockstep.run("status", "run", status=0).out
    assert "run: running, step " in text and "worker 1" in text and str(workers[1]) in text


def test_servers_are_members_too(lockstep, started):
    start_training(lockstep, started, "--workers", 2, "--servers", 1, "--kvstore", "ps_sync")
    wait_until(lambda: len(read_status(lockstep)["members"]) == 3)
    members = status(lockstep)["members"]
    assert [(one["role"], one["rank"]) for one in members] == [
        ("worker", 0), ("worker", 1), ("server", 0)]
    assert members[2]["pid"] > 0 and members[2]["shards"] == [0, 0]


def test_a_process_alone_has_a_status_as_well(lockstep, started):
    process = start_training(lockstep, started)
    wait_until(lambda: read_status(lockstep).get("step", 0) > 0)
    seen = status(lockstep)
    assert (seen["verdict"], seen["workers"], seen["launcher"]["pid"]) == ("running", 1, process.pid)
    assert [one["pid"] for one in seen["members"]] == [process.pid]


def test_who_is_stopped_is_waited_for_and_named(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2, "--fail-fast")
    stopped = workers_of(process)[1]
    os.kill(stopped, signal.SIGSTOP)
    try:
        def first_waits():
            members = read_status(lockstep)["members"]
            waiting = members[0]["waiting"] if members else None
            return waiting and waiting["rank"] == 1 and waiting["seconds"] > 1
        wait_until(first_waits)
        waiting = status(lockstep)["members"][0]["waiting"]
        assert waiting["operation"] and waiting["rank"] == 1
        text = lockstep.run("status", "run", status=0).out
        assert "waited for: worker 1\n" in text and " for worker 1 in " in text
        wait_until(lambda: read_status(lockstep)["members"][1]["heard_s"] > 3)
        assert "not heard for" in lockstep.run("status", "run", status=0).out
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: read_status(lockstep)["members"][1]["heard_s"] < 3)
    before = read_status(lockstep)["step"]
    wait_until(lambda: read_status(lockstep)["step"] > before)


def test_a_job_whose_first_worker_is_stopped_is_stale(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2)
    wait_until(lambda: read_status(lockstep)["members"])
    first = workers_of(process)[0]
    os.kill(first, signal.SIGSTOP)
    try:
        wait_until(lambda: state_of(first) == "T")
        seen = status(lockstep, code=1)
        assert seen["verdict"] == "stale"
        assert f"somebody stopped worker 0 (SIGSTOP, process {first} on " in seen["reason"]
    finally:
        os.kill(first, signal.SIGCONT)


def test_a_job_that_was_killed_is_dead(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2)
    wait_until(lambda: read_status(lockstep)["members"])
    first = workers_of(process)[0]
    process.kill()
    process.wait()
    wait_until(lambda: not is_running(first))
    seen = status(lockstep, code=1)
    assert seen["verdict"] == "dead" and "is gone without a word" in seen["reason"]
    assert "run: dead, step " in lockstep.run("status", "run", status=1).out


def test_a_job_that_has_finished_says_so(lockstep):
    lockstep.run(*TRAIN, "--steps", 3, "--workers", 2, "--out", "run", status=0)
    seen = status(lockstep)
    assert (seen["verdict"], seen["step"], seen["total_steps"]) == ("finished", 3, 3)
    assert "run: finished, step 3 of 3" in lockstep.run("status", "run", status=0).out


def test_a_job_that_failed_says_why(lockstep):
    lockstep.run(*TRAIN, "--steps", 50, "--learning-rate", "1e30", "--out", "run", status=1)
    seen = status(lockstep, code=1)
    assert seen["verdict"] == "failed" and "train: " in seen["reason"]


def test_a_run_that_never_began_leaves_no_folder(lockstep):
    lockstep.train("mnist-mlp", "--steps", 50, "--global-batch", 100000, "--shards", 8, "--out",
                   "run", status=1)
    assert not (lockstep.folder / "run").exists()


def test_what_is_no_run_has_no_status(lockstep):
    assert "there is no folder 'gone'" in lockstep.run("status", "gone", status=1).complaint
    (lockstep.folder / "empty").mkdir()
    assert "has no config.json" in lockstep.run("status", "empty", status=1).complaint
    (lockstep.folder / "bad").mkdir()
    (lockstep.folder / "bad" / "status.json").write_text("{")
    assert "bad/status.json: is no status" in lockstep.run("status", "bad", status=1).complaint


def test_watching_ends_with_the_job(lockstep, started):
    process = start_training(lockstep, started)
    watcher = subprocess.Popen([PROGRAM, "status", "run", "--watch", "--every", "0.1", "--json"],
                               cwd=lockstep.folder, stdout=subprocess.PIPE, text=True)
    first = json.loads(watcher.stdout.readline())
    assert first["verdict"] == "running"
    process.send_signal(signal.SIGTERM)
    out, _ = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert json.loads(out.splitlines()[-1])["verdict"] == "stopped"


def test_jobs_are_listed_while_they_live(lockstep, started):
    assert jobs(lockstep) == []
    process = start_training(lockstep, started, "--workers", 2)
    wait_until(lambda: jobs(lockstep)[0]["run"])
    (job,) = jobs(lockstep)
    assert (job["name"], job["pid"]) == ("run", process.pid)
    assert job["run"] == str(lockstep.folder / "run") and "--workers 2" in job["command"]
    assert "run" in lockstep.run("jobs", status=0).out
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert jobs(lockstep) == [] and not list((lockstep.folder / "runtime").rglob("*.json"))


def test_an_entry_of_a_dead_job_is_cleaned(lockstep, started):
    process = start_training(lockstep, started)
    assert len(jobs(lockstep)) == 1
    process.kill()
    process.wait()
    assert len(list((lockstep.folder / "runtime").rglob("*.json"))) == 1
    assert jobs(lockstep) == []
    assert not list((lockstep.folder / "runtime").rglob("*.json"))


def test_a_variables_value_is_not_in_the_list(lockstep, started):
    started("launch", "--env", "TOKEN=hush-hush", "--", "sleep", "1000")
    wait_until(lambda: jobs(lockstep))
    (job,) = jobs(lockstep)
    assert "--env TOKEN" in job["command"] and "hush" not in json.dumps(job)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("by", ["folder", "name", "pid"])
def test_a_job_is_stopped_from_another_terminal_and_saved(lockstep, started, workers, by):
    process = start_training(lockstep, started, "--workers", workers)
    wait_until(lambda: jobs(lockstep)[0]["run"])
    which = {"folder": "./run/", "name": "run", "pid": process.pid}[by]
    said = lockstep.run("stop", which, status=0).out
    out, _ = process.communicate(timeout=60)
    result = json.loads(out.strip().splitlines()[-1])
    assert process.returncode == 143 and result["stopped"] is True
    assert checkpoints_of(lockstep.folder / "run")[-1] == result["steps"]
    assert f"at step {result['steps']:,}" in said and "to go on: " in said
    assert status(lockstep)["verdict"] == "stopped"
    assert "does not run: it is stopped" in lockstep.run("stop", "run", status=0).out


def test_a_job_is_ended_at_once(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2)
    workers = workers_of(process)
    os.kill(workers[1], signal.SIGSTOP)  # it cannot finish its step
    lockstep.run("stop", "run", "--now", status=0)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not any(is_running(pid) for pid in workers.values())


def test_a_program_of_ones_own_is_stopped_by_its_name(lockstep, started):
    process = started("launch", "-n", 2, "--", "sleep", "1000")
    wait_until(lambda: len(workers_of(process)) == 2)
    assert "stopped lockstep" in lockstep.run("stop", jobs(lockstep)[0]["name"], status=0).out
    process.communicate(timeout=60)
    assert process.returncode == 143


def test_what_is_no_job_cannot_be_stopped(lockstep):
    assert "'gone' is no job of this host and no run folder" in lockstep.run(
        "stop", "gone", status=1).complaint


def test_a_name_of_several_jobs_is_refused(lockstep, started):
    for folder in ("a", "b"):
        started(*TRAIN, "--steps", "1000000", "--out", f"{folder}/run")
    wait_until(lambda: [one["name"] for one in jobs(lockstep)] == ["run", "run"])
    assert "'run' is the name of several jobs: " in lockstep.run("stop", "run", status=2).complaint
    lockstep.run("stop", "a/run", status=0)
    assert [one["run"] for one in jobs(lockstep)] == [str(lockstep.folder / "b" / "run")]


def on_another_host(lockstep, *words):
    """As a host with another name and the same storage would do it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("another host's name needs root and unshare")
    line = 'hostname elsewhere && exec "$@"'
    variables = {**os.environ, "XDG_RUNTIME_DIR": str(lockstep.folder)}
    return subprocess.run(["unshare", "--uts", "sh", "-c", line, "sh", PROGRAM, *words], text=True,
                          cwd=lockstep.folder, env=variables, capture_output=True, timeout=120)


def test_another_host_that_sees_the_folder_sees_and_stops_the_job(lockstep, started):
    process = start_training(lockstep, started, "--workers", 2)
    wait_until(lambda: read_status(lockstep)["members"])
    seen = on_another_host(lockstep, "status", "run", "--json")
    assert seen.returncode == 0 and json.loads(seen.stdout)["verdict"] == "running"
    refused = on_another_host(lockstep, "stop", "run", "--now")
    assert refused.returncode == 2 and "the job runs on " in refused.stderr
    stopped = on_another_host(lockstep, "stop", "run")
    assert stopped.returncode == 0, stopped.stderr
    out, _ = process.communicate(timeout=60)
    result = json.loads(out.strip().splitlines()[-1])
    assert process.returncode == 143 and result["stopped"] is True
    assert checkpoints_of(lockstep.folder / "run")[-1] == result["steps"]
    assert not (lockstep.folder / "run" / "stop.request").exists()


# A signal to the launcher stops the job, whoever shows it: a guest knows it from the others.
@pytest.mark.parametrize("how", ["folder", "address"])
def test_a_guest_that_has_become_the_first_names_the_launcher(lockstep, started, how):
    process = started(*LONG, "--workers", "2", "--max-restarts", "0")
    run = lockstep.folder / "run"
    wait_until(lambda: steps_done(run) >= 10)
    control = json.loads((run / "control.json").read_text())
    environment = dict(os.environ, LOCKSTEP_SECRET=control["secret"])
    guest = subprocess.Popen(
        [PROGRAM, "join", "run" if how == "folder" else control["coordinator"], "--threads", "1"],
        cwd=lockstep.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: (run / "events.jsonl").exists()
                   and '"joined"' in (run / "events.jsonl").read_text())
        for pid in workers_of(process).values():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: json.loads((run / "status.json").read_text())["writer"]["pid"] == guest.pid)
        status = json.loads((run / "status.json").read_text())
        assert status["launcher"]["pid"] == process.pid
        assert json.loads((run / "control.json").read_text())["launcher"] == control["launcher"]
    finally:
        guest.kill()
        guest.wait()
