# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import zipfile

import pytest

import lockstep as ls


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Made of what is built already."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import lockstep_build; print(lockstep_build.build_wheel({str(folder)!r}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root,
                         env={**os.environ, "PYTHONPATH": str(root / "python")}, timeout=900)
    assert out.returncode == 0, out.stderr
    return folder / out.stdout.splitlines()[-1]


def test_a_wheel_has_the_package_its_types_and_the_program(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("lockstep/__init__.py", "lockstep/ops.pyi", "lockstep/py.typed"):
        assert name in names
    assert any(name.startswith("lockstep/_core") and name.endswith(".so") for name in names)
    assert any(name.endswith("scripts/lockstep") for name in names)
    metadata = zipfile.ZipFile(wheel).read(
        f"lockstep-{ls.__version__}.dist-info/METADATA").decode()
    assert f"Version: {ls.__version__}" in metadata and "License: Apache-2.0" in metadata


def test_pip_installs_the_wheel_and_it_runs_elsewhere(wheel, tmp_path):
    target = tmp_path / "site"
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--no-index",
                          "--target", str(target), str(wheel)], capture_output=True, text=True,
                         timeout=300)
    assert pip.returncode == 0, pip.stderr
    code = "import lockstep, sys; print(lockstep.__file__, (lockstep.ones(3) + 1).sum().item())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)}, timeout=120)
    assert out.returncode == 0, out.stderr
    where, total = out.stdout.split()
    assert where.startswith(str(target)) and total == "6.0"


def test_versions_agree(root):
    sys.path.insert(0, str(root / "python"))
    try:
        import lockstep_build
    finally:
        sys.path.pop(0)
    assert lockstep_build.version() == ls.__version__
