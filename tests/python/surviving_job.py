# SPDX-License-Identifier: Apache-2.0
"""A worker of a job that survives. FOLDER gets a file of each worker's process; the first step waits
there for a file "go". Every worker says what its job has become in the end."""

import ctypes
import os
import pathlib
import sys
import threading
import time

import numpy as np

import lockstep as ls

folder = pathlib.Path(sys.argv[1])
wishes = sys.argv[2:]
job = ls.join_job(survives=True)
seen = set()


def look():
    return job.rank, job.workers, job.is_first, repr(job)


def watch(done):
    while not done.wait(0.001):
        look()  # each of them may be of another generation


def on_step(context, event):
    seen.add(look())
    if event.step == 1:
        (folder / f"worker-{job.rank}.{os.getpid()}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
    if "collectives" in wishes:
        assert job.all_reduce(ls.ones(1)).item() == job.workers


rng = np.random.default_rng(0)
x = rng.normal(size=(256, 6)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int64")
trainer = ls.Trainer(ls.nn.dense(2), ls.nn.SoftmaxCrossEntropyLoss(),
                     ls.optim.sgd(learning_rate=0.3), global_batch=64, shards=4, seed=1, job=job)
done = threading.Event()
watcher = threading.Thread(target=watch, args=(done,))
watcher.start()
result = trainer.fit((x, y), steps=200, callbacks=[ls.train.on_step(on_step)])
done.set()
watcher.join()
for rank, workers, is_first, text in seen:
    assert is_first == (rank == 0) and text == f"worker {rank} of {workers}", seen
if result.is_dismissed:
    sys.exit()
assert job.is_first == result.is_first
if "end" not in wishes:
    total = job.all_reduce(ls.ones(1)).item()
    ranks = job.all_gather(ls.tensor([job.rank])).tolist()
    job.barrier()
    print("end", job.is_first, job.workers, total, ranks, flush=True)
    try:
        trainer.fit((x, y), steps=1)
    except ValueError as error:
        print("again", error, flush=True)
else:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(job))  # nothing destroys it when the script ends
    if job.is_first:
        print("first", result.params_sha256, flush=True)
