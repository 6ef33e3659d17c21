# SPDX-License-Identifier: Apache-2.0
"""A run's instruction set: it is told, kept, and a run that goes on goes on with it."""
import json
import os
import subprocess

import pytest

from conftest import PROGRAM

RUN = ["--steps", "6", "--checkpoint-every", "3", "--global-batch", "16", "--threads", "1"]
ORDER = ["sse4", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"]


def with_set(name):
    """The environment in which a run uses nothing above the set; None: the processor's best."""
    environment = {key: value for key, value in os.environ.items() if key != "LOCKSTEP_ISA"}
    return environment if name is None else dict(environment, LOCKSTEP_ISA=name)


@pytest.fixture(scope="module")
def best():
    report = subprocess.run([PROGRAM, "doctor", "--json"], text=True, capture_output=True,
                            timeout=120, env=with_set(None), check=True)
    return json.loads(report.stdout)["members"][0]["instructions"].split()[-1]


def train(lockstep, out, *words, isa=None, **how):
    return lockstep.train("mnist-mlp", *RUN, "--out", out, *words, env=with_set(isa), **how)


def go_on(lockstep, out, *words, isa=None):
    return lockstep.run("train", "mnist-mlp", "--resume", "--out", out, "--no-report", "--json",
                        "--threads", "1", *words, env=with_set(isa))


def forget_the_last_steps(lockstep, out):
    (lockstep.folder / out / "checkpoints" / "step-00000006.ckpt").unlink()


def config_of(lockstep, out):
    return json.loads((lockstep.folder / out / "config.json").read_text())


def test_a_run_tells_and_keeps_its_instruction_set(lockstep, best):
    for isa in (None, "sse4"):
        result = train(lockstep, f"run-{isa}", isa=isa).json
        assert result["isa"] == config_of(lockstep, f"run-{isa}")["isa"] == (isa or best)
        assert result["invariant"] is True


def test_a_run_goes_on_with_the_set_that_it_began_with(lockstep, best):
    whole = train(lockstep, "run", isa="sse4").json
    forget_the_last_steps(lockstep, "run")
    outcome = go_on(lockstep, "run")
    assert outcome.json["resumed_from_step"] == 3
    assert outcome.json["isa"] == "sse4" and outcome.json["invariant"] is True
    assert outcome.json["params_sha256"] == whole["params_sha256"]
    assert "were computed with" not in outcome.err


def test_a_run_that_must_go_on_with_less_says_so_and_is_not_invariant(lockstep, best):
    if best == "sse4":
        pytest.skip("this processor has one set only")
    train(lockstep, "run")
    forget_the_last_steps(lockstep, "run")
    outcome = go_on(lockstep, "run", isa="sse4")
    assert outcome.json["isa"] == "sse4" and outcome.json["invariant"] is False
    assert f"steps 1 to 3 were computed with {best}, the others are with sse4" in outcome.err
    again = go_on(lockstep, "run")
    assert again.json["invariant"] is False, "it stays so"
    assert again.json["params_sha256"] == outcome.json["params_sha256"]


def test_workers_go_on_with_the_set_of_the_run(lockstep, best):
    whole = train(lockstep, "run", isa="sse4").json
    forget_the_last_steps(lockstep, "run")
    result = go_on(lockstep, "run", "--workers", 2).json
    assert result["isa"] == "sse4" and result["invariant"] is True
    assert result["params_sha256"] == whole["params_sha256"]


def test_a_set_that_nobody_knows_is_a_damaged_configuration(lockstep):
    train(lockstep, "run")
    config = config_of(lockstep, "run") | {"isa": "avx9"}
    (lockstep.folder / "run" / "config.json").write_text(json.dumps(config))
    outcome = go_on(lockstep, "run")
    assert outcome.status == 1
    assert outcome.complaint.endswith("is not a run's configuration: 'isa' is \"avx9\"")


def test_a_run_in_bfloat16_ends_where_bfloat16_is_slow(lockstep):
    for isa in ("sse4", None):
        outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", "--no-report", "--json",
                               *RUN, "--bf16", "--out", f"run-{isa}", env=with_set(isa))
        assert outcome.json["dtype"] == "bfloat16" and outcome.json["steps"] == 6


@pytest.mark.parametrize("isa", ORDER)
def test_the_terminal_names_the_set(lockstep, best, isa):
    if ORDER.index(isa) > ORDER.index(best):
        pytest.skip(f"this processor has {best} at most")
    outcome = lockstep.run("train", "mnist-mlp", "--data", "synthetic", "--no-report", *RUN, "--out",
                           "run", env=with_set(isa), status=0)
    assert f"threads and workers ({isa} instructions): params_sha256" in outcome.out
