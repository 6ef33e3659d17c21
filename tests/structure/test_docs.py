# SPDX-License-Identifier: Apache-2.0
"""The pages that say where things are name what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def folders_in_table(text):
    return set(re.findall(r"^\| `([a-z]+)/` \|", text, re.MULTILINE))


def missing_paths(text):
    """Paths in backquotes, from the root or from lockstep/, at which there is nothing."""
    paths = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text)
    return [path for path in paths if not any((start / path).exists() for start in (ROOT, ROOT / "lockstep"))]


def test_the_architecture_has_every_folder_and_no_other():
    there = {path.name for path in (ROOT / "lockstep").iterdir() if path.is_dir()}
    assert folders_in_table(page("architecture.md")) == there


def test_what_extend_names_is_there():
    text = page("extend.md")
    assert len(re.findall(r"`(?:[\w.]+/)+[\w.]*`", text)) > 20
    assert missing_paths(text) == []


def test_a_path_that_is_gone_is_found():
    assert missing_paths("`ops/op.h`, `lockstep/ops/op.h` and `ops/gone.h`") == ["ops/gone.h"]
