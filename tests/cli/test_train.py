# SPDX-License-Identifier: Apache-2.0
"""What `lockstep train` promises: the JSON line, the same bits, going on after any end."""
import json
import math
import random
import shutil
import signal
import time

import pytest

RECIPES = ["mnist-mlp", "mnist-lenet", "fashion-lenet", "cifar-cnn", "cifar-resnet18", "vit-small",
           "text-lstm", "char-gpt", "gpt-wide"]
FEW = ["--steps", 3, "--global-batch", 16, "--shards", 8]
SMALL = {"gpt-wide": ["--width", 128, "--blocks", 2], "vit-small": ["--width", 64, "--blocks", 2]}


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_json_line_has_the_contracts_keys(lockstep, recipe):
    result = lockstep.train(recipe, *FEW, *SMALL.get(recipe, []), "--threads", 2, "--seed", 7,
                            "--out", "run").json
    assert result["recipe"] == recipe
    assert (result["workers"], result["threads"], result["shards"]) == (1, 2, 8)
    assert (result["global_batch"], result["steps"], result["epochs"]) == (16, 3, 0)
    assert result["seconds"] > 0 and result["samples_per_s"] > 0
    assert result["train_loss"] > 0 and result["test_loss"] > 0
    assert 0 <= result["train_accuracy"] <= 1 and 0 <= result["test_accuracy"] <= 1
    assert len(result["params_sha256"]) == 64
    assert result["invariant"] is True and result["stopped"] is False
    assert (result["seed"], result["data"], result["run"]) == (7, "synthetic", "run")
    assert result["resumed_from_step"] == 0 and result["peak_memory_mb"] > 0
    config = json.loads((lockstep.folder / "run" / "config.json").read_text())
    assert config["recipe"] == recipe and config["seed"] == 7
    assert config["dropout"] == {"text-lstm": 0.3, "char-gpt": 0.1, "gpt-wide": 0.1,
                                 "vit-small": 0.1}.get(recipe, 0)
    rows = (lockstep.folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows if "learning_rate" in row] == [1, 2, 3]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_number_of_threads_changes_no_bit(lockstep, recipe):
    counts = [1, 3] if recipe == "cifar-resnet18" else [1, 2, 3, 4, 8]
    sums = {lockstep.train(recipe, *FEW, *SMALL.get(recipe, []), "--threads", t)
            .json["params_sha256"] for t in counts}
    assert len(sums) == 1


@pytest.mark.parametrize("recipe", SMALL)
def test_a_net_of_another_size_learns_and_is_found_again(lockstep, recipe):
    words = [*SMALL[recipe], "--global-batch", 32, "--seed", 3, "--learning-rate", 0.003]
    result = lockstep.train(recipe, *words, "--steps", 60, "--threads", 2, "--out", "run").json
    chance = {"gpt-wide": math.log(96), "vit-small": math.log(10)}[recipe]
    assert result["train_loss"] < 0.9 * chance  # the mean of all steps
    again = lockstep.run("eval", "run", "--json").json
    for key in ("test_accuracy", "test_loss", "params_sha256"):
        assert again[key] == result[key]
    workers = [lockstep.train(recipe, *words, "--steps", 2, "--workers", n, "--threads", 1)
               .json["params_sha256"] for n in (1, 3)]
    assert workers[0] == workers[1]
    outcome = lockstep.run("train", recipe, "--resume", "--out", "run", "--width", 192, "--quiet",
                           status=1)
    assert "width" in outcome.complaint


@pytest.mark.parametrize("words,said", [
    (["mnist-mlp", "--width", 64], "--width 64: mnist-mlp: has one size; those with others: "
     "vit-small, char-gpt, gpt-wide"),
    (["gpt-wide", "--width", 100, "--blocks", 3], "--width 100 --blocks 3: gpt-wide: a width of "
     "100, expected a multiple of 64, the width of a head"),
    (["vit-small", "--blocks", 0], "--blocks: got 0, expected a whole number from 1 to 4096"),
])
def test_a_size_that_cannot_be_is_refused(lockstep, words, said):
    outcome = lockstep.run("train", *words, "--data", "synthetic", "--steps", 1, status=2)
    assert said in outcome.complaint


def test_another_seed_gives_other_bits(lockstep):
    sums = {lockstep.train("mnist-mlp", *FEW, "--seed", k).json["params_sha256"] for k in (1, 2)}
    assert len(sums) == 2


def test_runs_get_folders_of_their_own(lockstep):
    runs = [lockstep.train("mnist-mlp", *FEW).json["run"] for _ in range(2)]
    assert runs == ["runs/mnist-mlp-1", "runs/mnist-mlp-2"]


def test_a_model_learns_and_eval_agrees(lockstep):
    result = lockstep.train("mnist-mlp", "--epochs", 1, "--out", "run").json
    assert result["test_accuracy"] > 0.9
    again = lockstep.run("eval", "run", "--json").json
    for key in ("test_accuracy", "test_loss", "params_sha256"):
        assert again[key] == result[key]


def test_without_json_people_are_told(lockstep):
    outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", *FEW, "--out", "run",
                           status=0)
    assert "test accuracy" in outcome.out and "params_sha256" in outcome.out
    assert "run/report.html" in outcome.out and "lockstep predict run" in outcome.out
    assert "<html" in (lockstep.folder / "run" / "report.html").read_text()


LONG = ["--steps", 300, "--global-batch", 32, "--threads", 2, "--checkpoint-every", 20]


def metrics_steps(folder):
    try:
        return sum("learning_rate" in line for line in open(folder / "metrics.jsonl"))
    except FileNotFoundError:
        return 0


def wait_for_step(lockstep, run, step, process):
    end = time.monotonic() + 60
    while metrics_steps(lockstep.folder / run) < step and process.poll() is None:
        assert time.monotonic() < end, "no progress in a minute"
        time.sleep(0.002)


@pytest.mark.parametrize("how,status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_goes_on_to_the_same_bits(lockstep, how, status):
    whole = lockstep.train("mnist-lenet", *LONG).json
    words = ["train", "mnist-lenet", "--data", "synthetic", "--json", *LONG, "--out", "run"]
    process = lockstep.start(*words)
    wait_for_step(lockstep, "run", 30, process)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert json.loads(out.splitlines()[-1])["stopped"] is True
    assert err.splitlines()[-1].endswith("mnist-lenet --resume --out run --checkpoint-every 20 "
                                         "--threads 2")
    result = lockstep.run("train", "mnist-lenet", "--resume", "--out", "run", "--json").json
    assert result["params_sha256"] == whole["params_sha256"]
    assert 30 <= result["resumed_from_step"] < 300 and result["steps"] == 300
    assert metrics_steps(lockstep.folder / "run") == 300


def test_a_killed_run_goes_on_to_the_same_bits(lockstep):
    seed = random.SystemRandom().randrange(1 << 32)
    print("random seed", seed)
    step = random.Random(seed).randrange(1, 250)
    whole = lockstep.train("mnist-lenet", *LONG).json
    process = lockstep.start("train", "mnist-lenet", "--data", "synthetic", *LONG, "--out", "run")
    wait_for_step(lockstep, "run", step, process)
    process.kill()
    process.communicate()
    result = lockstep.run("train", "mnist-lenet", "--resume", "--out", "run", "--json").json
    assert result["params_sha256"] == whole["params_sha256"]
    assert metrics_steps(lockstep.folder / "run") == 300


def wait_until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "not in a minute"
        time.sleep(0.01)


def is_pending(process, number):
    with open(f"/proc/{process.pid}/status") as status:
        masks = [line.split()[1] for line in status if line.startswith(("ShdPnd:", "SigPnd:"))]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def test_a_second_ctrl_c_ends_at_once(lockstep):
    process = lockstep.start("train", "cifar-resnet18", "--data", "synthetic", "--threads", 1,
                             "--global-batch", 512, "--out", "run")
    wait_until(lambda: (lockstep.folder / "run" / "metrics.jsonl").exists())  # signals are held
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not is_pending(process, signal.SIGINT))
    assert process.poll() is None, "the first one waits for the step"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130


def test_a_finished_run_resumes_to_itself(lockstep):
    first = lockstep.train("mnist-mlp", *FEW, "--out", "run").json
    again = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--json").json
    assert again["params_sha256"] == first["params_sha256"]
    assert again["resumed_from_step"] == 3


def test_the_dropout_is_the_configurations(lockstep):
    def bits(dropout):
        run = lockstep.folder / f"run-{dropout}"
        lockstep.train("text-lstm", *FEW, "--out", run, status=0)
        shutil.rmtree(run / "checkpoints")
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "dropout": dropout}))
        return lockstep.run("train", "text-lstm", "--resume", "--out", run, "--json").json
    assert bits(0.3)["params_sha256"] != bits(0.6)["params_sha256"]


def test_a_finished_run_that_is_resumed_keeps_its_report(lockstep):
    words = ["train", "mnist-mlp", "--data", "synthetic", *FEW, "--out", "run"]
    lockstep.run(*words, status=0)
    before = (lockstep.folder / "run" / "report.html").read_text()
    again = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", status=0)
    after = (lockstep.folder / "run" / "report.html").read_text()
    assert "3 steps, which were done before" in again.out and "(256 samples)" in again.out
    assert after.count("<img") == before.count("<img") > 0


def test_a_resumed_run_evaluates_as_often_as_before(lockstep):
    words = ["train", "mnist-mlp", "--data", "synthetic", "--steps", 3000, "--eval-every", 7,
             "--global-batch", 32, "--quiet", "--out", "my run"]
    process = lockstep.start(*words, "--keep", 2)
    wait_for_step(lockstep, "my run", 20, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert err.splitlines()[-1].endswith("--resume --out 'my run' --keep 2")
    config = json.loads((lockstep.folder / "my run" / "config.json").read_text())
    assert config["eval_every"] == 7


def test_a_corrupt_checkpoint_gives_way_to_the_one_before(lockstep):
    whole = lockstep.train("mnist-mlp", "--steps", 20, "--checkpoint-every", 5, "--out", "run").json
    newest = sorted((lockstep.folder / "run" / "checkpoints").glob("*.ckpt"))[-1]
    contents = bytearray(newest.read_bytes())
    contents[len(contents) // 2] ^= 1
    newest.write_bytes(contents)
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--json")
    assert newest.name in outcome.err
    assert outcome.json["params_sha256"] == whole["params_sha256"]
    assert outcome.json["resumed_from_step"] == 15
