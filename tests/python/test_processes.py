# SPDX-License-Identifier: Apache-2.0
"""Samples that other processes make."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import lockstep as ls
from lockstep import data
from lockstep._processes import Processes
import lockstep.mxnet as mx
from lockstep.mxnet import gluon, nd


class Digits(data.Dataset):
    """Its samples tell who made them."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return np.full((2, 3), i, "float32"), np.int64(os.getpid())


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")")[-1].split()[0] != "Z"


def wait_until(done, seconds=30):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_loaders_processes_make_what_it_would_make_itself():
    def load(processes):
        loader = data.Loader(Digits(), batch=4, shuffle=True, seed=3, processes=processes,
                             transform=lambda x: x.numpy() * 2)
        return [batch for _ in range(2) for batch in loader]

    own, theirs = load(0), load(2)
    assert len(own) == len(theirs) == 12
    for (x, _), (y, _) in zip(own, theirs):
        assert x.dtype == y.dtype and x.tolist() == y.tolist()
    makers = {pid for _, pids in theirs for pid in pids.tolist()}
    assert len(makers) == 2 and os.getpid() not in makers
    assert {pid for _, pids in own for pid in pids.tolist()} == {os.getpid()}


def test_a_run_fed_by_processes_has_the_same_bits():
    class Samples(data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            x = np.random.default_rng(i).normal(size=6).astype("float32")
            return x, int(x[0] > x[1])

    def fit(dataset, **options):
        trainer = ls.Trainer(ls.nn.dense(2), ls.nn.SoftmaxCrossEntropyLoss(),
                             ls.optim.sgd(learning_rate=0.2), global_batch=16, shards=2, seed=3)
        return trainer.fit(dataset, epochs=2, **options).params_sha256

    assert fit(Samples()) == fit(data.in_processes(Samples(), 2), loader_threads=2)


def test_arrays_large_and_small_come_back_as_they_were():
    def make(n):
        return {"array": np.arange(n, dtype="float64"), "tensor": ls.arange(n), "name": "é",
                "half": ls.ones(3).cast("bfloat16"), "none": np.zeros((0, 2), "int8"),
                "window": ls.ones((n, 2))[:, 0]}

    there = Processes(make, 1)
    for n in (3, 100_000):
        made, expected = there(n), make(n)
        assert made["name"] == "é" and made["none"].shape == (0, 2)
        for key in ("array", "tensor", "half", "window"):
            assert made[key].dtype == expected[key].dtype
            assert made[key].tolist() == expected[key].tolist()
        made["tensor"][0] = 5  # the memory is ours
    there.close()


def test_errors_deaths_and_delays_are_told():
    def work(what):
        if what == "error":
            raise KeyError("from there")
        if what == "odd":
            class Odd(Exception):
                def __reduce__(self):
                    raise ValueError

            raise Odd("no pickle")
        if what == "end":
            os._exit(3)
        if what == "late":
            time.sleep(60)
        return what

    there = Processes(work, 1, timeout=20, name="test")
    assert there("fine") == "fine"
    with pytest.raises(KeyError, match="from there") as raised:
        there("error")
    assert "in test process 0" in str(raised.value.__cause__)
    assert "raise KeyError" in str(raised.value.__cause__)
    with pytest.raises(RuntimeError, match="Odd: no pickle"):
        there("odd")
    assert there("fine") == "fine"
    with pytest.raises(RuntimeError, match="test process 0: the process ended with code 3"):
        there("end")
    with pytest.raises(RuntimeError, match="has ended"):
        there("fine")
    slow = Processes(work, 1, timeout=0.3)
    with pytest.raises(TimeoutError, match="within 0.3 s"):
        slow("late")
    slow.close()


def test_processes_end_with_who_started_them(tmp_path):
    pids = Processes(lambda _: os.getpid(), 2)
    seen = {pids(None) for _ in range(2)}
    pids.close()
    assert len(seen) == 2 and not any(alive(pid) for pid in seen)
    script = tmp_path / "script.py"
    script.write_text("import os, time\n"
                      "from lockstep._processes import Processes\n"
                      "print(Processes(lambda _: os.getpid(), 1)(0), flush=True)\n"
                      "keep = Processes(lambda _: os.getpid(), 1)\n"
                      "print(keep(0), flush=True)\n"
                      "time.sleep(60)\n")
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    first, second = (int(parent.stdout.readline()) for _ in range(2))
    wait_until(lambda: not alive(first))  # nobody had it any more
    assert alive(second)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not alive(second))


def noisy(x, label):
    return x + np.random.normal(size=x.shape).astype("float32"), label, nd.random.uniform(), \
        np.int64(os.getpid())


def batches(num_workers, **options):
    mx.random.seed(3)
    np.random.seed(4)
    samples = gluon.data.ArrayDataset(np.zeros((12, 3), "float32"), np.arange(12))
    loader = gluon.data.DataLoader(samples.transform(noisy), batch_size=3, num_workers=num_workers,
                                   **options)
    return [[field.asnumpy() for field in batch] for _ in range(2) for batch in loader]


def test_gluons_workers_are_processes_and_their_draws_do_not_depend_on_their_number():
    one, three = batches(1), batches(3)
    assert len(one) == len(three) == 8
    for left, right in zip(one, three):
        for a, b in zip(left[:3], right[:3]):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0][0], one[1][0]) and not np.array_equal(one[0][0], one[4][0])
    makers = {int(pid) for batch in three for pid in batch[3]}
    assert len(makers) > 1 and os.getpid() not in makers
    threads = {int(pid) for batch in batches(2, thread_pool=True) for pid in batch[3]}
    assert threads == {os.getpid()}


def test_gluons_batches_keep_their_kinds():
    samples = [(nd.ones((2,)) * i, [np.float16(i), (i, nd.array([i], dtype="int32"))])
               for i in range(4)]
    for num_workers in (0, 2):
        loader = gluon.data.DataLoader(gluon.data.SimpleDataset(samples), 2,
                                       num_workers=num_workers)
        (x, (half, (number, array))), _ = list(loader)
        assert isinstance(x, nd.NDArray) and x.asnumpy().tolist() == [[0, 0], [1, 1]]
        assert half.dtype == np.float16 and number.asnumpy().tolist() == [0, 1]
        assert array.dtype == np.int32 and array.shape == (2, 1)


def test_gluons_workers_errors_are_raised_where_the_batch_is_asked_for():
    def fail(x):
        raise ValueError(f"no {int(x)}")

    loader = gluon.data.DataLoader(gluon.data.SimpleDataset([1, 2]).transform(fail), 1,
                                   num_workers=1)
    with pytest.raises(ValueError, match="no 1"):
        next(iter(loader))
