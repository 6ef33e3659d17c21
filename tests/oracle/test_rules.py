# SPDX-License-Identifier: Apache-2.0
"""Lockstep's update rules against PyTorch's optimisers, over twenty steps of random gradients."""

import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (python3-torch) is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, COUNT = 20, 37
COMMON = {"learning_rate": "lr", "wd": "weight_decay", "epsilon": "eps"}

# Rule, its parameters with our names, PyTorch's optimiser, PyTorch's names where they differ.
CASES = [
    ("sgd", {"learning_rate": 0.1}, "SGD", {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}, "SGD", {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": 1, "wd": 0.01}, "SGD", {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "dampening": 0.4, "wd": 0.01}, "SGD", {}),
    ("adam", {"learning_rate": 0.01}, "Adam", {}),
    ("adam", {"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.9, "wd": 0.1}, "Adam", {}),
    ("adam", {"learning_rate": 0.01, "beta2": 0.6, "amsgrad": 1, "epsilon": 1e-3}, "Adam", {}),
    ("adamw", {"learning_rate": 0.01, "wd": 0.3}, "AdamW", {}),
    ("adamw", {"learning_rate": 0.01, "wd": 0.3, "beta2": 0.5, "amsgrad": 1}, "AdamW", {}),
    ("adamax", {"learning_rate": 0.01, "beta1": 0.8, "wd": 0.1}, "Adamax", {}),
    ("nadam", {"learning_rate": 0.01, "wd": 0.1}, "NAdam", {}),
    (
        "nadam",
        {"learning_rate": 0.01, "schedule_decay": 0.5},
        "NAdam",
        {"schedule_decay": "momentum_decay"},
    ),
    ("adagrad", {"learning_rate": 0.1, "epsilon": 1e-6, "wd": 0.1}, "Adagrad", {}),
    ("adadelta", {"learning_rate": 0.7, "rho": 0.8, "epsilon": 1e-3, "wd": 0.1}, "Adadelta", {}),
    ("rmsprop", {"learning_rate": 0.01, "gamma1": 0.8, "wd": 0.1}, "RMSprop", {"gamma1": "alpha"}),
    (
        "rmsprop",
        {"learning_rate": 0.01, "gamma1": 0.8, "gamma2": 0.9},
        "RMSprop",
        {"gamma1": "alpha", "gamma2": "momentum"},
    ),
    (
        "rmsprop",
        {"learning_rate": 0.01, "gamma1": 0.9, "gamma2": 0.9, "centered": 1, "epsilon": 1e-2},
        "RMSprop",
        {"gamma1": "alpha", "gamma2": "momentum"},
    ),
]


@pytest.fixture(scope="module")
def server():
    program = os.environ.get("LOCKSTEP_RULE_SERVER", str(ROOT / "build/bin/rule_server"))
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.stdin.close()
    process.wait(timeout=60)


def line_of(values):
    return " ".join(repr(value) for value in values.tolist())


def ask(server, name, parameters, weight, gradients):
    words = [f"{key}={value}" for key, value in parameters.items()]
    lines = [" ".join([name, str(STEPS), str(COUNT), *words]), line_of(weight)]
    server.stdin.write("\n".join(lines + [line_of(gradient) for gradient in gradients]) + "\n")
    server.stdin.flush()
    return torch.tensor([float(word) for word in server.stdout.readline().split()])


def keywords(optimizer, parameters, names):
    names = {**COMMON, **names}
    given = {names.get(key, key): value for key, value in parameters.items()}
    if "beta1" in given or "beta2" in given:
        given["betas"] = (given.pop("beta1", 0.9), given.pop("beta2", 0.999))
    for flag in ("nesterov", "centered", "amsgrad"):
        if flag in given:
            given[flag] = bool(given[flag])
    if optimizer == "NAdam":  # 1.13's other loop multiplies one momentum too many
        given["foreach"] = True
    return given


def run_torch(optimizer, weight, gradients):
    parameter = weight.clone().requires_grad_()
    rule = optimizer(parameter)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        rule.step()
    return parameter.detach()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{'-'.join(case[1])}")
def test_rule_moves_weights_as_pytorch_does(server, case):
    name, parameters, optimizer, names = case
    torch.manual_seed(3)
    weight, gradients = torch.randn(COUNT), list(torch.randn(STEPS, COUNT))
    got = ask(server, name, parameters, weight, gradients)
    make = getattr(torch.optim, optimizer)
    want = run_torch(lambda p: make([p], **keywords(optimizer, parameters, names)), weight, gradients)
    assert (want - weight).abs().max() > 0.01
    torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)
