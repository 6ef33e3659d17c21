# SPDX-License-Identifier: Apache-2.0
"""Names of blocks: dense0_, and inside of name_scope() net0_dense0_."""

import threading

from lockstep.mxnet.gluon.parameter_dict import ParameterDict
from lockstep.mxnet.name import Prefix

_local = threading.local()
_counts = {}


def _next_name(hint, counts):
    number = counts.get(hint, 0)
    counts[hint] = number + 1
    return f"{hint}{number}_"


class BlockScope:
    """Gives prefixes to the blocks that are made inside of it."""

    def __init__(self, block):
        self._block = block
        self._counts = {}
        self._outer = []
        self._names = []

    @staticmethod
    def create(prefix, params, hint):
        """(prefix, parameters) of a new block."""
        current = getattr(_local, "current", None)
        if current is None:
            if prefix is None:
                prefix = _next_name(hint, _counts)
            params = ParameterDict(prefix) if params is None else ParameterDict(params.prefix,
                                                                                params)
            return prefix, params
        if prefix is None:
            prefix = _next_name(hint, current._counts)
        parent = current._block.params
        if params is None:
            params = ParameterDict(parent.prefix + prefix, parent._shared)
        else:
            params = ParameterDict(params.prefix, params)
        return current._block.prefix + prefix, params

    def __enter__(self):
        self._outer.append(getattr(_local, "current", None))
        if not self._block._empty_prefix:
            _local.current = self
            # Symbols of what is called in here are named after the block.
            self._names.append(Prefix(self._block.prefix))
            self._names[-1].__enter__()
        return self

    def __exit__(self, *error):
        _local.current = self._outer.pop()
        if not self._block._empty_prefix:
            self._names.pop().__exit__()
