# SPDX-License-Identifier: Apache-2.0
"""Writes type stubs of the ops, from the catalogue: write_stubs.py FOLDER"""

import pathlib
import sys

from lockstep import _core

TYPES = {"tensor": "TensorLike", "bool": "bool", "int": "int", "float": "float", "string": "str",
         "ints": "int | Sequence[int]", "dtype": "DTypeLike", "device": "Device | int"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written from the catalogue of ops when the package is built.
from typing import Any, Sequence, Union
from lockstep._core import Device, Tensor
from lockstep.dtypes import DType

TensorLike = Any
DTypeLike = Union[DType, str, type, Any]

def families() -> dict[str, list[str]]: ...
'''


def default_of(value):
    return repr(value) if isinstance(value, (bool, int, float, str, list)) else "..."


def parameter(name, presence, kind, default):
    if presence == "repeated":
        return f"*{name}: {TYPES[kind]}"
    if presence == "required":
        return f"{name}: {TYPES[kind]}"
    text = default_of(default) if "inf" not in repr(default) else "..."
    return f"{name}: {TYPES[kind]} | None = {text}"


def arguments(op):
    texts, seen = [], set()
    for name, presence, kind, default, _ in op._parameters():
        # After an optional one, and after a list of them, all are named.
        if not seen & {"repeated", "*"} and (
                presence == "key" or (presence == "required" and "optional" in seen)):
            texts.append("*")
            seen.add("*")
        seen.add("optional" if presence in ("optional", "attribute") else presence)
        texts.append(parameter(name, presence, kind, default))
    return ", ".join(texts)


def result(op):
    outputs = op._outputs()
    if len(outputs) == 1 and not outputs[0][2]:
        return "Tensor"
    if all(required for _, required, _ in outputs):
        return f"tuple[{', '.join(['Tensor'] * len(outputs))}]"
    return "tuple[Tensor, ...]"


def stub(op):
    summary = op.__doc__.splitlines()[0].replace('"', "'").replace("\\", "\\\\")
    return f'def {op.__name__}({arguments(op)}) -> {result(op)}:\n    """{summary}"""\n'


def main():
    folder = pathlib.Path(sys.argv[1])
    ops = [op for members in _core._op_families.values() for op in members]
    (folder / "ops.pyi").write_text(HEAD + "\n" + "\n".join(stub(op) for op in ops))


main()
