# SPDX-License-Identifier: Apache-2.0
"""The types of a tensor's elements."""

_SIZES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int16": 2,
    "int32": 4, "int64": 8, "bool": 1,
}


class DType:
    """The type of a tensor's elements: `lockstep.float32` and its like.

    It equals its own name and NumPy's dtype of the same name.

    >>> import lockstep
    >>> lockstep.float32 == "float32"
    True
    """

    __slots__ = ("name", "itemsize")

    def __init__(self, name):
        self.name = name
        self.itemsize = _SIZES[name]

    @property
    def is_floating(self):
        """Whether it has fractions."""
        return "float" in self.name

    def __repr__(self):
        return f"lockstep.{self.name}" if self.name != "bool" else "lockstep.bool_"

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        if self is other:
            return True
        try:
            return self.name == as_dtype(other).name
        except (TypeError, ValueError):
            return NotImplemented

    def __reduce__(self):
        return as_dtype, (self.name,)


_ALL = {name: DType(name) for name in _SIZES}
_PYTHON = {float: "float32", int: "int64", bool: "bool"}

float32 = _ALL["float32"]
float64 = _ALL["float64"]
float16 = _ALL["float16"]
bfloat16 = _ALL["bfloat16"]
int8 = _ALL["int8"]
uint8 = _ALL["uint8"]
int16 = _ALL["int16"]
int32 = _ALL["int32"]
int64 = _ALL["int64"]
bool_ = _ALL["bool"]


def as_dtype(dtype):
    """The DType that a name, NumPy's or PyTorch's dtype, or Python's float, int or bool means."""
    if isinstance(dtype, DType):
        return dtype
    name = dtype
    if not isinstance(name, str):
        name = _PYTHON.get(dtype) if isinstance(dtype, type) else getattr(dtype, "name", None)
        if name is None:
            name = getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2].rstrip("_")
    if name not in _ALL:
        raise _unknown(dtype)
    return _ALL[name]


def _unknown(dtype):
    from lockstep.errors import InvalidArgument

    return InvalidArgument(f"dtype: there is no {dtype!r} (there are: {', '.join(_ALL)})")
