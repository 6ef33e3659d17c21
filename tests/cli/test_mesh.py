# SPDX-License-Identifier: Apache-2.0
"""Nets in segments and slices: one result for one mesh, whichever worker has which cell of it."""
import json

import pytest

FEW = ["--data", "synthetic", "--threads", 1, "--no-report", "--quiet", "--json"]
MESH = ["--slices", 2, "--global-batch", 6, "--shards", 3, "--seed", 5]
GPT = ["char-gpt", "--width", 64, "--blocks", 2, "--segments", 3, *MESH]
NETS = {"char-gpt": GPT,
        "text-lstm": ["text-lstm", "--segments", 2, *MESH],
        "cifar-resnet18": ["cifar-resnet18", "--segments", 3, *MESH]}


def result_of(lockstep, out, *words, steps=2):
    run = lockstep.run("train", *words, *FEW, "--steps", steps, "--out", out, status=0, timeout=600)
    return json.loads(run.out.splitlines()[-1])


def check_placed(lockstep, net, alone, data, pipeline, tensor, *words):
    where = f"data={data},pipeline={pipeline},tensor={tensor}"
    placed = result_of(lockstep, where + "".join(map(str, words)), *net, "--placement", where,
                       *words)
    assert placed["placement"] == {"data": data, "pipeline": pipeline, "tensor": tensor}
    assert placed["workers"] == data * pipeline * tensor
    for key in ("params_sha256", "train_loss", "test_loss", "test_accuracy"):
        assert placed[key] == alone[key], (where, key)


@pytest.mark.parametrize("name,places", [
    ("char-gpt", [(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 1), (3, 2, 1), (1, 3, 2)]),
    ("text-lstm", [(1, 2, 2), (3, 2, 1)]),
    ("cifar-resnet18", [(1, 2, 2)])])
def test_one_mesh_has_one_result_on_any_product_of_workers(lockstep, name, places):
    alone = result_of(lockstep, "alone", *NETS[name])
    assert alone["segments"] > 1 and alone["slices"] == 2
    for place in places:
        check_placed(lockstep, NETS[name], alone, *place)


@pytest.mark.parametrize("rule", [["--optimizer", "lamb"], ["--clip-norm", 0.5], ["--bf16"]])
def test_rules_schedules_and_transports_change_nothing(lockstep, rule):
    alone = result_of(lockstep, "alone", *GPT, *rule)
    check_placed(lockstep, GPT, alone, 1, 2, 2, *rule, "--schedule", "zero-bubble")
    check_placed(lockstep, GPT, alone, 1, 2, 2, *rule, "--schedule", "gpipe", "--recompute",
                 "--transport", "tcp")


def test_a_run_goes_on_with_its_cells_placed_otherwise(lockstep):
    def extended(out, first, rest):
        begun = result_of(lockstep, out, *GPT, *first)
        assert begun["steps"] == 2
        run = lockstep.run("train", "--resume", "--out", out, "--steps", 4, "--quiet",
                           "--no-report", "--json", *rest, status=0, timeout=600)
        return json.loads(run.out.splitlines()[-1])["params_sha256"]

    cells = ["--workers", 4, "--pipeline", 2, "--tensor", 2]
    assert len({extended("a", [], []), extended("b", cells, []), extended("c", [], cells),
                extended("d", cells, ["--placement", "data=1,pipeline=3,tensor=1"])}) == 1
