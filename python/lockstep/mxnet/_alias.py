# SPDX-License-Identifier: Apache-2.0
"""Makes `import mxnet` and `from mxnet.gluon import nn` find lockstep.mxnet."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys

from lockstep.mxnet.base import NeverWas

_OWN = "lockstep.mxnet"
# MXNet's names of modules whose file has another name here.
_FILES = {"sym": "symbol", "nd": "ndarray", "init": "initializer", "kv": "kvstore", "viz":
          "visualization", "mod": "module", "np": "numpy", "npx": "numpy_extension", "img": "image",
          "mon": "monitor", "rnd": "random"}
# Files of MXNet's whose names a module here has itself.
_WITHIN = {
    "contrib.amp": ("loss_scaler",), "gluon.contrib.data": ("sampler",),
    "gluon.contrib.nn": ("basic_layers",), "gluon.contrib.rnn": ("conv_rnn_cell", "rnn_cell"),
    "gluon.model_zoo.vision": ("alexnet", "densenet", "squeezenet", "vgg"),
    "image": ("detection", "image"), "io": ("io",), "kvstore": ("base", "kvstore"),
    "module": ("base_module", "bucketing_module", "module", "python_module", "sequential_module"),
    "ndarray": ("utils",), "numpy_extension": ("random", "utils"), "optimizer": ("contrib",),
    "rnn": ("io", "rnn", "rnn_cell"),
}


def _target(name):
    parts = name.split(".")[1:]
    if parts and parts[0] in _FILES:
        parts[0] = _FILES[parts[0]]
    if parts and parts[-1] in _WITHIN.get(".".join(parts[:-1]), ()):
        parts.pop()
    return ".".join([_OWN, *parts])


class _Loader(importlib.abc.Loader):
    """Gives the module that is there under its own name."""

    def __init__(self, target):
        self._target = target

    def create_module(self, spec):
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        if self._target.removeprefix(_OWN + ".") in _WITHIN and not hasattr(module, "__path__"):
            module.__path__ = []  # what is below it is looked for, and found here
        return module

    def exec_module(self, module):
        # The import machinery has given it the alias's spec; it keeps its own.
        module.__spec__ = self._spec


def _tell_what_never_was(name):
    """An ImportError with the hint of a module that is there already."""
    whole, _, part = name.rpartition(".")
    module = sys.modules.get(whole) if whole.partition(".")[0] == "mxnet" else None
    if module is None or getattr(module.__spec__, "_initializing", False):
        return
    try:
        getattr(module, part)
    except NeverWas as missing:
        raise ImportError(str(missing), name=name) from None
    except AttributeError:
        return


class _Finder(importlib.abc.MetaPathFinder):
    """Finds mxnet, mxnet.x and, where this package has it, horovod.mxnet."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith(_OWN + "."):
            # `from mxnet import x` asks under the name that the module has itself.
            if importlib.machinery.PathFinder.find_spec(name, path) is None:
                _tell_what_never_was(name.replace(_OWN, "mxnet", 1))
            return None
        if name == "mxnet" or name.startswith("mxnet."):
            own = _target(name)
        elif name == "horovod":
            return importlib.machinery.ModuleSpec(name, None, is_package=True)
        elif name == "horovod.mxnet":
            own = f"{_OWN}._horovod"
        else:
            return None
        try:
            found = importlib.util.find_spec(own)
        except ModuleNotFoundError:
            found = None
        if found is None:
            _tell_what_never_was(name)
            return None
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(name, _Loader(own), is_package=is_package)


def install():
    """From now on `import mxnet` is lockstep.mxnet."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for own, parts in _WITHIN.items():
        module = importlib.import_module(f"{_OWN}.{own}")
        for part in parts:
            if not hasattr(module, part):
                setattr(module, part, module)
