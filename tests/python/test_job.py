# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

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
