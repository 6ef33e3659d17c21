# SPDX-License-Identifier: Apache-2.0
"""Nets in segments and slices: one result for one mesh, whichever worker has which cell of it."""
import json
import os
import signal

import pytest

from jobs import steps_done, wait_until, workers_of

FEW = ["--data", "synthetic", "--seed", 5, "--threads", 1, "--no-report", "--quiet", "--json"]
MESH = ["--slices", 2, "--global-batch", 6, "--shards", 3]
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


@pytest.mark.parametrize("words,said", [
    (["--slices", 3], "has 2 heads, which cannot be 3 slices"),
    (["--segments", 99], "99 segments are too many"),
    (["--cuts", "blocks.1,nothing"], "cut 'nothing' names no block of the net"),
    (["--slice-layers", "ln_f=rows"], "names no layer"),
    (["--slice-layers", "blocks.*.ln1=rows"], "cannot be split")])
def test_a_net_that_cannot_be_divided_so_is_refused_before_any_worker_starts(lockstep, words, said):
    net = ["char-gpt", "--width", 64, "--blocks", 2, "--global-batch", 6, "--shards", 3]
    mesh = {"--slices": 2, "--segments": 2, **dict(zip(words[::2], words[1::2]))}
    if "--cuts" in mesh:
        del mesh["--segments"]
    given = [word for pair in mesh.items() for word in pair]
    run = lockstep.run("train", *net, *FEW, "--steps", 2, "--out", "run", "--workers", 4,
                       "--pipeline", 2, "--tensor", 2, *given, status=1)
    assert said in run.complaint
    assert run.err.count("lockstep: ") == 1 and not (lockstep.folder / "run").exists()


LIMIT = ["--plan", "auto", "--workers", 2, "--memory-limit"]


@pytest.mark.parametrize("where", [["--placement", "data=1,pipeline=2,tensor=2"], LIMIT])
def test_a_lost_cell_costs_the_steps_since_the_checkpoint(lockstep, where):
    net = [*GPT, "--eval-every", 300]
    if where is LIMIT:  # so small that no worker can have all of the net
        ranked = json.loads(lockstep.run("plan", *GPT, "--workers", 2, "--threads", 1, "--json",
                                         status=0).out)
        least = min(p["bytes"] for p in ranked["plans"])
        assert least < 0.9 * min(p["bytes"] for p in ranked["plans"] if p["data"] == 2)
        where = [*LIMIT, f"{(least + 1000) / 1e3}KB"]
    alone = result_of(lockstep, "alone", *net, steps=300)
    process = lockstep.start("train", *net, *FEW, "--steps", 300, "--checkpoint-every", 20, *where,
                             "--out", "run")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 30 or process.poll() is not None, 120)
    assert process.poll() is None, process.communicate()
    os.kill(workers_of(process)[1], signal.SIGKILL)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "begins again from the newest checkpoint (restart 1 of 20)" in errors
    result = json.loads(out.splitlines()[-1])
    assert result["params_sha256"] == alone["params_sha256"]
    assert result["resumed_from_step"] >= 20 and result["resumed_from_step"] % 20 == 0
