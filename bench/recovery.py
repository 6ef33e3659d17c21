#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a job takes to go on when it loses a worker: from the signal to the next step that is
committed. One of its workers is killed (SIGKILL) or stopped (SIGSTOP), again and again, each time
when all are there. Prints a line of JSON for each kind with p50 and p99, in seconds.

    bench/recovery.py --program build/bin/lockstep --recipe cifar-cnn --workers 4 --repetitions 50

The signal's time is this program's own; the step's is that of the line in metrics.jsonl, by the
same clock: the first line after it that has another step. `coordinator` is the part from when the
loss was noticed to the new generation (events.jsonl).
"""
import argparse
import json
import os
import pathlib
import signal
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
        self.step, self.workers, self.noticed = 0, options.workers, []

    def read(self):
        """Takes what is new; returns whether there is another step."""
        for event in self.events.read():
            if event["event"] == "generation":
                self.workers = event["workers"]
                self.noticed.append(event["seconds"])
        steps = [line["step"] for line in self.metrics.read() if "learning_rate" in line]
        moved = bool(steps) and steps[-1] > self.step
        self.step = max([self.step, *steps])
        return moved

    def is_whole(self, workers, step):
        self.read()
        return self.workers == workers and self.step >= step


def measure(options, number):
    times, noticed = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, folder)
        try:
            for i in range(options.repetitions):
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
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="build/bin/lockstep")
    parser.add_argument("--recipe", default="cifar-cnn")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--pause", type=int, default=5, help="steps between two losses")
    parser.add_argument("--heartbeat", type=float, default=3, help="seconds")
    parser.add_argument("--kinds", nargs="+", default=["SIGKILL", "SIGSTOP"])
    parser.add_argument("rest", nargs="*", help="more words for lockstep train, after --")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    for kind in options.kinds:
        times, noticed = measure(options, signal.Signals[kind])
        print(json.dumps({"kind": kind, "recipe": options.recipe, "workers": options.workers,
                          "heartbeat": options.heartbeat, "repetitions": len(times),
                          "p50": percentile(times, 0.5), "p99": percentile(times, 0.99),
                          "coordinator_p50": percentile(noticed, 0.5),
                          "coordinator_p99": percentile(noticed, 0.99)}), flush=True)


if __name__ == "__main__":
    main()
