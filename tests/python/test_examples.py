# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

RUNS = {
    "mnist_mlp.py": ["--synthetic", "--steps", "20"],
    "mnist_gluon_loop.py": ["--synthetic", "--steps", "20"],
    "mnist_workers.py": ["--synthetic", "--steps", "10"],
}


def test_every_example_is_run(root):
    assert sorted(RUNS) == sorted(p.name for p in (root / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(root, name, tmp_path):
    out = subprocess.run([sys.executable, str(root / "examples" / "python" / name), *RUNS[name]],
                         capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert out.returncode == 0, out.stderr
    assert "loss" in out.stdout or "accuracy" in out.stdout


def test_an_example_runs_on_two_workers(root, program, tmp_path):
    script = str(root / "examples" / "python" / "mnist_workers.py")
    sums = []
    for command in ([], [program, "launch", "-n", "2", "--"]):
        out = subprocess.run([*command, sys.executable, script, *RUNS["mnist_workers.py"]],
                             capture_output=True, text=True, cwd=tmp_path, timeout=600)
        assert out.returncode == 0, out.stderr
        sums.append([line.split("params_sha256 ")[1] for line in out.stdout.splitlines()
                     if "params_sha256" in line])
    assert sums[0] == sums[1] and len(sums[0]) == 1
