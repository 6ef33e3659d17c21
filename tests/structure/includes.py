# SPDX-License-Identifier: Apache-2.0
"""Which folder may include which: the layers of docs/architecture.md, read from the sources."""

import re
from pathlib import Path

# Each folder sees the ones before it in its own tower, and base.
COMPUTING = ["tensor", "ops", "autograd", "graph", "io", "nn", "optim", "data"]
COMMUNICATING = ["comm", "cluster"]
MEETING = ["kvstore", "parallel", "train", "recipes", "serve", "cli"]

# Of a folder that has rooms, each sees the ones before it, and what belongs to none of them.
ROOMS = {"cluster": ["membership", "launch", "doctor"]}

# Libraries that only some folders' own files may see; our public headers never do.
PRIVATE_LIBRARIES = re.compile(r"^(dnnl|oneapi/|hwy/|omp\.h|nlohmann/|CLI/|torch/|ATen/|zlib\.h|png\.h|jpeglib\.h|google/|uc[pst]/|zmq|mpi\.h)")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def allowed_folders():
    """A dictionary: folder of lockstep/ -> the folders it may include besides itself."""
    allowed = {"base": set(), "observe": {"base"}}
    for tower in (COMPUTING, COMMUNICATING):
        for place, folder in enumerate(tower):
            allowed[folder] = {"base", *tower[:place]}
    below = {"base", "observe", *COMPUTING, *COMMUNICATING}
    for place, folder in enumerate(MEETING):
        allowed[folder] = below | set(MEETING[:place])
    allowed["bench"] = below | set(MEETING[:-1])  # the program's options are not its business
    return allowed


ALLOWED = allowed_folders()


def includes(path):
    """Pairs (quoted, name) of the file's includes."""
    for line in path.read_text(encoding="utf-8").splitlines():
        found = INCLUDE.match(line)
        if found:
            yield found.group(1) == '"', found.group(2)


def is_private(path):
    return "detail" in path.parts or path.parts[:3] == ("lockstep", "ops", "cpu")


def is_public_header(relative):
    in_library = relative.parts[0] == "lockstep" and relative.parts[1] != "cli"
    return relative.suffix == ".h" and in_library and not is_private(relative)


def refuse_library(relative, name):
    if is_public_header(relative) and PRIVATE_LIBRARIES.match(name):
        return f"{relative}: a public header includes <{name}>; only .cpp files and detail/ may"
    return None


def refuse_room(relative, name):
    """Between the rooms of one folder."""
    rooms = ROOMS.get(relative.parts[1], [])
    own, other = relative.parts[2], Path(name).parts[2]
    if other not in rooms or own == other:
        return None
    if own not in rooms or rooms.index(other) > rooms.index(own):
        return f'{relative}: "{name}" is in a room that {own} may not enter'
    if "detail" in Path(name).parts:
        return f'{relative}: "{name}" is for {other}/ alone'
    return None


def room_of(relative):
    """A folder of lockstep/, or bench/: what `lockstep bench` measures."""
    return "bench" if relative.parts[0] == "bench" else relative.parts[1]


def refuse_own(relative, name):
    parts = Path(name).parts
    folder = room_of(relative)
    if parts[0] == "bench":
        return None if folder in ("bench", "cli") else f'{relative}: {folder}/ may not include "{name}"'
    if parts[0] != "lockstep" or len(parts) < 3:
        return f'{relative}: "{name}" is not a path from the root, "lockstep/<folder>/<file>.h"'
    if parts[1] not in ALLOWED:
        return f'{relative}: "{name}" is in a folder that docs/architecture.md does not know'
    if parts[1] != folder and parts[1] not in ALLOWED[folder]:
        return f'{relative}: {folder}/ may not include "{name}"'
    if parts[1] != folder and is_private(Path(name)):
        return f'{relative}: {folder}/ may not include "{name}", which is for {parts[1]}/ alone'
    if is_public_header(relative) and not is_public_header(Path(name)):
        return f'{relative}: a public header includes "{name}", which is not installed'
    return refuse_room(relative, name) if parts[1] == folder else None


def violations(root):
    """One line for each include under root's lockstep/ and bench/ that reaches where it may not."""
    found = []
    for path in sorted([*(root / "lockstep").rglob("*"), *(root / "bench").glob("*")]):
        if path.suffix not in (".h", ".cpp"):
            continue
        relative = path.relative_to(root)
        if relative.name == "lockstep.h" and len(relative.parts) == 2:
            continue  # the header that includes the others; nothing inside may include it
        if room_of(relative) not in ALLOWED:
            found.append(f"{relative}: lockstep/{relative.parts[1]} is not a known folder")
            continue
        for quoted, name in includes(path):
            own = quoted or name.startswith("lockstep/")
            found.append(refuse_own(relative, name) if own else refuse_library(relative, name))
    return [line for line in found if line]
