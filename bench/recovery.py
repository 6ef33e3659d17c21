#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a job takes to go on when it loses a worker: from the signal to the next step that is
committed. One of its workers is killed (SIGKILL) or stopped (SIGSTOP), again and again, each time
when all are there; or one more joins (join), and leaves again. Prints a line of JSON for each kind
with p50 and p99, in seconds.

    bench/recovery.py --program build/bin/lockstep --recipe cifar-cnn --workers 4 --repetitions 50
    bench/recovery.py --recipe mnist-lenet --kinds join --repetitions 20

The signal's time is this program's own; the step's is that of the line in metrics.jsonl, by the
same clock: the first line after it that has another step. `coordinator` is the part from when the
loss was noticed to the new generation (events.jsonl). Of a join: from the start of its process to
the first step that it computed, and `others_waited`: by how much the longest step since then was
longer than a usual one. --seconds ends each kind, whatever was measured by then.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "cli"))
from jobs import end, is_running, workers_of  # noqa: E402


def wait_until(condition, process, seconds=600):
    limit = time.time() + seconds
    while not condition():
        if process.poll() is not None:
            sys.exit(f"recovery: the job has ended: {process.communicate()[1]}")
        if time.time() > limit:
            sys.exit("recovery: it does not happen")
        time.sleep(0.002)


class Tail:
    """Lines of a file, as they are added."""

    def __init__(self, path):
        self.path, self.file, self.rest = path, None, ""

    def read(self):
        if self.file is None:
            if not self.path.exists():
                return []
            self.file = open(self.path)
        self.rest += self.file.read()
        *lines, self.rest = self.rest.split("\n")
        return [json.loads(line) for line in lines if line]


class Job:
    def __init__(self, options, folder):
        words = [options.program, "train", options.recipe, "--data", "synthetic", "--json", "--quiet",
                 "--no-report", "--out", "run", "--steps", "100000000", "--workers",
                 str(options.workers), "--threads", "1", "--heartbeat", str(options.heartbeat),
                 "--max-restarts", "1000000", "--checkpoint-every", "1000000", "--eval-every",
                 "100000000", *options.rest]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        run = pathlib.Path(folder) / "run"
        self.metrics, self.events = Tail(run / "metrics.jsonl"), Tail(run / "events.jsonl")
        self.step, self.workers, self.noticed, self.times = 0, options.workers, [], []

    def read(self):
        """Takes what is new; returns whether there is another step."""
        for event in self.events.read():
            if event["event"] == "generation":
                self.workers = event["workers"]
                self.noticed.append(event["seconds"])
        rows = [line for line in self.metrics.read() if "learning_rate" in line]
        steps = [row["step"] for row in rows]
        self.times += [row["time"] for row in rows]
        moved = bool(steps) and steps[-1] > self.step
        self.step = max([self.step, *steps])
        return moved

    def is_whole(self, workers, step):
        self.read()
        return self.workers == workers and self.step >= step


def measure_joins(options):
    """Seconds until each computes, and that the others waited for it."""
    times, waited = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, folder)
        limit = time.time() + options.seconds
        try:
            while len(times) < options.repetitions and time.time() < limit:
                after = job.step + options.pause
                wait_until(lambda: job.is_whole(options.workers, after), job.process)
                job.times = []
                begin = time.time()
                guest = subprocess.Popen([options.program, "join", "run", "--threads", "1"],
                                         cwd=folder, stderr=subprocess.DEVNULL)
                wait_until(lambda: job.is_whole(options.workers + 1, 0), job.process)
                before = job.step
                wait_until(lambda: job.read() or job.step > before, job.process)
                times.append(time.time() - begin)
                steps = [b - a for a, b in zip(job.times, job.times[1:])]
                waited.append(max(0.0, max(steps) - statistics.median(steps)) if steps else 0.0)
                guest.terminate()
                guest.wait()
        finally:
            end(job.process)
    return times, waited


def measure(options, number):
    times, noticed = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, folder)
        limit = time.time() + options.seconds
        try:
            for i in range(options.repetitions):
                if time.time() > limit:
                    break
                after = job.step + options.pause
                wait_until(lambda: job.is_whole(options.workers, after), job.process)
                pids = sorted((rank, pid) for rank, pid in workers_of(job.process).items()
                              if is_running(pid))
                victim = pids[i % len(pids)][1]
                job.read()
                job.noticed.clear()
                begin = time.time()
                os.kill(victim, number)
                # A step that was written on its way does not count: a generation has to begin.
                wait_until(lambda: (job.read(), bool(job.noticed))[1], job.process)
                before = job.step
                wait_until(lambda: job.read() or job.step > before, job.process)
                times.append(time.time() - begin)
                noticed.append(job.noticed[0])
        finally:
            end(job.process)
    return times, noticed


def percentile(values, share):
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="build/bin/lockstep")
    parser.add_argument("--recipe", default="cifar-cnn")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--pause", type=int, default=5, help="steps between two losses")
    parser.add_argument("--heartbeat", type=float, default=3, help="seconds")
    parser.add_argument("--kinds", nargs="+", default=["SIGKILL", "SIGSTOP", "join"])
    parser.add_argument("--seconds", type=float, default=1e9, help="the most for a kind")
    parser.add_argument("rest", nargs="*", help="more words for lockstep train, after --")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    for kind in options.kinds:
        is_join = kind == "join"
        times, parts = measure_joins(options) if is_join else measure(options, signal.Signals[kind])
        part = "others_waited" if is_join else "coordinator"
        print(json.dumps({"kind": kind, "recipe": options.recipe, "workers": options.workers,
                          "heartbeat": options.heartbeat, "repetitions": len(times),
                          "p50": percentile(times, 0.5), "p99": percentile(times, 0.99),
                          f"{part}_p50": percentile(parts, 0.5),
                          f"{part}_p99": percentile(parts, 0.99)}), flush=True)


if __name__ == "__main__":
    main()
