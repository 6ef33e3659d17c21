# SPDX-License-Identifier: Apache-2.0
"""lockstep inside a real mpirun and a real Slurm: the same bits, and a clear end."""
import json
import os
import shutil
import signal
import subprocess
import uuid

import pytest

import slurm
from conftest import PROGRAM, ROLES, SHOW_ROLE
from jobs import (checkpoints_of, environment, is_running, processes_with, steps_done,
                  wait_until)

TRAIN = ["train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report", "--json",
         "--threads", "1"]
FEW = ["--steps", "4", "--global-batch", "32"]
LONG = ["--steps", "100000", "--global-batch", "32"]
RANK = {"mpirun": "OMPI_COMM_WORLD_RANK", "srun": "SLURM_PROCID"}


@pytest.fixture(scope="session")
def one_machine_slurm(tmp_path_factory):
    if reason := slurm.why_not():
        pytest.skip(reason)
    cluster = slurm.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Launcher:
    """Starts programs as several tasks; each carries a mark by which it is found."""
    def __init__(self, name, command, variables, folder):
        self.rank_variable = RANK[name]
        self.command = command
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.meetings = folder / "meetings"
        self.environment = {**variables, "LOCKSTEP_TEST_MARK": self.mark,
                            "LOCKSTEP_MEETING_DIR": str(self.meetings)}

    def start(self, tasks, *words):
        return subprocess.Popen([*self.command, "-n", str(tasks), PROGRAM, *words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                env=self.environment)

    def run(self, tasks, *words):
        process = self.start(tasks, *words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def tasks(self):
        """Process ids by rank."""
        ours = [pid for pid in processes_with("LOCKSTEP_TEST_MARK", self.mark)
                if os.path.basename(os.path.realpath(f"/proc/{pid}/exe")) == "lockstep"]
        return {int(environment(pid)[self.rank_variable]): pid for pid in ours}

    def stop(self, process):
        """SIGTERM comes to the tasks, as when a Slurm job has used its time up."""
        if self.command[0] == "mpirun":
            return process.send_signal(signal.SIGINT)
        task = environment(self.tasks()[0])
        step = f"{task['SLURM_JOB_ID']}.{task['SLURM_STEP_ID']}"
        return subprocess.run(["scancel", "--signal=TERM", step], env=self.environment, check=True,
                              timeout=30)


@pytest.fixture(params=["mpirun", "srun"])
def launcher(request, tmp_path):
    if request.param == "srun":
        cluster = request.getfixturevalue("one_machine_slurm")
        return Launcher("srun", ["srun", "--overlap"], cluster.environment, tmp_path)
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return Launcher("mpirun", command, dict(os.environ), tmp_path)


def test_tasks_of_a_scheduler_give_the_bits_of_one_process(launcher, lockstep):
    alone = lockstep.run(*TRAIN, *FEW, "--out", "alone").json
    for tasks, transport in [(2, "auto"), (3, "tcp")]:
        status, out, err = launcher.run(tasks, *TRAIN, *FEW, "--transport", transport, "--out",
                                        f"out-{transport}")
        assert status == 0, err
        result = json.loads(out.strip().splitlines()[-1])
        assert result["workers"] == tasks
        assert result["params_sha256"] == alone["params_sha256"]
    assert not launcher.meetings.exists() or not os.listdir(launcher.meetings)


def test_the_last_tasks_are_servers_where_a_job_has_some(launcher):
    process = subprocess.run([*launcher.command, "-n", "3", SHOW_ROLE], text=True, timeout=120,
                             capture_output=True, cwd=launcher.folder,
                             env={**launcher.environment, "LOCKSTEP_SERVERS": "1"})
    assert process.returncode == 0, process.stderr
    assert sorted(process.stdout.splitlines()) == ROLES


def test_tasks_that_are_servers_keep_the_parameters_of_the_others(launcher, lockstep):
    alone = lockstep.run(*TRAIN, *FEW, "--out", "alone").json
    launcher.environment = {**launcher.environment, "LOCKSTEP_SERVERS": "2"}
    status, out, err = launcher.run(4, *TRAIN, *FEW, "--kvstore", "ps_sync", "--out", "out")
    assert status == 0, err
    result = json.loads(out.strip().splitlines()[-1])
    assert (result["workers"], result["servers"], result["kvstore"]) == (2, 2, "ps_sync")
    assert result["params_sha256"] == alone["params_sha256"]


def check_it_goes_on_without_a_task(launcher, lockstep):
    words = [*TRAIN, "--steps", "4000", "--global-batch", "32"]
    alone = lockstep.run(*words, "--out", "alone", timeout=120).json
    process = launcher.start(3, *words, "--out", "run")
    wait_until(lambda: steps_done(launcher.folder / "run") >= 3 or process.poll() is not None)
    os.kill(launcher.tasks()[1], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    result = json.loads(out.strip().splitlines()[-1])
    assert result["params_sha256"] == alone["params_sha256"] and result["recoveries"], err
    assert "worker 1 is lost" in err and "generation 2: 2 workers go on" in err


def test_a_task_that_is_killed_does_not_end_the_step_of_slurm(one_machine_slurm, tmp_path, lockstep):
    check_it_goes_on_without_a_task(
        Launcher("srun", ["srun", "--overlap", "--kill-on-bad-exit=0"],
                 one_machine_slurm.environment, tmp_path), lockstep)


def test_ranks_that_mpirun_leaves_alone_go_on(tmp_path, lockstep):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
               "--enable-recovery"]
    check_it_goes_on_without_a_task(Launcher("mpirun", command, dict(os.environ), tmp_path), lockstep)


def test_a_task_that_is_killed_ends_a_job_that_fails_fast_and_leaves_nothing(launcher):
    process = launcher.start(3, *TRAIN, *LONG, "--fail-fast", "--out", "run")
    wait_until(lambda: steps_done(launcher.folder / "run") >= 3 or process.poll() is not None)
    tasks = launcher.tasks()
    assert sorted(tasks) == [0, 1, 2]
    os.kill(tasks[1], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0, err
    wait_until(lambda: not any(is_running(pid) for pid in tasks.values()))


@pytest.mark.parametrize("transport", ["auto", "tcp", "mpi"])
def test_a_job_that_is_stopped_finishes_its_step_and_keeps_it(launcher, transport):
    if transport == "mpi" and launcher.command[0] != "mpirun":
        pytest.skip("only mpirun connects tasks by mpi")
    run = launcher.folder / "run"
    process = launcher.start(2, *TRAIN, *LONG, "--transport", transport, "--out", "run")
    wait_until(lambda: steps_done(run) >= 3 or process.poll() is not None)
    tasks = launcher.tasks()
    assert sorted(tasks) == [0, 1]
    launcher.stop(process)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0, err
    wait_until(lambda: not any(is_running(pid) for pid in tasks.values()))
    assert checkpoints_of(run)[-1:] == [steps_done(run)], err
    name = os.path.basename(launcher.command[0])
    assert (f"stopped after step {steps_done(run)}; to go on: {name} -n 2 {PROGRAM} train mnist-mlp "
            f"--resume --out run --threads 1 --transport {transport}\n") in err


def complaints(err):
    return [line for line in err.splitlines() if line.startswith("lockstep: ")]


def test_wrong_usage_is_said(launcher):
    """By the first task; by others too, where that does not end them soon."""
    status, _, err = launcher.run(3, "train", "mnist-mlp", "--no-such-option")
    assert status == 2
    (line,) = set(complaints(err))
    assert "--no-such-option" in line


def test_wrong_usage_of_another_than_the_first_task_is_said(launcher):
    if launcher.command[0] != "mpirun":
        pytest.skip("a job of several programs")
    status, _, err = launcher.run(1, *TRAIN, *LONG, ":", "-n", "1", PROGRAM, "train", "mnist-mlp",
                                  "--no-such-option")
    assert status == 2, err
    assert any("--no-such-option" in line for line in complaints(err)), err


def test_more_tasks_than_shards_end_with_a_clear_line(launcher):
    status, _, err = launcher.run(3, *TRAIN, *FEW, "--shards", "2", "--out", "run")
    assert status != 0
    (line,) = set(complaints(err))
    assert "3" in line and "--shards 2" in line
    assert not (launcher.folder / "run").exists()


def test_the_doctor_examines_the_tasks_of_a_scheduler(launcher):
    status, out, err = launcher.run(2, "doctor", "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["ok"] and len(report["members"]) == 2 and len(report["links"]) == 1


def test_without_a_common_folder_tasks_name_the_file_that_they_miss(one_machine_slurm, tmp_path):
    launcher = Launcher("srun", ["srun", "--overlap"], one_machine_slurm.environment, tmp_path)
    launcher.environment["LOCKSTEP_MEETING_DIR"] = "/proc/nowhere"
    status, _, err = launcher.run(2, "doctor", "--timeout", "2")
    assert status != 0
    assert "lockstep: /proc/nowhere: cannot be made" in err


SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "packaging", "train.sbatch")


def test_a_batch_job_that_is_requeued_goes_on_where_it_was(one_machine_slurm, lockstep):
    if slurm.find("sbatch") is None:
        pytest.skip("sbatch is not installed")
    run = lockstep.folder / "run"
    words = ["mnist-mlp", "--data", "synthetic", "--quiet", "--no-report", "--json", "--threads", "1",
             "--global-batch", "32", "--checkpoint-every", "10", "--schedule", "constant",
             "--warm-up", "0", "--steps"]
    variables = {**one_machine_slurm.environment, "LOCKSTEP": os.path.abspath(PROGRAM),
                 "LOCKSTEP_RUN": str(run), "LOCKSTEP_MEETING_DIR": str(lockstep.folder)}

    def slurm_does(*command):
        outcome = subprocess.run(command, env=variables, cwd=lockstep.folder, text=True,
                                 capture_output=True, timeout=60)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout.strip()

    def state():
        text = slurm_does("scontrol", "show", "job", job)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    job = slurm_does("sbatch", "--parsable", "--ntasks", "2", "--cpus-per-task", "1", SCRIPT, *words,
                     "1000000")
    try:
        wait_until(lambda: steps_done(run) >= 20)
        slurm_does("scontrol", "requeue", job)
        wait_until(lambda: state()["JobState"] == "PENDING")
        done = checkpoints_of(run)[-1]
        assert done > 0
        slurm_does("scontrol", "update", f"JobId={job}", "StartTime=now")  # else in two minutes
        wait_until(lambda: state()["JobState"] == "RUNNING" and steps_done(run) > done + 20, 240)
        assert state()["Restarts"] == "1"
    finally:
        slurm_does("scancel", job)
    wait_until(lambda: not processes_with("LOCKSTEP_RUN", str(run)))
    last = checkpoints_of(run)[-1]
    assert last > done
    result = lockstep.run("train", *words, last + 3, "--resume", "auto", "--out", run).json
    alone = lockstep.run("train", *words, last + 3, "--out", "alone").json
    assert result["resumed_from_step"] == last
    assert result["params_sha256"] == alone["params_sha256"]
