# SPDX-License-Identifier: Apache-2.0
import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import lockstep as ls

MODULES = ["lockstep"] + [f"lockstep.{m.name}" for m in pkgutil.iter_modules(ls.__path__)
                          if m.name not in ("_core", "__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(name),
                             optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_examples():
    assert sum(len(doctest.DocTestFinder().find(importlib.import_module(name)))
               for name in MODULES) > 20
    assert "lockstep.ops" in MODULES and "lockstep.train" in MODULES


@pytest.mark.parametrize("name, least", [("python.md", 6), ("from_mxnet.md", 3)])
def test_the_pages_python_is_true(root, tmp_path, name, least):
    page = (root / "docs" / name).read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) >= least
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    out = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                         cwd=tmp_path, timeout=600)
    assert out.returncode == 0, out.stderr
    expected = re.findall(r"#>\s?(.*)", "\n".join(blocks))
    assert out.stdout.splitlines() == expected


def test_the_readmes_python_is_true(root, tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    out = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True,
                         cwd=tmp_path, timeout=600)
    assert out.returncode == 0, out.stderr
    assert float(re.search(r"accuracy ([0-9.]+),", out.stdout).group(1)) > 0.95


# What `lockstep train` needs of a run folder whose first worker may change.
INSIDE = {"on_first_worker", "record_membership"}
PLACES = {"Layers": ls.nn, "Losses": ls.nn, "Initialisers": ls.nn.init, "Models": ls.nn.models,
          "Schedules": ls.optim, "Transforms": ls.data, "Samplers": ls.data, "Callbacks": ls.train}


def test_what_the_reference_has_is_here_too(root):
    sections = re.split(r"^## ", (root / "docs" / "reference.md").read_text(), flags=re.M)
    seen = 0
    for section in sections:
        place = PLACES.get(section.splitlines()[0])
        for name in re.findall(r"^\| `(\w+)\(", section, re.M) if place else ():
            if name in INSIDE:
                continue
            assert hasattr(place, {"lambda": "lambda_"}.get(name, name)), name
            seen += 1
    assert seen > 100
    assert {"sgd", "adam", "lamb"} <= set(dir(ls.optim))


def test_public_functions_say_what_they_are():
    for name in MODULES:
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if callable(value) and not key.startswith("_") and getattr(
                    value, "__module__", "") == name:
                assert value.__doc__, f"{name}.{key}"
    assert pathlib.Path(ls.__file__).parent.name == "lockstep"
