# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys

import pytest

RUNS = {
    "cifar_collectives.py": ["--synthetic", "--steps", "3"],
    "elastic.py": ["--synthetic", "--steps", "10"],
    "gluon_cifar_devices.py": ["--synthetic", "--steps", "2", "--epochs", "1"],
    "gluon_mnist_mlp.py": ["--synthetic", "--steps", "20", "--epochs", "1"],
    "gluon_text_devices.py": ["--sentences", "200", "--epochs", "2"],
    "mnist_mlp.py": ["--synthetic", "--steps", "20"],
    "mnist_gluon_loop.py": ["--synthetic", "--steps", "20"],
    "mnist_workers.py": ["--synthetic", "--steps", "10"],
    "ps_by_hand.py": ["--synthetic", "--steps", "4"],
    "spoken_digits.py": ["--voices", "5", "--steps", "10"],
    "two_towers.py": ["--steps", "20"],
}
NOTEBOOKS = {"digits.ipynb": {"STEPS": "30"},
             "gluon_digits.ipynb": {"EPOCHS": "1", "SAMPLES": "200"}}


def test_every_example_is_run(root):
    assert sorted(RUNS) == sorted(p.name for p in (root / "examples" / "python").glob("*.py"))
    assert sorted(NOTEBOOKS) == sorted(
        p.name for p in (root / "examples" / "python").glob("*.ipynb"))


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(root, name, tmp_path):
    out = subprocess.run([sys.executable, str(root / "examples" / "python" / name), *RUNS[name]],
                         capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert out.returncode == 0, out.stderr
    assert "loss" in out.stdout or "accuracy" in out.stdout


def outputs(root, program, tmp_path, name, *launches):
    """The last line of the first worker, started in several ways."""
    script = str(root / "examples" / "python" / name)
    lines = []
    for launch in ([], *launches):
        command = [program, "launch", *launch, "--"] if launch else []
        out = subprocess.run([*command, sys.executable, script, *RUNS[name]], capture_output=True,
                             text=True, cwd=tmp_path, timeout=600)
        assert out.returncode == 0, out.stderr
        lines.append(out.stdout.splitlines()[-1])
    return lines


@pytest.mark.parametrize("name", ["mnist_workers.py", "two_towers.py"])
def test_workers_give_the_bits_of_one(root, program, tmp_path, name):
    sums = [line.split("params_sha256 ")[1]
            for line in outputs(root, program, tmp_path, name, ["-n", "2"])]
    assert len(sums) == 2 and len(set(sums)) == 1


def test_servers_give_the_bits_of_one_process(root, program, tmp_path):
    lines = outputs(root, program, tmp_path, "ps_by_hand.py", ["-n", "2", "-s", "2"])
    sums = {re.search("parameters ([0-9a-f]{64})", line).group(1) for line in lines}
    assert len(sums) == 1, lines


def test_collectives_keep_the_workers_the_same(root, program, tmp_path):
    (_, line) = outputs(root, program, tmp_path, "cifar_collectives.py", ["-n", "2"])
    assert "2 workers" in line and "the same parameters" in line and "NOT" not in line


def test_an_lstm_hears_digits(root, tmp_path):
    script = str(root / "examples" / "python" / "spoken_digits.py")
    out = subprocess.run([sys.executable, script, "--net", "lstm", "--voices", "5", "--steps", "3"],
                         capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert out.returncode == 0, out.stderr
    assert "40 recordings" in out.stdout and "of 10 others" in out.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_its_start_to_its_end(root, name, tmp_path):
    source = root / "examples" / "python" / name
    assert all(not cell.get("outputs") for cell in json.loads(source.read_text())["cells"]), (
        f"{name} was saved with its outputs")
    out = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
         "--ExecutePreprocessor.timeout=500", "--output-dir", str(tmp_path), "--output", name,
         str(source)],
        env={**os.environ, **NOTEBOOKS[name], "MPLCONFIGDIR": str(tmp_path),
             "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
        capture_output=True, text=True, cwd=tmp_path, timeout=900)
    assert out.returncode == 0, out.stderr
    cells = json.loads((tmp_path / name).read_text())["cells"]
    made = [output for cell in cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", ()) for output in made) >= 2
    if name == "digits.ipynb":
        pages = ["".join(output["data"].get("text/html", ())) for output in made if "data" in output]
        assert any("<progress value='30' max='30'" in page for page in pages), pages
        assert any("<svg" in page for page in pages) and any("<pre" in page for page in pages)
    text = "".join("".join(output.get("text", ())) for output in made)
    assert re.search(r"accuracy [0-9.]+", text), text


def test_a_killed_worker_leaves_the_bits_of_one_process(root, program, tmp_path):
    """examples/test_elastic.py with the example that is written in Python."""
    steps, script = "1500", str(root / "examples" / "python" / "elastic.py")
    starter = tmp_path / "elastic"  # as the test calls it: elastic synthetic STEPS
    starter.write_text(f'#!/bin/sh\nexec {sys.executable} {script} --synthetic --steps "$2"\n')
    starter.chmod(0o755)
    out = subprocess.run([sys.executable, str(root / "examples" / "test_elastic.py"), program,
                          str(starter), steps], capture_output=True, text=True, timeout=900)
    assert out.returncode == 0, out.stdout + out.stderr
