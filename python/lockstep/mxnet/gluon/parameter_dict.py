# SPDX-License-Identifier: Apache-2.0
"""Parameters by name: what blocks collect, initialise, save and load."""

import re
from collections import OrderedDict

import numpy as np

from lockstep.mxnet import _hints
from lockstep.mxnet.gluon.parameter import Constant, Parameter, _on_host

__all__ = ["ParameterDict"]


class ParameterDict:
    """Parameters by name, with a prefix."""

    __getattr__ = _hints.lookup(_hints.PARAMETERS)

    def __init__(self, prefix="", shared=None):
        self._prefix = prefix
        self._params = OrderedDict()
        self._shared = shared

    def __repr__(self):
        name = self._prefix + " " if self._prefix else ""
        lines = "\n".join(f"  {value!r}" for value in self.values())
        return f"{name}(\n{lines}\n)"

    def __getitem__(self, key):
        return self._params[key]

    def __iter__(self):
        return iter(self._params)

    def __len__(self):
        return len(self._params)

    def __contains__(self, key):
        return key in self._params

    def items(self):
        """(name, parameter) pairs."""
        return self._params.items()

    def keys(self):
        """Names."""
        return self._params.keys()

    def values(self):
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self):
        """What names begin with."""
        return self._prefix

    def _find(self, name):
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
            return self._params[name]
        return None

    def get(self, name, **kwargs):
        """The parameter of that name, made where there is none."""
        name = self._prefix + name
        found = self._find(name)
        if found is None:
            self._params[name] = Parameter(name, **kwargs)
            return self._params[name]
        self._check_same(found, kwargs)
        return found

    @staticmethod
    def _check_same(found, wanted):
        for key, value in wanted.items():
            existing = getattr(found, key, None)
            if existing is None:
                setattr(found, key, value)
            elif key == "shape" and value is not None and existing is not None:
                if isinstance(value, int):
                    value = (value,)
                pairs = list(zip(existing, value))
                if len(value) != len(existing) or any(a and b and a != b for a, b in pairs):
                    raise AssertionError(
                        f"Cannot retrieve Parameter '{found.name}' because desired attribute does "
                        f"not match with stored for attribute 'shape': desired '{value}' vs stored "
                        f"'{existing}'.")
                found._shape = tuple(a or b for a, b in pairs)
            elif key == "dtype" and value is not None and np.dtype(value) != np.dtype(existing):
                raise AssertionError(
                    f"Cannot retrieve Parameter '{found.name}' because desired attribute does not "
                    f"match with stored for attribute 'dtype': desired '{value}' vs stored "
                    f"'{existing}'.")

    def get_constant(self, name, value=None):
        """The constant of that name, made where there is none."""
        name = self._prefix + name
        found = self._find(name)
        if found is None:
            if value is None:
                raise KeyError(f"No constant named '{name}'. Please specify value if you want to "
                               "create a new constant.")
            found = self._params[name] = Constant(name, value)
        return found

    def update(self, other):
        """Takes another's parameters."""
        for name, value in other.items():
            if name in self._params and self._params[name] is not value:
                raise AssertionError(f"Cannot update self with other because they have different "
                                     f"Parameters with the same name '{name}'")
            self._params[name] = value

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False):
        """Contents for all."""
        from lockstep.mxnet import initializer

        init = initializer.Uniform() if init is None else init
        for value in self.values():
            value.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self):
        """Sets all gradients to 0."""
        for value in self.values():
            value.zero_grad()

    def reset_ctx(self, ctx):
        """Moves all to other contexts."""
        for value in self.values():
            value.reset_ctx(ctx)

    reset_device = reset_ctx

    def list_ctx(self):
        """All contexts."""
        found = []
        for value in self.values():
            found.extend(ctx for ctx in value.list_ctx() if ctx not in found)
        return found

    def setattr(self, name, value):  # noqa: A003 - MXNet's name
        """Sets an attribute of all: setattr('grad_req', 'null')."""
        for parameter in self.values():
            setattr(parameter, name, value)

    def cast(self, dtype):
        """Converts all."""
        for parameter in self.values():
            parameter.cast(dtype)

    def select(self, pattern):
        """Those whose names match."""
        made = ParameterDict(self._prefix)
        match = re.compile(pattern)
        made.update({name: value for name, value in self.items() if match.match(name)})
        return made

    def save(self, filename, strip_prefix=""):
        """Writes a .params file."""
        from lockstep.mxnet.ndarray import save

        contents = {}
        for parameter in self.values():
            name = parameter.name
            if not name.startswith(strip_prefix):
                raise ValueError(f"Prefix '{strip_prefix}' is to be striped before saving, but "
                                 f"Parameter's name '{name}' does not start with '{strip_prefix}'.")
            contents[name[len(strip_prefix):]] = _on_host(parameter)
        save(filename, contents)

    def load(self, filename, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="",
             cast_dtype=False, dtype_source="current"):
        """Reads a .params file."""
        from lockstep.mxnet.ndarray import load

        loaded = load(filename)
        if not isinstance(loaded, dict):
            raise ValueError(f"{filename}: has no names")
        loaded = {restore_prefix + re.sub("^(arg|aux):", "", name): value
                  for name, value in loaded.items()}
        if not allow_missing:
            for name in self.keys():
                if name not in loaded:
                    raise AssertionError(f"Parameter '{name[len(restore_prefix):]}' is missing in "
                                         f"file '{filename}', which contains parameters: "
                                         f"{_some(loaded)}.")
        for name, value in loaded.items():
            if name not in self._params:
                if not ignore_extra:
                    raise AssertionError(
                        f"Parameter '{name[len(restore_prefix):]}' loaded from file '{filename}' "
                        f"is not present in ParameterDict, choices are: {_some(self)}.")
                continue
            self._params[name]._load_init(value, ctx, cast_dtype, dtype_source)


def _some(names):
    names = list(names)
    return ", ".join(f"'{n}'" for n in names[:5]) + (", ..." if len(names) > 5 else "")
