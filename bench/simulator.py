#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measured beside simulated: jobs of several workers, each in a network namespace of its own, on a
shaped link; and the same jobs in the simulator. Prints a line of JSON for each placement, with the
measured and the simulated step and how far apart they are, and at the end whether both have the
placements in the same order. Sides take turns, and the fastest of the rounds counts on both. Needs
root, ip, tc, unshare and nsenter, and as many free cores as workers.

    bench/simulator.py --recipe char-gpt --workers 2 --link 1gbit --steps 12 --rounds 3
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile


def words(text):
    return [word for word in text.split(" ") if word]


class Namespaces:
    """One for each worker, all on a bridge in one more; shaped where each sends."""

    def __init__(self, count, rate):
        self.holders = [subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname host{i}; echo; exec sleep 7200"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for i in range(count + 1)]
        try:
            self.connect(count, rate)
        except Exception:
            self.stop()
            raise

    def connect(self, count, rate):
        for holder in self.holders:
            holder.stdout.readline()  # it is inside
        self.on(count, "ip link add middle type bridge")
        self.on(count, "ip link set middle up")
        for side in range(count):
            self.on(side, "ip link set lo up")
            self.on(side, f"ip link add wire type veth peer name wire{side} netns "
                          f"{self.holders[count].pid}")
            self.on(side, f"ip address add {self.address(side)}/24 dev wire")
            self.on(side, "ip link set wire up")
            self.on(count, f"ip link set wire{side} master middle up")
            self.on(side, f"tc qdisc add dev wire root tbf rate {rate} burst 256kb latency 50ms")

    def address(self, side):
        return f"10.79.0.{side + 1}"

    def inside(self, side):
        own = f"/proc/{self.holders[side].pid}/ns"
        return ["nsenter", f"--net={own}/net", f"--uts={own}/uts"]

    def on(self, side, line):
        subprocess.run([*self.inside(side), *words(line)], check=True)

    def stop(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


def job(options):
    return ["--global-batch", str(options.global_batch), "--shards", str(options.shards),
            *options.words]


def measure(options, spaces, placement, folder):
    """Seconds of a step, of all but the first two. Workers find each other as pods do."""
    environment = dict(os.environ, LOCKSTEP_SECRET="benchmark",
                       LOCKSTEP_COORDINATOR=f"{spaces.address(0)}:{options.port}",
                       LOCKSTEP_WORKERS=str(options.workers))
    command = [options.program, "train", options.recipe, "--data", "synthetic", "--threads", "1",
               "--steps", str(options.steps), "--quiet", "--no-report", "--json", *job(options),
               *placement]
    processes = []
    for rank in range(options.workers):
        own = tempfile.mkdtemp(dir=folder)
        processes.append(subprocess.Popen(
            ["taskset", "-c", str(rank % os.cpu_count()), *spaces.inside(rank), *command, "--out",
             f"{own}/run"], cwd=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(environment, JOB_COMPLETION_INDEX=str(rank))))
    ends = [process.communicate(timeout=1800) for process in processes]
    for process, (_, said) in zip(processes, ends):
        if process.returncode != 0:
            sys.exit(f"{placement}: {said}")
    result = json.loads(ends[0][0].strip().splitlines()[-1])
    return result["global_batch"] / result["samples_per_s"]


def simulate(options, placement):
    command = [options.program, "simulate", options.recipe, "--workers", str(options.workers),
               "--hosts", str(options.workers), "--links", f"{options.link},{options.latency}",
               "--threads", "1", "--jitter", "0", "--json", *job(options), *placement]
    done = subprocess.run(["taskset", "-c", "0", *command], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def placements(options):
    yield []
    for stage in (1, 2):
        yield ["--shard-state", str(stage)]
    for stages in range(2, options.workers + 1):
        if options.workers % stages == 0:
            yield ["--segments", str(stages), "--pipeline", str(stages)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/lockstep")
    parser.add_argument("--recipe", default="char-gpt")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--latency", default="30us", help="that such a link has by itself")
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=45231)
    parser.add_argument("words", nargs="*", help="of the job: --width 128")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    if not re.fullmatch(r"[0-9.]+[kmg]?bit", options.link):
        sys.exit(f"--link {options.link}: expected a rate as tc has it, such as 1gbit")
    spaces = Namespaces(options.workers, options.link)
    rows = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for placement in placements(options):
                measured, simulated = [], []
                for _ in range(options.rounds):
                    simulated.append(simulate(options, placement))
                    measured.append(measure(options, spaces, placement, folder))
                best = min(simulated, key=lambda one: one["step_s"])
                rows.append({"recipe": options.recipe, "workers": options.workers,
                             "link": options.link,
                             "placement": " ".join(placement) or "data parallel",
                             "measured_s": min(measured), "simulated_s": best["step_s"],
                             "simulated_over_measured": best["step_s"] / min(measured),
                             "computing_s": best["computing_s"], "bubble_s": best["bubble_s"],
                             "communication_s": best["communication_s"],
                             "measured_rounds_s": measured})
                print(json.dumps(rows[-1]), flush=True)
    finally:
        spaces.stop()
    order = [[row["placement"] for row in sorted(rows, key=lambda row: row[key])]
             for key in ("measured_s", "simulated_s")]
    print(json.dumps({"same_order": order[0] == order[1], "measured_order": order[0],
                      "simulated_order": order[1],
                      "worst": max((abs(row["simulated_over_measured"] - 1) for row in rows))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
