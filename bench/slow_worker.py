#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training job in several modes while one of its workers is slow: it is stopped (SIGSTOP)
for some of the time. Prints a line of JSON for each mode, and how many times faster than the
first it was.

    bench/slow_worker.py --program build/bin/lockstep --workers 4 --servers 1 --steps 400
    bench/slow_worker.py --stopped 0.75 --every 0.1 \\
        --modes "allreduce --deal even" "allreduce --deal speed"
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            found += map(int, open(f"/proc/{pid}/task/{task}/children").read().split())
        except OSError:
            continue
    return found


def find_worker(pid, rank):
    """The process below `pid` that is the worker of that rank."""
    for child in children_of(pid):
        try:
            items = open(f"/proc/{child}/environ", errors="replace").read().split("\0")
            below = find_worker(child, rank)
        except OSError:
            continue
        if below:
            return below
        if f"LOCKSTEP_RANK={rank}" in items and "LOCKSTEP_ROLE=server" not in items:
            return child
    return None


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def slow_down(process, rank, stopped, every):
    """Until the job has ended."""
    while process.poll() is None:
        worker = find_worker(process.pid, rank)
        if worker:
            send(worker, signal.SIGSTOP)
        time.sleep(stopped * every)
        if worker:
            send(worker, signal.SIGCONT)
        time.sleep((1.0 - stopped) * every)


def train(options, mode):
    with tempfile.TemporaryDirectory() as folder:
        words = [options.program, "train", options.recipe, "--data", options.data, "--json",
                 "--quiet", "--no-report", "--out", os.path.join(folder, "run"), "--steps",
                 str(options.steps), "--workers", str(options.workers), "--threads", "1",
                 "--kvstore", *mode.split()]
        if mode.startswith("ps_"):
            words += ["--servers", str(options.servers)]
        process = subprocess.Popen(words + options.rest, stdout=subprocess.PIPE, text=True)
        slow_down(process, options.workers - 1, options.stopped, options.every)
        out = process.communicate()[0]
        if process.returncode != 0:
            sys.exit(f"slow_worker: {mode} ended with status {process.returncode}")
        return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="build/bin/lockstep")
    parser.add_argument("--recipe", default="mnist-lenet")
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--stopped", type=float, default=0.3, help="part of the time")
    parser.add_argument("--every", type=float, default=1.0, help="seconds of a turn")
    parser.add_argument("--modes", nargs="+",
                        default=["ps_sync", "ps_async", "ps_ssp --staleness 3"])
    parser.add_argument("rest", nargs="*", help="more words for lockstep train, after --")
    options = parser.parse_args()
    first = None
    for mode in options.modes:
        result = train(options, mode)
        first = first or result["seconds"]
        print(json.dumps({"mode": mode, "seconds": round(result["seconds"], 2),
                          "times_the_first": round(first / result["seconds"], 2),
                          "samples_per_s": round(result["samples_per_s"], 1),
                          "train_loss": result["train_loss"],
                          "test_accuracy": result["test_accuracy"],
                          "params_sha256": result["params_sha256"],
                          "deal": result.get("deal"),
                          "pushes": result.get("pushes")}), flush=True)


if __name__ == "__main__":
    main()
