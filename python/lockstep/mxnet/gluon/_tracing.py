# SPDX-License-Identifier: Apache-2.0
"""What parameters are while a hybridized block is traced: arrays that stand for them."""

import threading

_local = threading.local()


def substitute(parameter):
    """The array that stands for a parameter, or None where nothing is traced."""
    stack = getattr(_local, "stack", None)
    if not stack or stack[-1] is None:
        return None
    return stack[-1].get(id(parameter))


def is_active():
    """Whether this thread traces a block."""
    stack = getattr(_local, "stack", None)
    return bool(stack) and stack[-1] is not None


class substituted:  # noqa: N801 - a context manager
    """While it lasts, parameters are what the dict of ids says."""

    def __init__(self, arrays):
        self._arrays = arrays

    def __enter__(self):
        if not hasattr(_local, "stack"):
            _local.stack = []
        _local.stack.append(self._arrays)

    def __exit__(self, *error):
        _local.stack.pop()


def outside():
    """While it lasts, parameters are themselves."""
    return substituted(None)
