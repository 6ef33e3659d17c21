# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.9's Python interface on the engine: `import lockstep.mxnet as mx`.

>>> import lockstep.mxnet as mx
>>> x = mx.nd.array([1.0, 2.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = (x * x).sum()
>>> y.backward()
>>> x.grad.asnumpy()
array([2., 4.], dtype=float32)

`python3 -m lockstep.mxnet script.py` runs a script that says `import mxnet`.
"""

import importlib

from lockstep.mxnet import base
from lockstep.mxnet.base import MXNetError, missing_name as _missing_name
from lockstep.mxnet import context
from lockstep.mxnet.context import Context, cpu, cpu_pinned, current_context, gpu
from lockstep.mxnet import ndarray
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet.ndarray import NDArray
from lockstep.mxnet import autograd, initializer, lr_scheduler, metric, optimizer, random
from lockstep.mxnet import initializer as init
from lockstep.mxnet import kvstore
from lockstep.mxnet import kvstore as kv
from lockstep.mxnet import gluon, operator

__version__ = "1.9.1"
# Names of modules that are read when they are first asked for.
_MODULES = {
    "amp": "contrib.amp", "attribute": "attribute", "callback": "callback", "contrib": "contrib",
    "engine": "engine", "executor": "executor", "image": "image", "img": "image", "io": "io",
    "libinfo": "libinfo", "log": "log", "mod": "module", "model": "model", "module": "module",
    "mon": "monitor", "monitor": "monitor", "name": "name", "np": "numpy", "numpy": "numpy",
    "npx": "numpy_extension", "numpy_extension": "numpy_extension", "profiler": "profiler", "recordio": "recordio", "rnn": "rnn", "rtc": "rtc",
    "runtime": "runtime", "sym": "symbol", "symbol": "symbol", "test_utils": "test_utils",
    "util": "util", "viz": "visualization", "visualization": "visualization",
}
_SHORT = {"AttrScope": ("attribute", "AttrScope"), "Symbol": ("symbol", "Symbol"),
          "Executor": ("executor", "Executor"), "Monitor": ("monitor", "Monitor"),
          "rnd": ("random", None), "opt": ("optimizer", None), "lr": ("lr_scheduler", None)}
_UTIL = ("is_np_array", "is_np_shape", "np_array", "np_shape", "reset_np", "set_np", "set_np_shape",
         "use_np", "use_np_array", "use_np_shape")
_HINTS = {
    "num_gpus": "write mx.context.num_gpus()",
    "config_context": "write mx.gpu() if mx.context.num_gpus() > 0 else mx.cpu()",
    "data": "write mx.gluon.data or mx.io",
    "distributed": "write kv = mx.kv.create('dist_sync'), kv.push, kv.pull, kv.rank, "
                   "kv.num_workers, or hand 'dist_sync' to gluon.Trainer",
    "backend": "write mx.kv.create('dist_sync')",
    "optim": "write mx.optimizer.SGD(...), handed to gluon.Trainer",
    "optimizers": "write mx.optimizer",
    "losses": "write mx.gluon.loss",
    "layers": "write mx.gluon.nn",
    "nn": "write mx.gluon.nn",
    "tensor": "write mx.nd.array(...)",
    "array": "write mx.nd.array(...)",
    "save": "write mx.nd.save(...), or net.save_parameters(...)",
    "load": "write mx.nd.load(...), or net.load_parameters(...)",
    "device": "in MXNet 1.9 write mx.cpu(), mx.gpu() or mx.Context(...)",
}


def __getattr__(name):
    if name in _SHORT:
        module, attribute = _SHORT[name]
        found = importlib.import_module(f"{__name__}.{module}")
        return found if attribute is None else getattr(found, attribute)
    if name in _UTIL:
        return getattr(importlib.import_module(f"{__name__}.util"), name)
    if name in _MODULES:
        full = f"{__name__}.{_MODULES[name]}"
        try:
            found = importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name is None or not full.startswith(error.name):
                raise
            raise AttributeError(f"'mxnet.{name}' is not in lockstep.mxnet") from None
        globals()[name] = found
        return found
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    known = [*(key for key in globals() if not key.startswith("_")), *_MODULES]
    raise _missing_name("mxnet", name, known, _HINTS)


def waitall():
    """Computation is done when a call returns."""


def __dir__():
    return sorted([*globals(), *_MODULES])


__all__ = ["Context", "MXNetError", "NDArray", "autograd", "base", "context", "cpu", "cpu_pinned",
           "current_context", "gluon", "gpu", "init", "initializer", "kv", "kvstore",
           "lr_scheduler", "metric", "nd", "ndarray", "optimizer", "random"]
