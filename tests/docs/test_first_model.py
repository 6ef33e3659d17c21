# SPDX-License-Identifier: Apache-2.0
"""Follows docs/first_model.md from an empty folder: writes its files, runs its commands in order, and
compares what they print with the page."""
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_snippets import matches

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first_model.md"
BUILD = os.environ.get("LOCKSTEP_BUILD")
SECONDS = 900  # of one block; compiling takes its time on a machine that does other things


@dataclass
class Step:
    line: int
    kind: str  # the name of a file to write, or "sh"
    text: str
    printed: str = None  # by a command, where the page says it


def steps_of(text):
    """A fenced block behind a line "`NAME`:" is a file; sh is run; text is what that prints."""
    steps, name = [], None
    blocks = re.finditer(r"^(?:`([\w.]+)`:\n\n)?```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for block in blocks:
        name, language, body = block.groups()
        line = text[:block.start()].count("\n") + 1
        if name:
            steps.append(Step(line, name, body))
        elif language == "sh":
            steps.append(Step(line, "sh", body))
        elif language == "text" and steps and steps[-1].kind == "sh":
            steps[-1].printed = body
        else:
            raise ValueError(f"line {line}: a block of {language} that is neither file nor command")
    return steps


def test_blocks_are_files_commands_and_what_they_print():
    steps = steps_of("`a.cpp`:\n\n```cpp\nint a;\n```\n\n```sh\nls\n```\n\n```text\na.cpp\n```\n")
    assert [(s.kind, s.text, s.printed) for s in steps] == [
        ("a.cpp", "int a;\n", None), ("sh", "ls\n", "a.cpp\n")]
    with pytest.raises(ValueError, match="line 1: a block of cpp"):
        steps_of("```cpp\nint a;\n```\n")


@pytest.mark.skipif(not BUILD, reason="needs an installation (LOCKSTEP_BUILD)")
def test_a_newcomer_gets_through(tmp_path):
    prefix, folder = tmp_path / "prefix", tmp_path / "empty"
    folder.mkdir()
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True,
                   capture_output=True, timeout=SECONDS)
    environment = dict(os.environ, CMAKE_PREFIX_PATH=str(prefix), CMAKE_GENERATOR="Ninja",
                       PATH=f"{prefix}/bin:{os.environ['PATH']}")
    for step in steps_of(PAGE.read_text()):
        if step.kind != "sh":
            (folder / step.kind).write_text(step.text)
            continue
        result = subprocess.run(["bash", "-ec", step.text], cwd=folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        assert result.returncode == 0, f"line {step.line}: {result.stdout}{result.stderr}"
        if step.printed is not None:
            assert matches(step.printed.strip(), result.stdout.strip()), (
                f"line {step.line} prints\n{result.stdout}")
