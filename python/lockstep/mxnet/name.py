# SPDX-License-Identifier: Apache-2.0
"""Names of symbols that were given none."""

import threading


class NameManager:
    """Counts the symbols of each op: fullyconnected0, fullyconnected1, ..."""

    _here = threading.local()

    def __init__(self):
        self._counter = {}
        self._outer = None

    def get(self, name, hint):
        """`name`, or the next name that begins with `hint`."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self):
        self._outer = NameManager.current()
        NameManager._here.value = self
        return self

    def __exit__(self, *_):
        NameManager._here.value = self._outer

    @staticmethod
    def current():
        """The one that names symbols of this thread."""
        if not hasattr(NameManager._here, "value"):
            NameManager._here.value = NameManager()
        return NameManager._here.value


class Prefix(NameManager):
    """Puts a prefix before every name."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


def current():
    return NameManager.current()
