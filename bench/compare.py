#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds beside each other: bench/compare.py OLD NEW [--only WORD] [--rounds N]

OLD and NEW are the programs lockstep of two builds. Their sides of `bench step`, `bench train`,
`bench comm` and, where it was built, `bench eager` take turns on this machine, window by window, and
who begins changes from round to round. Printed, one JSON object a line, is the median of the rounds'
ratios new / old (of rates; of times old / new: above 1 is faster now), with the middle half of them.
A whole training over workers is a window of `train --workers`. What the two sides of a training
compute must be the same on one thread and on two; memory is the peak of a step's process.
"""
import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BATCHES = {"mnist-mlp": 128, "mnist-lenet": 128, "cifar-cnn": 128, "cifar-resnet18": 32,
           "text-lstm": 32, "char-gpt": 32}
SCALE_STEPS = {"mnist-mlp": 2000, "mnist-lenet": 200, "cifar-cnn": 60, "cifar-resnet18": 12,
               "text-lstm": 60, "char-gpt": 16}
SHARDS = 8
COLLECTIVES = "all_reduce,all_reduce_shared,all_gather,broadcast"


class Side:
    """A process that computes only while it is asked."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "ended"}
        if "error" in answer:
            raise RuntimeError(f"{' '.join(self.command)}: {answer['error']}")
        return answer

    def window(self, seconds):
        self.process.stdin.write(f"window {seconds}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def in_turns(measures, rounds):
    """measures[i]() in each round, another one first each time: a list of values for each."""
    values = [[] for _ in measures]
    for number in range(rounds):
        order = range(len(measures)) if number % 2 == 0 else reversed(range(len(measures)))
        for i in order:
            values[i].append(measures[i]())
    return values


def report(name, old, new, **more):
    ratios = sorted(b / a for a, b in zip(old, new))
    quarter = len(ratios) // 4
    print(json.dumps({"case": name, "old": round(statistics.median(old), 2),
                      "new": round(statistics.median(new), 2),
                      "new_over_old": round(statistics.median(ratios), 4),
                      "middle_half": [round(ratios[quarter], 4), round(ratios[-1 - quarter], 4)],
                      **more}), flush=True)


def compare_windows(name, commands, rounds, seconds, check=lambda ready: None, facts=()):
    sides = [Side(command) for command in commands]
    check([side.ready for side in sides])
    last = [{}, {}]

    def measure(i):
        last[i] = sides[i].window(seconds)
        return last[i]["samples_per_s"]

    old, new = in_turns([lambda: measure(0), lambda: measure(1)], rounds)
    report(name, old, new, **{fact: [answer[fact] for answer in last] for fact in facts})
    for side in sides:
        side.close()


@functools.cache
def side_word(program, bench):
    """The hidden command of a bench's side; builds of before called them workers."""
    word = f"{bench}-side"
    usage = subprocess.run([str(program), "bench", word, "--help"], capture_output=True, text=True,
                           timeout=60, check=False).stdout
    return word if word in usage else {"step": "worker", "train": "train-worker"}[bench]


def compare_step(programs, model, options):
    commands = [[str(program), "bench", side_word(program, "step"), model] for program in programs]
    compare_windows(f"step {model}", commands, options.rounds, options.seconds,
                    facts=("step_bytes", "peak_rss_bytes_above_idle"))


def compare_train(programs, model, options):
    hashes = {}
    for threads in (1, 2):
        commands = [[str(program), "bench", side_word(program, "train"), model, "--batch",
                     str(BATCHES[model]), "--shards", str(SHARDS), "--threads", str(threads)]
                    for program in programs]

        def check(ready):
            for i, said in enumerate(ready):
                if hashes.setdefault(i, said["params_sha256"]) != said["params_sha256"]:
                    raise RuntimeError(f"{model}: other bits on {threads} threads: {programs[i]}")

        compare_windows(f"train {model} threads={threads}", commands, options.rounds,
                        options.seconds, check)


def train_rate(program, model):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "train", model, "--data", "synthetic", "--workers", "2",
                   "--threads", "1", "--shards", str(SHARDS), "--global-batch",
                   str(BATCHES[model]), "--steps", str(SCALE_STEPS[model]), "--json", "--quiet",
                   "--no-report", "--out", str(Path(folder) / "run")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        return json.loads(done.stdout.strip().splitlines()[-1])["samples_per_s"]


def compare_scale(programs, model, options):
    rounds = max(2, options.rounds // 3)
    old, new = in_turns([lambda p=p: train_rate(p, model) for p in programs], rounds)
    report(f"scale {model} workers=2", old, new)


def comm_rates(program):
    command = [str(program), "bench", "comm", "--no-peer", "--json", "--quick", "--ranks", "2",
               "--collectives", COLLECTIVES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {(row["collective"], row["bytes"]): 1.0 / row["us_p50"] for row in rows if "us_p50" in row}


def compare_comm(programs, options):
    rounds = max(3, options.rounds // 2)
    old, new = in_turns([lambda p=p: comm_rates(p) for p in programs], rounds)
    for case in sorted(old[0]):
        if all(case in rates for rates in old + new):
            report("comm {} {}".format(*case), [1e6 * rates[case] for rates in old],
                   [1e6 * rates[case] for rates in new], unit="calls/s")


def eager_rate(program):
    done = subprocess.run([str(program.parent / "eager_add_bench")], capture_output=True,
                          text=True, timeout=120, check=True)
    return 1e3 / statistics.median(json.loads(line)["ns"] for line in done.stdout.splitlines())


def compare_eager(programs, options):
    old, new = in_turns([lambda p=p: eager_rate(p) for p in programs], options.rounds)
    report("eager add of 16 floats", old, new, unit="calls/us")


def cases(programs):
    for model in BATCHES:
        yield f"step {model}", lambda o, m=model: compare_step(programs, m, o)
    for model in BATCHES:
        yield f"train {model}", lambda o, m=model: compare_train(programs, m, o)
    for model in BATCHES:
        yield f"scale {model}", lambda o, m=model: compare_scale(programs, m, o)
    yield "comm", lambda o: compare_comm(programs, o)
    if all((program.parent / "eager_add_bench").exists() for program in programs):
        yield "eager", lambda o: compare_eager(programs, o)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a window")
    options = parser.parse_args()
    failed = 0
    for name, run in cases([options.old.resolve(), options.new.resolve()]):
        if not name.startswith(options.only):
            continue
        try:
            run(options)
        except (RuntimeError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
