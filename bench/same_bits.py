#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two builds compute the same bits: bench/same_bits.py OLD NEW [--quick] [--only WORD]

Runs a matrix of short trainings (recipes, rules, threads, workers, ways of summing, a resume in the
middle) with both programs on this machine and compares their params_sha256. Ends with 1 when one
differs or does not run.
"""
import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPES = {  # shapes that take a second
    "mnist-mlp": ["--global-batch", "64"],
    "mnist-lenet": ["--global-batch", "16"],
    "fashion-lenet": ["--global-batch", "16"],
    "cifar-cnn": ["--global-batch", "8"],
    "cifar-resnet18": ["--global-batch", "16"],
    "text-lstm": ["--global-batch", "8"],
    "char-gpt": ["--global-batch", "8"],
}
RULES = {
    "sgd": [],
    "adam": ["--optimizer", "adam", "--learning-rate", "0.001"],
    "lamb": ["--optimizer", "lamb", "--learning-rate", "0.01"],
    "clip": ["--clip-norm", "0.5"],
}
SUMS = {"tree": [], "ring": ["--algorithm", "ring"], "2bit": ["--compression", "2bit"],
        "topk": ["--compression", "topk:0.1"]}
STEPS = 4


def run(program, folder, words):
    command = [str(program), "train", *words, "--data", "synthetic", "--json", "--quiet",
               "--no-report", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])["params_sha256"]


def cases(quick):
    recipes = ["mnist-mlp", "mnist-lenet", "text-lstm"] if quick else list(RECIPES)
    for recipe, rule, threads, workers, sums in itertools.product(
            recipes, RULES, (1, 2, 3), (1, 2, 3, 5), SUMS):
        if quick and (threads + workers + len(rule) + len(sums)) % 3:
            continue
        yield recipe, rule, threads, workers, sums


def words_of(recipe, rule, threads, workers, sums):
    return [recipe, *RECIPES[recipe], "--shards", "8", *RULES[rule], "--threads", str(threads),
            "--workers", str(workers), *SUMS[sums]]


def hash_of(program, words, resumes):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        if not resumes:
            return run(program, out, [*words, "--steps", str(STEPS)])
        # The middle of a run: the newest checkpoint is taken away, and the one before goes on.
        run(program, out, [*words, "--steps", str(STEPS), "--checkpoint-every", str(STEPS // 2)])
        max((out / "checkpoints").glob("*.ckpt")).unlink()
        return run(program, out, [*words, "--steps", str(STEPS), "--resume"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    options = parser.parse_args()
    same = different = 0
    for number, case in enumerate(cases(options.quick)):
        name = "{} {} threads={} workers={} {}".format(*case)
        if options.only not in name:
            continue
        resumes = number % 4 == 0
        hashes = [hash_of(p.resolve(), words_of(*case), resumes) for p in (options.old, options.new)]
        if hashes[0] == hashes[1]:
            same += 1
        else:
            different += 1
            print(f"DIFFERENT {name}{' resumed' if resumes else ''}: "
                  f"{hashes[0][:16]} and {hashes[1][:16]}", flush=True)
        print(f"\r{same} equal, {different} different", end="", file=sys.stderr, flush=True)
    print(f"\n{same} passed, {different} failed")
    return 1 if different or not same else 0


if __name__ == "__main__":
    sys.exit(main())
