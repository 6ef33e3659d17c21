# SPDX-License-Identifier: Apache-2.0
"""Contexts: where an array is.

`cpu(i)` is a device of the engine. There are no GPUs: `gpu(i)` is an error at the first array, and
with LOCKSTEP_GPU_AS_CPU=1 a device of the host of its own, so that scripts for several GPUs run.
"""

import os
import threading

from lockstep import _core
from lockstep.mxnet.base import MXNetError

_FIRST_GPU = 1000  # the engine's number of gpu(0)
_GPUS = 8
_local = threading.local()


def _gpus_are_cpus():
    return os.environ.get("LOCKSTEP_GPU_AS_CPU", "0") not in ("", "0")


class Context:
    """A kind of device and its number; `with ctx:` makes it the one that new arrays get."""

    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type = {name: number for number, name in devtype2str.items()}
    _default_ctx = threading.local()

    def __init__(self, device_type, device_id=0):
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if isinstance(device_type, str):
            if device_type not in self.devstr2type:
                raise MXNetError(f"context: there is no device '{device_type}' (there are: "
                                 f"{', '.join(self.devstr2type)})")
            device_type = self.devstr2type[device_type]
        self.device_typeid = device_type
        self.device_id = int(device_id)
        self._entered = []

    @property
    def device_type(self):
        """'cpu', 'gpu', ..."""
        return self.devtype2str[self.device_typeid]

    def __hash__(self):
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other):
        return (isinstance(other, Context) and self.device_typeid == other.device_typeid
                and self.device_id == other.device_id)

    def __str__(self):
        return f"{self.device_type}({self.device_id})"

    __repr__ = __str__

    def __enter__(self):
        self._entered.append(getattr(_local, "current", None))
        _local.current = self
        return self

    def __exit__(self, *error):
        _local.current = self._entered.pop()

    def __reduce__(self):
        return Context, (self.device_type, self.device_id)

    def empty_cache(self):
        """Nothing is cached for a device."""

    @property
    def _device(self):
        """The engine's device."""
        if self.device_typeid != 2:
            return _core.cpu(self.device_id if self.device_typeid == 1 else 0)
        if not _gpus_are_cpus():
            raise MXNetError(
                f"{self}: this machine's GPUs are not used; write mx.cpu(), or set "
                "LOCKSTEP_GPU_AS_CPU=1 to have gpu(i) be a device of the host")
        return _core.cpu(_FIRST_GPU + self.device_id)


_CPU = Context("cpu", 0)
Context.default_ctx = _CPU


def context_of(tensor):
    """The context of an engine's tensor."""
    index = tensor.device.index
    if index == 0:
        return _CPU
    return Context("gpu", index - _FIRST_GPU) if index >= _FIRST_GPU else Context("cpu", index)


def cpu(device_id=0):
    """The host."""
    return Context("cpu", device_id)


def cpu_pinned(device_id=0):
    """The host; there is no memory of another kind."""
    return Context("cpu_pinned", device_id)


def gpu(device_id=0):
    """A GPU, see above."""
    return Context("gpu", device_id)


def num_gpus():
    """0, or what LOCKSTEP_GPU_AS_CPU offers."""
    if not _gpus_are_cpus():
        return 0
    wanted = os.environ["LOCKSTEP_GPU_AS_CPU"]
    return int(wanted) if wanted.isdigit() and int(wanted) > 1 else _GPUS


def gpu_memory_info(device_id=0):
    """(free, total) bytes."""
    raise MXNetError(f"gpu_memory_info: there is no memory of gpu({device_id}) to ask for")


def current_context():
    """What new arrays get where nothing else is said."""
    return getattr(_local, "current", None) or _CPU


def device_for(ctx):
    """The engine's device for a context or None."""
    if ctx is None:
        ctx = getattr(_local, "current", None)
        if ctx is None:
            return 0
    if not isinstance(ctx, Context):
        if isinstance(ctx, str):
            ctx = context_named(ctx)
        else:
            raise TypeError(f"ctx: expected a context such as mx.cpu(), got {ctx!r}")
    if ctx.device_typeid == 1 and ctx.device_id == 0:
        return 0
    return ctx._device


def context_named(text):
    """cpu(0) of 'cpu(0)' or 'cpu'."""
    kind, _, number = text.partition("(")
    return Context(kind, int(number.rstrip(")") or 0) if number else 0)
