# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel with CMake, for pip (PEP 517): it needs nothing that pip would have to fetch.

`pip install .` builds in build-python/ beside the sources; `--config-settings build-dir=FOLDER`, or
LOCKSTEP_BUILD in the environment, takes a folder that is built already.
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version():
    """The project's, as CMake has it."""
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(lockstep VERSION ([0-9.]+)", text).group(1)


def _build_dir(settings):
    given = (settings or {}).get("build-dir") or os.environ.get("LOCKSTEP_BUILD")
    return pathlib.Path(given) if given else ROOT / "build-python"


def _run(*command):
    subprocess.run([str(part) for part in command], check=True)


def _build(folder):
    if not (folder / "CMakeCache.txt").exists():
        _run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_BENCH=OFF", f"-DPython3_EXECUTABLE={sys.executable}")
    _run("cmake", "--build", folder, "--target", "python", "lockstep_program")


def _tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _metadata():
    lines = ["Metadata-Version: 2.1", "Name: lockstep", f"Version: {version()}",
             "Summary: Deep learning on one machine or many, with the same bits on any number of "
             "workers",
             "License: Apache-2.0", "Requires-Python: >=3.10", "Requires-Dist: numpy",
             "Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()]
    return "\n".join(lines)


def _dist_info():
    return f"lockstep-{version()}.dist-info"


def _package_files(folder):
    package = folder / "python" / "lockstep"
    for path in sorted(package.rglob("*")):
        if path.is_file() and path.suffix in (".py", ".pyi", ".so", ".typed"):
            yield f"lockstep/{path.relative_to(package)}", path.read_bytes(), 0o644
    scripts = f"lockstep-{version()}.data/scripts/lockstep"
    yield scripts, (folder / "bin" / "lockstep").read_bytes(), 0o755


def _record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def _write(archive, name, content, mode=0o644):
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
    return _record_line(name, content)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel's file name; the program `lockstep` comes with it."""
    folder = _build_dir(config_settings)
    _build(folder)
    name = f"lockstep-{version()}-{_tag()}.whl"
    wheel = f"Wheel-Version: 1.0\nGenerator: lockstep_build\nRoot-Is-Purelib: false\nTag: {_tag()}\n"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as archive:
        records = [_write(archive, *file) for file in _package_files(folder)]
        info = _dist_info()
        for file, text in (("METADATA", _metadata()), ("WHEEL", wheel),
                           ("LICENSE", (ROOT / "LICENSE").read_text())):
            records.append(_write(archive, f"{info}/{file}", text.encode()))
        _write(archive, f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]).encode())
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """The metadata alone, without a build."""
    folder = pathlib.Path(metadata_directory) / _dist_info()
    folder.mkdir()
    (folder / "METADATA").write_text(_metadata())
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {_tag()}\n")
    return folder.name


def build_sdist(sdist_directory, config_settings=None):
    """The sources that git knows."""
    stem = f"lockstep-{version()}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(pathlib.Path(sdist_directory) / f"{stem}.tar.gz", "w:gz") as archive:
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                archive.add(ROOT / name, f"{stem}/{name}")
        content = _metadata().encode()
        info = tarfile.TarInfo(f"{stem}/PKG-INFO")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return f"{stem}.tar.gz"
