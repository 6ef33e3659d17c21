# SPDX-License-Identifier: Apache-2.0
"""Files of named tensors: our own, MXNet's .params, safetensors and NumPy's .npz.

>>> import os, tempfile
>>> import lockstep as ls
>>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
>>> ls.io.save(path, {"weight": ls.tensor([[1.0, 2.0]]), "step": ls.tensor(3)})
>>> {name: (x.shape, x.dtype.name) for name, x in sorted(ls.io.load(path).items())}
{'step': ((), 'int64'), 'weight': ((1, 2), 'float32')}
"""

import os

from lockstep._convert import asarray
from lockstep._core import io as _io
from lockstep._core.io import formats
from lockstep.errors import InvalidArgument

__all__ = ["format_of", "formats", "load", "save"]


def load(path, format=None, max_inflated=_io._max_inflated):
    """A dictionary of the tensors in a file, in its order and under its own names.

    Its first bytes say what it is, or `format`: one of `formats`. A checkpoint and a run's folder
    give their parameters. Compressed and sparse arrays become `max_inflated` bytes at most, all
    together.
    """
    return dict(_io._load(os.fspath(path), format, max_inflated))


def save(path, tensors, format=None):
    """Writes a dictionary of tensors, or of whatever holds numbers, whole or not at all.

    The ending says as what: `.lockstep`, `.params` (MXNet's), `.safetensors` or `.npz`; or
    `format` does: one of `formats`.
    """
    for name in tensors:
        if not isinstance(name, str):
            raise InvalidArgument(f"save: a name is {name!r}, expected a string")
    _io._save(os.fspath(path), [(name, asarray(x)) for name, x in tensors.items()], format)


def format_of(path):
    """Which of `formats` a file is, by its first bytes."""
    return _io._format(os.fspath(path))
