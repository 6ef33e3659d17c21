#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training job with each stage of state sharding, in turns. Prints a line of JSON for each
stage: its rate, how many times that of stage 0 it was round by round (the median, and all), and the
bytes that a worker plans for a step. Ends with status 1 when two of them have different bits.

    bench/shard_state.py --recipe char-gpt --workers 2 --steps 30 --rounds 5 -- --optimizer adam
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile


def run(options, stage, folder):
    command = [options.program, "train", options.recipe, "--data", "synthetic", "--quiet",
               "--no-report", "--json", "--workers", str(options.workers), "--threads",
               str(options.threads), "--steps", str(options.steps), "--shard-state", str(stage),
               *options.words]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        done = subprocess.run([*command, "--out", f"{place}/run"], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/lockstep")
    parser.add_argument("--recipe", default="char-gpt")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("words", nargs="*", help="of lockstep train")
    options = parser.parse_args()
    results = {stage: [] for stage in options.stages}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            stages = options.stages if turn % 2 == 0 else options.stages[::-1]
            for stage in stages:
                results[stage].append(run(options, stage, folder))
    first = results[options.stages[0]]
    for stage, runs in results.items():
        ratios = [one["samples_per_s"] / other["samples_per_s"] for one, other in zip(runs, first)]
        print(json.dumps({
            "recipe": options.recipe, "workers": options.workers, "shard_state": stage,
            "samples_per_s": statistics.median(one["samples_per_s"] for one in runs),
            "times_stage_0": round(statistics.median(ratios), 4),
            "rounds": [round(ratio, 3) for ratio in ratios],
            "step_bytes": runs[0]["step_bytes"], "params_sha256": runs[0]["params_sha256"]}))
    bits = {one["params_sha256"] for runs in results.values() for one in runs}
    return 0 if len(bits) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
