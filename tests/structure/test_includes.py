# SPDX-License-Identifier: Apache-2.0
"""The layers hold in the tree, and the check that says so sees each way of breaking them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from includes import ALLOWED, violations  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def check_file(root, path, line):
    """What the checker says of a tree with one file of one line."""
    file = root / path
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    return violations(root)


def test_no_folder_reaches_where_it_may_not():
    assert violations(ROOT) == []


def test_the_tree_is_really_read():
    assert (ROOT / "lockstep/ops/op.h").exists()
    assert "tensor" in ALLOWED["ops"]


@pytest.mark.parametrize(
    "path, line, complaint",
    [
        ("lockstep/tensor/a.h", '#include "lockstep/ops/op.h"', "tensor/ may not include"),
        ("lockstep/ops/a.cpp", '#include "lockstep/graph/graph.h"', "ops/ may not include"),
        ("lockstep/base/a.h", '#include "lockstep/tensor/dtype.h"', "base/ may not include"),
        ("lockstep/comm/a.h", '#include "lockstep/tensor/tensor.h"', "comm/ may not include"),
        ("lockstep/cluster/a.h", "#include <lockstep/ops/op.h>", "cluster/ may not include"),
        ("lockstep/nn/a.cpp", '#  include "lockstep/comm/c.h"', "nn/ may not include"),
        ("lockstep/observe/a.h", '#include "lockstep/tensor/tensor.h"', "observe/ may not"),
        ("lockstep/kvstore/a.h", '#include "lockstep/train/t.h"', "kvstore/ may not include"),
        ("lockstep/ops/a.h", '#include "op.h"', "not a path from the root"),
        ("lockstep/ops/a.h", '#include "../tensor/tensor.h"', "not a path from the root"),
        ("lockstep/ops/a.cpp", '#include "tests/ops/op_cases.h"', "not a path from the root"),
        ("lockstep/ops/a.h", "#include <dnnl.hpp>", "a public header includes <dnnl.hpp>"),
        ("lockstep/ops/a.h", "#include <hwy/highway.h>", "a public header includes <hwy"),
        ("lockstep/ops/a.h", '#include "lockstep/ops/cpu/b.h"', "which is not installed"),
        ("lockstep/graph/a.cpp", '#include "lockstep/ops/cpu/b.h"', "which is for ops/ alone"),
        ("lockstep/train/a.cpp", '#include "lockstep/data/detail/b.h"', "which is for data/ alone"),
        ("lockstep/train/detail/a.h", '#include "lockstep/nn/detail/b.h"', "is for nn/ alone"),
        ("lockstep/cli/a.cpp", '#include "lockstep/train/detail/b.h"', "is for train/ alone"),
        ("lockstep/train/a.cpp", '#include "lockstep/recipes/r.h"', "train/ may not include"),
        ("lockstep/recipes/a.cpp", '#include "lockstep/cli/c.h"', "recipes/ may not include"),
        ("lockstep/recipes/a.cpp", '#include "bench/b.h"', "recipes/ may not include"),
        ("bench/a.cpp", '#include "lockstep/cli/c.h"', "bench/ may not include"),
        ("bench/a.cpp", '#include "lockstep/ops/cpu/b.h"', "which is for ops/ alone"),
        ("lockstep/gadgets/a.h", "#include <vector>", "is not a known folder"),
        ("lockstep/cluster/membership/a.cpp", '#include "lockstep/cluster/launch/b.h"', "may not enter"),
        ("lockstep/cluster/detail/a.h", '#include "lockstep/cluster/launch/b.h"', "may not enter"),
        ("lockstep/cluster/doctor/a.cpp", '#include "lockstep/cluster/launch/detail/b.h"', "alone"),
        ("lockstep/ops/a.h", '#include "lockstep/gadgets/b.h"', "does not know"),
    ],
)
def test_a_bad_include_is_refused(tmp_path, path, line, complaint):
    (message,) = check_file(tmp_path, path, line)
    assert message.startswith(path) and complaint in message


@pytest.mark.parametrize(
    "path, line",
    [
        ("lockstep/ops/a.cpp", '#include "lockstep/tensor/tensor.h"'),
        ("lockstep/ops/a.cpp", '#include "lockstep/ops/cpu/b.h"'),
        ("lockstep/ops/cpu/a.h", "#include <dnnl.hpp>"),
        ("lockstep/ops/cpu/a.cpp", "#include <hwy/highway.h>"),
        ("lockstep/comm/a.h", '#include "lockstep/base/error.h"'),
        ("lockstep/kvstore/a.h", '#include "lockstep/tensor/tensor.h"'),
        ("lockstep/cli/a.h", '#include "lockstep/serve/s.h"'),
        ("lockstep/cli/a.cpp", '#include "bench/b.h"'),
        ("lockstep/cli/a.cpp", '#include "lockstep/recipes/r.h"'),
        ("lockstep/data/text/a.cpp", '#include "lockstep/data/detail/b.h"'),
        ("bench/a.cpp", '#include "lockstep/recipes/r.h"'),
        ("bench/a.cpp", '#include "bench/b.h"'),
        ("lockstep/graph/a.h", "#include <vector>"),
        ("lockstep/cluster/doctor/a.h", '#include "lockstep/cluster/membership/job.h"'),
        ("lockstep/cluster/launch/a.cpp", '#include "lockstep/cluster/detail/b.h"'),
        ("lockstep/cluster/launch/a.cpp", '#include "lockstep/cluster/launch/detail/b.h"'),
        ("lockstep/graph/a.h", '// #include "lockstep/nn/block.h"'),
    ],
)
def test_a_good_include_is_taken(tmp_path, path, line):
    assert check_file(tmp_path, path, line) == []
