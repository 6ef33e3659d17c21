# SPDX-License-Identifier: Apache-2.0
"""Values by key, the same on all workers.

>>> import lockstep as ls
>>> store = ls.kvstore.create("local")
>>> store.init("w", ls.zeros(2))
>>> store.push("w", [ls.ones(2), ls.ones(2)])
>>> store.pull("w").tolist()
[2.0, 2.0]
"""

from lockstep._core.kvstore import KVStore, create

__all__ = ["KVStore", "create"]
