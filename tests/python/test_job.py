# SPDX-License-Identifier: Apache-2.0
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import lockstep as ls

JOB = os.path.join(os.path.dirname(__file__), "job.py")


def run(command):
    out = subprocess.run([*command, sys.executable, JOB], capture_output=True, text=True,
                         timeout=300)
    assert out.returncode == 0, out.stderr
    (line,) = [line for line in out.stdout.splitlines() if "know " in line]
    return line.split("know ")[1]


def test_a_process_alone_is_a_group_of_one():
    assert run([]) == "[[1.0, 1.0, 1.0, -1.0]] [[0]] 1"


def test_workers_hear_each_other(program):
    known = [[6.0, 3.0, 3.0, -6.0]] * 3
    assert run([program, "launch", "-n", "3", "--"]) == f"{known} [[0], [1], [2]] 3"


def test_servers_keep_the_store(program):
    known = [[3.0, 2.0, 2.0, -3.0]] * 2
    assert run([program, "launch", "-n", "2", "-s", "1", "--"]) == f"{known} [[0], [1]] 2"


def test_mistakes_are_told():
    job = ls.join_job()
    assert (job.rank, job.workers, job.is_first) == (0, 1, True) and "worker 0 of 1" in repr(job)
    with pytest.raises(ValueError, match="sum, min, max"):
        job.all_reduce(ls.ones(1), "mean")
    with pytest.raises(ValueError, match="bool"):
        job.all_reduce(ls.ones(1, "bool"))
    with pytest.raises(ValueError):
        ls.kvstore.create("ps_sync", job)


OUT_OF_STEP = """
import numpy as np
import lockstep as ls
job = ls.join_job(kvstore="ps_async")
rng = np.random.default_rng(0)
x = rng.normal(size=(256, 6)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int64")
trainer = ls.Trainer(ls.nn.dense(2), ls.nn.SoftmaxCrossEntropyLoss(),
                     ls.optim.sgd(learning_rate=0.3), global_batch=32, seed=1, job=job)
result = trainer.fit((x, y), epochs=10)
if job.is_first:
    print("learnt", trainer.evaluate((x, y)).accuracy > 0.9, result.is_first, result.is_dismissed)
"""


def test_servers_may_be_asked_not_to_wait(program, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(OUT_OF_STEP)
    out = subprocess.run([program, "launch", "-n", "2", "-s", "1", "--", sys.executable, script],
                         capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    assert "learnt True True False" in out.stdout
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert alone.returncode != 0 and "ps_async" in alone.stderr


SURVIVING = os.path.join(os.path.dirname(__file__), "surviving_job.py")


def start_surviving(program, folder, *wishes, workers=3):
    folder.mkdir()
    return subprocess.Popen([program, "launch", "-n", str(workers), "--", sys.executable, SURVIVING,
                             folder, *wishes], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def process_of(job, folder, rank):
    for _ in range(12000):
        for file in folder.glob(f"worker-{rank}.*"):
            return int(file.name.split(".")[1])
        assert job.poll() is None, job.communicate()
        time.sleep(0.01)
    raise TimeoutError(f"worker {rank} has not come to its first step")


def end_of(job):
    out, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    return (out + errors).splitlines(), errors


def ends_in(lines):
    """What each worker said in the end, with as many workers as said something."""
    ends = [line.split("end ")[1] for line in lines if "end " in line and "[[" in line]
    assert sum(end.startswith("True") for end in ends) == 1, lines
    ranks = [[rank] for rank in range(len(ends))]
    assert {end.split(" ", 1)[1] for end in ends} == {f"{len(ends)} {float(len(ends))} {ranks}"}
    return ends


@pytest.mark.parametrize("wishes", [[], ["collectives"]])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_job_knows_its_present_workers(program, tmp_path, rank, wishes):
    folder = tmp_path / "job"
    job = start_surviving(program, folder, *wishes)
    others = [process_of(job, folder, other) for other in range(3)]
    os.kill(others[rank], signal.SIGKILL)
    (folder / "go").touch()
    lines, errors = end_of(job)
    assert len(ends_in(lines)) in (2, 3), errors  # another one may have come in time
    # Whichever was noticed before the short run was over.
    assert re.search(r"worker \d (was ended by signal 9|is lost)", errors), errors


def test_collectives_after_a_run_are_of_all_workers(program, tmp_path):
    folder = tmp_path / "job"
    job = start_surviving(program, folder)
    (folder / "go").touch()
    lines, errors = end_of(job)
    assert len(ends_in(lines)) == 3
    again = [line for line in lines if "again " in line]
    assert len(again) == 3 and all("has one run" in line for line in again), errors


def test_a_job_of_a_module_is_left_in_order(program, tmp_path):
    folder = tmp_path / "job"
    job = start_surviving(program, folder, "end", workers=2)
    (folder / "go").touch()
    lines, errors = end_of(job)
    assert len([line for line in lines if "first " in line]) == 1, lines
    assert "lost" not in errors


FAILING = """
import sys
import lockstep as ls
def main():
    job = ls.join_job()
    job.barrier()
    if job.rank == 1:
        raise ValueError("the cause")
    job.barrier()
main()
"""


def test_the_first_cause_is_told(program, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FAILING)
    for _ in range(3):
        out = subprocess.run([program, "launch", "-n", "2", "--", sys.executable, script],
                             capture_output=True, text=True, timeout=300)
        assert out.returncode == 1
        assert "worker 1" in out.stderr.splitlines()[-1], out.stderr
