# SPDX-License-Identifier: Apache-2.0
"""The release whose interface this is, and where the engine is."""

from lockstep import _core

__version__ = "1.9.1"


def find_lib_path(prefix="libmxnet"):
    """The engine's library."""
    return [_core.__file__]
