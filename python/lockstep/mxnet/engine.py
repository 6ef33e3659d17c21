# SPDX-License-Identifier: Apache-2.0
"""How many ops MXNet runs at once: the engine compiles hybridized blocks as a whole instead."""

import contextlib

_size = [15]


def set_bulk_size(size):
    """Remembers the size; returns the one before."""
    before, _size[0] = _size[0], int(size)
    return before


@contextlib.contextmanager
def bulk(size):
    """A scope with another size."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
