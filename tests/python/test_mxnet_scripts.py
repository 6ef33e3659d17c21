# SPDX-License-Identifier: Apache-2.0
"""Scripts of the kind of MXNet's examples, unchanged: `import mxnet` is this package."""

import os
import re
import subprocess
import sys

import pytest

SCRIPTS = os.path.join(os.path.dirname(__file__), "mxnet_scripts")


def run(name, *arguments, launch=()):
    command = [*launch, sys.executable, "-m", "lockstep.mxnet", os.path.join(SCRIPTS, name),
               *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=SCRIPTS)
    assert done.returncode == 0, done.stdout + done.stderr
    # The other workers' words are on the launcher's stderr.
    return done.stdout + done.stderr if launch else done.stdout


def numbers(text, word):
    return [float(value) for value in re.findall(rf"\b{word} (-?[0-9.]+)", text)]


@pytest.mark.parametrize("options", [(), ("--hybridize",)])
def test_digits_are_learnt_from_a_loader(options):
    out = run("gluon_mnist.py", *options)
    assert numbers(out, "loss")[-1] < 0.3 * numbers(out, "loss")[0]
    assert numbers(out, "accuracy")[-1] >= 0.9, out


def test_a_language_model_learns():
    perplexity = numbers(run("word_language_model.py"), "perplexity")
    assert perplexity[-1] < 2.0 < perplexity[0], perplexity


def test_a_gan_moves_towards_the_pictures():
    out = run("dcgan.py")
    assert numbers(out, "left minus right")[0] > 0.02, out
    assert numbers(out, "last")[0] < numbers(out, "first")[0], out


def test_factors_of_a_matrix_are_found():
    errors = numbers(run("matrix_factorisation.py"), "rmse")
    assert errors[-1] < 0.1 < errors[0], errors


def test_a_random_field_learns_its_sentences():
    out = run("lstm_crf.py")
    assert numbers(out, "last")[0] < 0.6 * numbers(out, "first")[0], out


def test_chapters_of_a_book_run():
    out = run("from_scratch.py")
    assert max(numbers(out, "loss")) < 1e-3 and numbers(out, "w") == [2.0, 2.0], out
    assert numbers(out, "accuracy")[0] > 0.85 and numbers(out, "error")[0] < 0.1, out


def test_workers_have_the_same_weights(program):
    out = run("cifar_workers.py", "--steps", "2", launch=(program, "launch", "-n", "2", "--"))
    lines = [line for line in out.splitlines() if "weights" in line]
    assert len(lines) == 2 and "worker 0 of 2" in out and "worker 1 of 2" in out, out
    assert len({line.split("weights")[1] for line in lines}) == 1, out


def test_workers_that_do_not_wait_learn_by_servers(program):
    out = run("async_workers.py", launch=(program, "launch", "-n", "2", "-s", "1", "--"))
    assert "worker 0 of 2 by dist_async" in out and "worker 1 of 2 by dist_async" in out, out
    assert min(numbers(out, "accuracy")) > 0.9, out


def test_workers_share_the_statistics_of_a_norm(program):
    out = run("sync_norm.py", launch=(program, "launch", "-n", "2", "--"))
    assert out.count("agrees") == 2


@pytest.mark.parametrize("line, hint", [
    ("from mxnet import optim", "mx.optimizer.SGD"),
    ("import mxnet.distributed", "mx.kv.create"),
    ("from mxnet.gluon import model as gmodel", "gluon.nn.Sequential"),
    ("from mxnet.gluon.nn import ReLU", "Activation"),
    ("from mxnet.gluon.data import text", "mx.contrib.text")])
def test_scripts_that_import_names_that_never_were_are_told(line, hint):
    command = [sys.executable, "-m", "lockstep.mxnet", "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "ImportError" in done.stderr and hint in done.stderr


def test_scripts_that_ask_for_names_that_never_were_are_told():
    command = [sys.executable, "-m", "lockstep.mxnet", "-c", "import mxnet as mx; mx.num_gpus()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0 and "mx.context.num_gpus()" in done.stderr
