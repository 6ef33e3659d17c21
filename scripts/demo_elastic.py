#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on 4 workers, kills one and stops one while it runs; others take their places. Shows what
happened, and the sums of the parameters of this run and of one that nobody disturbed."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TRAIN = ["train", "mnist-lenet", "--data", "synthetic", "--steps", "150", "--global-batch", "64",
         "--threads", "1", "--no-report", "--json", "--quiet"]
WAIT = 120  # seconds, for whatever is waited for


def workers_of(launcher):
    """Process ids by the number of the worker."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            items = open(f"/proc/{pid}/environ", errors="replace").read().split("\0")
            parent = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
            grandparent = int(open(f"/proc/{parent}/stat").read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        rank = dict(item.split("=", 1) for item in items if "=" in item).get("LOCKSTEP_RANK")
        if rank and grandparent == launcher:
            found[int(rank)] = int(pid)
    return found


def steps_done(run):
    try:
        return sum("learning_rate" in line for line in open(run / "metrics.jsonl"))
    except FileNotFoundError:
        return 0


def wait_for_step(process, run, step):
    end = time.monotonic() + WAIT
    while steps_done(run) < step and process.poll() is None:
        if time.monotonic() > end:
            raise SystemExit(f"demo: step {step} was not reached within {WAIT} s")
        time.sleep(0.02)


def hit(process, run, step, rank, number):
    wait_for_step(process, run, step)
    pid = workers_of(process.pid).get(rank)
    if pid is None or process.poll() is not None:
        raise SystemExit(f"demo: worker {rank} is not there at step {step}")
    print(f"== step {steps_done(run)}: {number.name} to worker {rank} (pid {pid})", flush=True)
    os.kill(pid, number)


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bin/lockstep")
    with tempfile.TemporaryDirectory(prefix="demo-elastic-") as folder:
        run = pathlib.Path(folder) / "disturbed"
        print("== 4 workers", flush=True)
        process = subprocess.Popen([program, *TRAIN, "--workers", "4", "--out", str(run)],
                                   stdout=subprocess.PIPE, text=True)
        try:
            hit(process, run, 30, 1, signal.SIGKILL)
            hit(process, run, 60, 2, signal.SIGSTOP)
            out, _ = process.communicate(timeout=WAIT)
        finally:
            if process.poll() is None:
                process.kill()
        if process.returncode != 0:
            raise SystemExit(f"demo: the job ended with status {process.returncode}")
        disturbed = json.loads(out.strip().splitlines()[-1])
        print("== events.jsonl", flush=True)
        print((run / "events.jsonl").read_text(), end="")
        print("== 1 worker, undisturbed", flush=True)
        done = subprocess.run([program, *TRAIN, "--out", f"{folder}/whole"], stdout=subprocess.PIPE,
                              text=True, check=True)
        whole = json.loads(done.stdout.strip().splitlines()[-1])
    for recovery in disturbed["recoveries"]:
        print(f"   worker {recovery['member']} {recovery['kind']}: {recovery['workers']} workers went "
              f"on after step {recovery['step']} in {recovery['seconds']:.2f} s")
    print(f"disturbed    {disturbed['params_sha256']}\nundisturbed  {whole['params_sha256']}")
    if disturbed["params_sha256"] != whole["params_sha256"]:
        raise SystemExit("demo: the two differ")
    print("the same bits")


if __name__ == "__main__":
    main()
