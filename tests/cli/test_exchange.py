# SPDX-License-Identifier: Apache-2.0
"""How workers exchange gradients: which promise holds, and that what was not sent is not lost."""
import json

import pytest

from test_workers import LONG, steps_done, wait_until

FEW = ["--steps", 3, "--global-batch", 32, "--threads", 1]
COMPRESSED = ["--compression", "2bit:0.05"]


def train(lockstep, *words):
    return lockstep.train("mnist-mlp", *FEW, *words).json


def test_canonical_algorithms_give_the_bits_of_one_worker(lockstep):
    alone = train(lockstep)
    assert (alone["kvstore"], alone["algorithm"], alone["compression"]) == ("local", "tree", "none")
    for algorithm in ("hierarchical", "central"):
        result = train(lockstep, "--workers", 3, "--algorithm", algorithm)
        assert result["params_sha256"] == alone["params_sha256"]
        assert result["invariant"] is True and result["algorithm"] == algorithm


@pytest.mark.parametrize("words", [["--algorithm", "ring"], ["--algorithm", "multi_ring"],
                                   ["--compression", "1bit"], ["--compression", "fp16"],
                                   ["--compression", "topk:0.05"], COMPRESSED])
def test_others_give_the_same_bits_for_a_number_of_workers(lockstep, words):
    results = [train(lockstep, "--workers", 3, *words) for _ in range(2)]
    assert results[0]["params_sha256"] == results[1]["params_sha256"]
    assert results[0]["params_sha256"] != train(lockstep)["params_sha256"]
    assert all(result["invariant"] is False for result in results)
    assert results[0]["kvstore"] == "allreduce"


def test_the_terminal_says_which_promise_holds(lockstep):
    run = ["train", "mnist-mlp", "--data", "synthetic", "--no-report", *FEW, "--workers", 2]
    assert ("the same bits on any number of threads and workers ("
            in lockstep.run(*run, status=0).out)
    assert ("the same bits on any number of threads, but with ring for 2 workers only ("
            in lockstep.run(*run, "--algorithm", "ring", status=0).out)


@pytest.mark.parametrize("words,invariant", [
    (["--algorithm", "ring", "--workers", 3], False),
    (["--compression", "2bit", "--workers", 2], False),
    (["--workers", 2], True),
])
def test_a_report_has_the_command_that_gives_its_bits_again(lockstep, words, invariant):
    lockstep.run("train", "mnist-mlp", "--data", "synthetic", *FEW, *words, "--out", "run",
                 status=0)
    result = json.loads((lockstep.folder / "run" / "result.json").read_text())
    assert result["invariant"] is invariant
    page = (lockstep.folder / "run" / "report.html").read_text()
    assert f"{words[-1]} workers of 1 thread" in page
    command = page.split("the same bits again</span> <code>")[1].split("</code>")[0].split()
    assert command[:2] == ["lockstep", "train"] and "--workers" in command
    again = lockstep.run(*command[1:], "--json", "--out", "again").json
    assert again["params_sha256"] == result["params_sha256"]


def test_mxnet_names_are_taken(lockstep):
    assert train(lockstep, "--kvstore", "device")["kvstore"] == "local"
    for name in ("dist_sync", "dist_device_sync", "horovod"):
        assert train(lockstep, "--workers", 2, "--kvstore", name)["kvstore"] == "allreduce"
    result = train(lockstep, "--workers", 2, "--servers", 1, "--kvstore", "dist_async")
    assert result["kvstore"] == "ps_async"


@pytest.mark.parametrize("compression", ["1bit", "2bit:0.05"])
def test_a_run_that_was_killed_goes_on_with_what_was_not_sent(lockstep, compression):
    words = [*LONG, "--workers", 2]
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report",
                             "--json", "--out", "run", *words, "--compression", compression)
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 50 or process.poll() is not None)
    process.kill()
    process.communicate()
    resumed = lockstep.train("mnist-mlp", *words, "--resume", "--out", "run").json
    whole = lockstep.train("mnist-mlp", *words, "--compression", compression, "--out", "whole").json
    assert 0 < resumed["resumed_from_step"] < 400
    assert resumed["compression"] == whole["compression"] == compression
    assert resumed["params_sha256"] == whole["params_sha256"]


def test_a_compressed_run_goes_on_with_other_workers(lockstep):
    first = [*FEW[2:], *COMPRESSED, "--checkpoint-every", 1, "--out", "run"]
    lockstep.train("mnist-mlp", "--steps", 3, "--workers", 3, *first, status=0)
    config = lockstep.folder / "run" / "config.json"
    settings = json.loads(config.read_text())
    assert settings["compression"] == "2bit:0.05" and settings["algorithm"] == "tree"
    lockstep.train("mnist-mlp", "--workers", 2, "--resume", "--out", "run", status=0)
    outcome = lockstep.train("mnist-mlp", "--workers", 2, "--resume", "--out", "run",
                             "--compression", "fp16", status=1)
    assert "compression was" in outcome.err


def test_a_ring_goes_on_with_any_number_of_workers(lockstep):
    ring = ["--algorithm", "ring", "--checkpoint-every", 1]
    for first, then in ((2, 1), (1, 2)):
        name = f"run{first}"
        train(lockstep, "--workers", first, *ring, "--out", name)
        assert train(lockstep, "--workers", then, "--resume", "--out", name)["invariant"] is False


def test_a_ring_that_goes_on_promises_no_more_than_it_can(lockstep):
    train(lockstep, "--workers", 2, "--algorithm", "ring", "--checkpoint-every", 1, "--out", "run")
    newest = sorted((lockstep.folder / "run/checkpoints").iterdir())[-1]
    newest.unlink()  # as if the run had been killed after step 2
    outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", "--workers", 3, "--resume",
                           "--no-report", "--out", "run", status=0)
    assert ("with ring only for the workers that each step had (since step 2: 3 workers) ("
            in outcome.out)


def test_a_local_run_goes_on_with_workers_when_told_so(lockstep):
    alone = train(lockstep, "--kvstore", "local", "--out", "run")
    resume = ["--workers", 2, "--resume", "--out", "run"]
    assert "expected allreduce" in lockstep.train("mnist-mlp", *resume, status=2).complaint
    result = train(lockstep, *resume, "--kvstore", "allreduce")
    assert result["kvstore"] == "allreduce"
    assert result["params_sha256"] == alone["params_sha256"]


def test_links_without_a_sum_of_their_own_leave_no_folder(lockstep):
    outcome = lockstep.train("mnist-mlp", *FEW, "--workers", 2, "--algorithm", "native", "--out",
                             "run", status=2)
    assert "has no all-reduce of its own" in outcome.err
    assert not (lockstep.folder / "run").exists()
    assert train(lockstep, "--algorithm", "native")["invariant"] is False
