# SPDX-License-Identifier: Apache-2.0
"""Layers that are split: the bits depend on how many slices there are, not on who has them."""
import json

import pytest

GPT = ["char-gpt", "--width", 64, "--blocks", 2, "--global-batch", 8, "--shards", 4]
RESNET = ["cifar-resnet18", "--global-batch", 4, "--shards", 2]
RUN = ["--data", "synthetic", "--steps", 2, "--threads", 1, "--quiet", "--no-report", "--json",
       "--slices", 2]
PLACEMENTS = [["--workers", 2], ["--workers", 2, "--tensor", 2],
              ["--workers", 4, "--placement", "data=2,pipeline=1,tensor=2"]]


def bits(lockstep, number, *words):
    run = lockstep.run("train", *words, "--out", f"run{number}", status=0)
    return json.loads(run.out.splitlines()[-1])["params_sha256"]


@pytest.mark.parametrize("rule", [["--optimizer", "lamb"], ["--clip-norm", 1]])
def test_a_gpt_has_the_same_bits_wherever_its_slices_are(lockstep, rule):
    own = [*GPT, *RUN, *rule]
    found = {bits(lockstep, number, *own, *where) for number, where in enumerate([[], *PLACEMENTS])}
    assert len(found) == 1
    whole = [word for word in own if word != "--slices"]
    del whole[whole.index("--json") + 1]
    assert bits(lockstep, "whole", *whole) not in found


def test_a_convolutional_net_has_the_same_bits_wherever_its_slices_are(lockstep):
    assert len({bits(lockstep, number, *RESNET, *RUN, *where)
                for number, where in enumerate([[], PLACEMENTS[1]])}) == 1


def test_a_run_goes_on_in_another_placement(lockstep):
    def extended(number, *where):
        bits(lockstep, number, *GPT, *RUN)
        return bits(lockstep, number, "--resume", "--steps", 4, "--quiet", "--no-report", "--json",
                    *where)
    assert extended("here") == extended("there", "--workers", 2, "--tensor", 2)


def test_what_is_split_and_what_travels_is_shown(lockstep):
    shown = json.loads(lockstep.run("plan", *GPT, "--slices", 2, "--show", "--json", status=0).out)
    splits = {one["parameter"]: (one["axis"], one["extents"]) for one in shown["splits"]}
    assert splits["blocks.0.attn.qkv.weight"] == (0, [96, 96])
    assert splits["blocks.0.mlp.fc2.weight"] == (1, [128, 128])
    assert all(one["bytes"] > 0 for one in shown["transfers"])


@pytest.mark.parametrize("words,status,complaint", [
    (["--tensor", 2, "--workers", 4, "--pipeline", 2], 2, "--pipeline 2 with 1 segment: expected"),
    (["--tensor", 2, "--workers", 2, "--shard-state", 1], 2, "--shard-state 1 with --tensor 2"),
    (["--tensor", 3, "--workers", 3], 2, "--tensor 3 with --slices 2: each worker needs a slice"),
    (["--tensor", 2, "--workers", 3], 2, "--tensor 2 with 3 workers: expected a multiple of 2"),
    (["--slice-layers", "nothing=rows"], 1, "nothing"),
])
def test_slices_that_cannot_be_are_one_line(lockstep, words, status, complaint):
    outcome = lockstep.run("train", *GPT, *RUN, *words, "--out", "run", status=status)
    assert complaint in outcome.complaint
