# SPDX-License-Identifier: Apache-2.0
"""What the program loads before it knows what it is asked for."""
import os
import subprocess

import pytest

from conftest import PROGRAM


@pytest.mark.parametrize("library", [
    "libucp", "libucs", "libmpi", "libzmq", "libarchive", "libhwy", "libdnnl", "libOpenCL",
    "libgomp", "libcrypto", "libgfortran",
])  # fmt: skip
def test_what_few_commands_use_is_not_loaded_at_the_start(library):
    environment = {**os.environ, "LD_DEBUG": "files"}
    process = subprocess.run([PROGRAM, "--version"], env=environment, capture_output=True,
                             text=True, timeout=60)
    assert process.returncode == 0
    assert process.stdout.startswith("lockstep ")
    loaded = {line.split("file=")[1].split()[0] for line in process.stderr.splitlines()
              if "file=" in line}
    assert any(name.startswith("libfmt") for name in loaded), "the loader told nothing"
    assert not [name for name in loaded if name.startswith(library)]
