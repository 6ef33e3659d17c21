# SPDX-License-Identifier: Apache-2.0
"""MXNet draws from one generator of the process; the engine's draws are functions of a key.

The key of a draw is the seed and the number of draws before it.
"""

import itertools
import threading

import numpy as np

from lockstep import _core


class _State:
    def __init__(self):
        self.seed = int.from_bytes(np.random.SeedSequence().generate_state(1).tobytes(), "little")
        self.count = itertools.count()
        self.lock = threading.Lock()


_state = _State()


def seed(value):
    """Begins anew."""
    _state.seed = int(value) & 0xFFFFFFFFFFFFFFFF
    _state.count = itertools.count()


def current_seed():
    """What the draws begin from."""
    return _state.seed


def next_key():
    """(seed, step) of the next draw."""
    return _state.seed, next(_state.count) & 0xFFFFFFFF


def key_tensor():
    """The next draw's key as the engine takes it."""
    return _core.random_key(*next_key())


def draw(op, beside, *args, **kwargs):
    """op(...) with a key of its own; in a trace, with the key that the call will have."""
    if beside is not None:
        if beside.is_symbolic:
            return op(*args, **kwargs)
        if beside.device.index:
            return op(*args, key=key_tensor().to(beside.device), **kwargs)
    return op(*args, key=key_tensor(), **kwargs)


def scope():
    """Gives the draws of a compiled call their key."""
    return _core._random_scope(*next_key())


def generator():
    """A generator of NumPy's for distributions that the engine has not."""
    return np.random.default_rng(next_key())
