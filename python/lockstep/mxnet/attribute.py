# SPDX-License-Identifier: Apache-2.0
"""Attributes of every symbol that is made inside of a scope."""

import threading


class AttrScope:
    """`with AttrScope(ctx_group='dev1'):` gives the symbols made inside an attribute."""

    _here = threading.local()

    def __init__(self, **attributes):
        for key, value in attributes.items():
            if not isinstance(value, str):
                raise ValueError(f"AttrScope: {key} is {value!r}, expected a string")
        self._attr = attributes
        self._outer = None

    def get(self, attr):
        """The scope's attributes with `attr` over them."""
        made = dict(self._attr)
        made.update(attr or {})
        return made

    def __enter__(self):
        self._outer = AttrScope.current()
        merged = dict(self._outer._attr)
        merged.update(self._attr)
        self._own, self._attr = self._attr, merged
        AttrScope._here.value = self
        return self

    def __exit__(self, *_):
        self._attr = self._own
        AttrScope._here.value = self._outer

    @staticmethod
    def current():
        """The scope of this thread."""
        if not hasattr(AttrScope._here, "value"):
            AttrScope._here.value = AttrScope()
        return AttrScope._here.value


def current():
    return AttrScope.current()
