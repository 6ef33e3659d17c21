# SPDX-License-Identifier: Apache-2.0
"""Library models by name, on images of any size, and runs that are made longer."""
import json
import random

import pytest

import small_data

SMALL = ["--steps", 2, "--global-batch", 8, "--shards", 4]


def write_images(folder, sizes, names=("dark", "light"), count=10):
    draws = random.Random(1)
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            side = sizes[i % len(sizes)]
            (folder / name / f"{i}.png").write_bytes(
                small_data.png(side, side, draws.randbytes(side * side)))


def train_model(lockstep, model, *words, **how):
    return lockstep.run("train", "--model", model, "--quiet", "--no-report", "--json", *words, **how)


def config_of(lockstep, run):
    return json.loads((lockstep.folder / run / "config.json").read_text())


def test_the_list_has_recipes_and_models(lockstep):
    text = lockstep.run("models", status=0).out
    assert "mnist-lenet " in text
    assert "resnet50_v1 " in text and "made for 3x224x224" in text
    assert "Dense" in lockstep.run("models", "--summary", "cifar_cnn", status=0).out


@pytest.mark.parametrize("model", ["lenet", "mobilenet_v2_0.25", "cifar_resnet18_v1"])
def test_a_model_trains_on_generated_images(lockstep, model):
    result = train_model(lockstep, model, "--data", "synthetic", *SMALL, "--out", "run").json
    assert (result["recipe"], result["steps"], result["data"]) == (model, 2, "synthetic")
    side = 28 if model == "lenet" else 32
    assert config_of(lockstep, "run")["image"] == f"{1 if model == 'lenet' else 3}x{side}x{side}"
    again = lockstep.run("eval", "run", "--json").json
    assert again["params_sha256"] == result["params_sha256"]
    assert again["test_loss"] == result["test_loss"]


def test_images_of_ones_own_say_their_size_and_classes(lockstep):
    write_images(lockstep.folder / "images", [40], ("a", "b", "c"))
    train_model(lockstep, "mobilenet_v1_0.25", "--data", "images", *SMALL, "--out", "run", status=0)
    assert config_of(lockstep, "run")["image"] == "3x40x40"
    assert json.loads((lockstep.folder / "run" / "classes.json").read_text()) == ["a", "b", "c"]
    guess = lockstep.run("predict", "run", "images/b/1.png", "--top", 3, "--json").json
    assert sorted(row["class"] for row in guess["classes"]) == ["a", "b", "c"]
    assert lockstep.run("eval", "run", "--json").json["samples"] == 6  # every fifth


def test_images_of_several_sizes_become_squares(lockstep):
    write_images(lockstep.folder / "images", [24, 50, 60])
    train_model(lockstep, "mobilenet_v1_0.25", "--data", "images", *SMALL, "--out", "run", status=0)
    assert config_of(lockstep, "run")["image"] == "3x50x50"
    train_model(lockstep, "mobilenet_v1_0.25", "--data", "images", *SMALL, "--out", "other",
                "--image-size", 36, status=0)
    assert config_of(lockstep, "other")["image"] == "3x36x36"


def test_a_models_run_has_the_same_bits_on_two_workers_and_after_a_resume(lockstep):
    write_images(lockstep.folder / "images", [32])
    words = ["--data", "images", "--global-batch", 8, "--shards", 4]
    whole = train_model(lockstep, "lenet", *words, "--steps", 4, "--out", "whole").json
    two = train_model(lockstep, "lenet", *words, "--steps", 4, "--out", "two", "--workers", 2).json
    assert two["params_sha256"] == whole["params_sha256"]
    # The schedule of the half is that of four steps only where it is constant.
    steady = [*words, "--schedule", "constant", "--warm-up", 0]
    whole = train_model(lockstep, "lenet", *steady, "--steps", 4, "--out", "steady").json
    train_model(lockstep, "lenet", *steady, "--steps", 2, "--out", "half", status=0)
    rest = lockstep.run("train", "--resume", "--steps", 4, "--out", "half", "--quiet", "--json",
                        "--workers", 2).json
    assert rest["resumed_from_step"] == 2
    assert rest["params_sha256"] == whole["params_sha256"]


def test_what_a_model_needs_is_said(lockstep):
    complaint = lockstep.run("train", "--model", "lenet", status=2).complaint
    assert "--model lenet: needs --data DIR|synthetic" in complaint
    complaint = lockstep.run("train", "mnist-mlp", "--model", "lenet", status=2).complaint
    assert "mnist-mlp and --model lenet: choose one" in complaint
    complaint = lockstep.run("train", "mnist-mlp", "--image-size", 32, status=2).complaint
    assert "--image-size 32: mnist-mlp takes its samples as they are" in complaint
    (lockstep.folder / "empty").mkdir()
    complaint = train_model(lockstep, "lenet", "--data", "empty", status=1).complaint
    assert "has neither images of your own (train/CLASS/*.png) nor MNIST's or CIFAR-10's files" \
        in complaint


STEADY = ["--global-batch", 1024, "--schedule", "constant", "--warm-up", 0]


def test_a_finished_run_is_made_longer(lockstep):
    whole = lockstep.train("mnist-mlp", *STEADY, "--epochs", 2, "--out", "whole").json
    first = lockstep.train("mnist-mlp", *STEADY, "--epochs", 1, "--out", "run").json
    assert first["epochs"] == 1
    longer = lockstep.run("train", "mnist-mlp", "--resume", "--epochs", 2, "--out", "run", "--quiet",
                          "--json").json
    assert (longer["epochs"], longer["resumed_from_step"]) == (2, first["steps"])
    assert longer["params_sha256"] == whole["params_sha256"]
    assert config_of(lockstep, "run")["epochs"] == 2
    # From now on that is its length.
    again = lockstep.run("train", "--resume", "--out", "run", "--quiet", "--json").json
    assert again["params_sha256"] == whole["params_sha256"]


def test_a_falling_rate_is_that_of_the_longer_run(lockstep):
    lockstep.train("mnist-mlp", "--steps", 4, "--global-batch", 64, "--out", "run", status=0)
    outcome = lockstep.run("train", "--resume", "--steps", 8, "--out", "run", status=0)
    assert "from step 5 on, the learning rate is that of a run of 8 steps" in outcome.err
    rows = [json.loads(row) for row in
            (lockstep.folder / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [row["learning_rate"] for row in rows if "learning_rate" in row]
    assert len(rates) == 8 and rates[4] > rates[3]


def test_a_run_cannot_have_done_less_than_it_has(lockstep):
    lockstep.train("mnist-mlp", "--steps", 4, "--global-batch", 64, "--out", "run", status=0)
    complaint = lockstep.run("train", "--resume", "--steps", 2, "--out", "run", status=1).complaint
    assert "run: has done 4 steps, more than the 2 that are asked for" in complaint
    assert config_of(lockstep, "run")["steps"] == 4
