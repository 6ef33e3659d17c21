# SPDX-License-Identifier: Apache-2.0
"""Random numbers are functions of a key, never of what was drawn before.

>>> import lockstep
>>> with lockstep.random.scope(seed=7):
...     a = lockstep.random.normal((2, 3))
>>> with lockstep.random.scope(seed=7):
...     b = lockstep.random.normal((2, 3))
>>> bool((a == b).all())
True
"""

from lockstep import _core
from lockstep.ops import bernoulli, categorical, dropout, normal, permutation, randint, uniform

key = _core.random_key
multinomial = _core.multinomial

__all__ = ["bernoulli", "categorical", "dropout", "key", "multinomial", "normal", "permutation",
           "randint", "scope", "uniform"]


def scope(seed, step=0, shard=0):
    """Gives the draws of this thread their key while it lasts. Without one a draw is an error."""
    return _core._random_scope(seed, step, shard)
