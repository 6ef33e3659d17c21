# SPDX-License-Identifier: Apache-2.0
"""Writes type stubs of the ops and of Tensor, from the catalogue: write_stubs.py FOLDER"""

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


TENSOR = '''# SPDX-License-Identifier: Apache-2.0
# Written from the catalogue of ops when the package is built.
from typing import Any, Iterator, Sequence, Union
import numpy
from lockstep.dtypes import DType

TensorLike = Any
DTypeLike = Union[DType, str, type, Any]

def __getattr__(name: str) -> Any: ...

class Device:
    kind: str
    index: int

class Tensor:
    def __init__(self, data: TensorLike, dtype: DTypeLike | None = None) -> None: ...
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: Device
    ndim: int
    size: int
    nbytes: int
    itemsize: int
    grad: Tensor | None
    requires_grad: bool
    T: Tensor
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    def numpy(self) -> numpy.ndarray: ...
    def copy(self) -> Tensor: ...
    def detach(self) -> Tensor: ...
    def contiguous(self) -> Tensor: ...
    def is_contiguous(self) -> bool: ...
    def assign(self, value: TensorLike) -> Tensor: ...
    def astype(self, dtype: DTypeLike) -> Tensor: ...
    def attach_grad(self, mode: str = "write") -> Tensor: ...
    def backward(self, head_grad: TensorLike | None = None, retain: bool = False) -> None: ...
    def zero_grad(self) -> None: ...
    def reshape(self, *shape: int | Sequence[int]) -> Tensor: ...
    def transpose(self, *axes: int | Sequence[int]) -> Tensor: ...
    def expand(self, *shape: int | Sequence[int]) -> Tensor: ...
    def flatten(self, start_axis: int = 0) -> Tensor: ...
    def split(self, parts_or_sizes: int | Sequence[int], axis: int = 0) -> list[Tensor]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __setitem__(self, key: Any, value: TensorLike) -> None: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
'''
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"]
COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]


def operators():
    for name in OPERATORS:
        yield f"    def __{name}__(self, other: TensorLike) -> Tensor: ...\n"
        yield f"    def __r{name}__(self, other: TensorLike) -> Tensor: ...\n"
    for name in COMPARISONS:
        yield f"    def __{name}__(self, other: TensorLike) -> Tensor: ...  # type: ignore\n"
    for name in ("neg", "pos", "abs", "invert"):
        yield f"    def __{name}__(self) -> Tensor: ...\n"


def method(op):
    """The op with its first input as self."""
    rest = arguments(op).partition(", ")[2]
    inputs = f"self, {rest}" if rest else "self"
    return f"    def {op.__name__}({inputs}) -> {result(op)}: ...\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    ops = [op for members in _core._op_families.values() for op in members]
    (folder / "ops.pyi").write_text(HEAD + "\n" + "\n".join(stub(op) for op in ops))
    methods = [method(op) for op in ops if _core.Tensor.__dict__.get(op.__name__) is op]
    (folder / "_core.pyi").write_text(TENSOR + "".join(operators()) + "".join(methods))


main()
