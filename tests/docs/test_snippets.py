# SPDX-License-Identifier: Apache-2.0
"""Runs the program of the documentation's snippets and compares what it prints with the pages."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from snippets import sections_of

PAGES = [Path(page) for page in os.environ["LOCKSTEP_PAGES"].split(":")]


def expected_texts():
    """(page, line of the code, what it prints)"""
    for page in PAGES:
        for section in sections_of(page):
            for block, following in zip(section, section[1:]):
                if following.kind == "text":
                    yield page.name, block.line, "\n".join(following.lines)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    result = subprocess.run([os.environ["LOCKSTEP_SNIPPETS"]], text=True, capture_output=True,
                            timeout=60, cwd=tmp_path_factory.mktemp("snippets"))
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    parts = re.split(r"^@(\S+:\d+)\n", result.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def matches(pattern, text):
    parts = [re.escape(part) for part in pattern.split("...")]
    return re.fullmatch(".*".join(parts), text, flags=re.DOTALL)


def test_a_pattern_matches_what_it_says_and_nothing_else():
    assert matches("a ... c\nd", "a b\nb c\nd")
    assert not matches("a.c", "abc")
    assert not matches("a", "a b")


@pytest.mark.parametrize("page, line, text", expected_texts())
def test_code_prints_what_the_page_says(printed, page, line, text):
    got = printed[f"{page}:{line}"].strip("\n")
    assert matches(text.strip("\n"), got), f"{page}:{line} prints\n{got}"


def test_every_snippet_ran(printed):
    blocks = [f"{b.page}:{b.line}" for page in PAGES for s in sections_of(page) for b in s
              if b.kind == "cpp"]
    assert list(printed) == blocks
