# SPDX-License-Identifier: Apache-2.0
"""Every op of the catalogue, by its own name, with the inputs and attributes its definition has.

Inputs come first and may be tensors, arrays or numbers; attributes follow, by place or by name.
An op with several outputs returns a tuple. `help(lockstep.ops.conv)` tells about one of them.

>>> import lockstep
>>> lockstep.ops.clip(lockstep.tensor([-1.0, 0.5, 2.0]), 0, 1)
[0.  0.5 1. ]
float32[3] cpu(0)
"""

from lockstep import _core

_FAMILIES = dict(_core._op_families)


def families():
    """The ops' names by family."""
    return {family: [op.__name__ for op in ops] for family, ops in _FAMILIES.items()}


for _ops in _FAMILIES.values():
    for _op in _ops:
        globals()[_op.__name__] = _op

__all__ = ["families"] + [op.__name__ for ops in _FAMILIES.values() for op in ops]
