#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether servers compute the bits of one process: bench/served_bits.py PROGRAM [--sample N]

Trains each recipe with each rule for a few steps in one process, then with parameter servers
(ps_sync) and without (allreduce), on several numbers of servers, workers and threads, and compares
params_sha256. Ends with 1 when one differs or does not run.

    bench/served_bits.py build/bin/lockstep --sample 60 --only recsys-mf
"""
import argparse
import itertools
import random
import sys
import tempfile
from pathlib import Path

from same_bits import RECIPES, RULES, STEPS, run

SIZES = {name: RECIPES[name] for name in ("mnist-lenet", "cifar-resnet18", "text-lstm")}
SIZES["recsys-mf"] = SIZES["recsys-dlrm"] = ["--global-batch", "64"]
SERVERS = (0, 1, 2, 3)  # 0: allreduce
WORKERS = (1, 2, 3, 4, 5)
THREADS = (1, 2)


def hash_of(program, recipe, rule, words, steps):
    with tempfile.TemporaryDirectory() as folder:
        return run(program, Path(folder) / "run",
                   [recipe, *SIZES[recipe], "--shards", "8", *RULES[rule], "--steps", str(steps),
                    *words])


def words_of(servers, workers, threads):
    store = ["--kvstore", "ps_sync", "--servers", str(servers)] if servers else []
    return [*store, "--workers", str(workers), "--threads", str(threads)]


def all_cases(only):
    for case in itertools.product(SIZES, RULES, SERVERS, WORKERS, THREADS):
        name = "{} {} servers={} workers={} threads={}".format(*case)
        if only in name:
            yield name, case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--sample", type=int, help="so many cases, drawn from all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--only", default="", help="cases whose name has these words")
    options = parser.parse_args()
    cases = list(all_cases(options.only))
    if options.sample is not None and options.sample < len(cases):
        cases = random.Random(options.seed).sample(cases, options.sample)
    program, alone, failed = options.program.resolve(), {}, 0
    for number, (name, (recipe, rule, *numbers)) in enumerate(cases, 1):
        try:
            if (recipe, rule) not in alone:
                alone[recipe, rule] = hash_of(program, recipe, rule, [], options.steps)
            its = hash_of(program, recipe, rule, words_of(*numbers), options.steps)
            why = "" if its == alone[recipe, rule] else f"{its[:16]}, alone {alone[recipe, rule][:16]}"
        except (RuntimeError, OSError) as error:
            why = str(error)
        if why:
            failed += 1
            print(f"DIFFERENT {name}: {why}", flush=True)
        print(f"\r{number} of {len(cases)}, {failed} different", end="", file=sys.stderr, flush=True)
    print(f"\n{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
