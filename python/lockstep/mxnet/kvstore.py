# SPDX-License-Identifier: Apache-2.0
"""mx.kv: values by key, the same on all workers.

Stores that keep in step add what all workers push, in the engine's order, and every worker applies
the update: what MXNet's servers would have done, with the same bits on each. 'dist_async' is the
engine's own store, and needs servers.
"""

import warnings

import lockstep
from lockstep import _core, ops
from lockstep.mxnet import _job
from lockstep.mxnet import optimizer as _optimizer
from lockstep.mxnet.base import MXNetError, as_list, nearest
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["KVStore", "KVStoreBase", "create"]
LOCAL = ("local", "device", "nccl", "local_update_cpu", "local_allreduce_cpu",
          "local_allreduce_device")
_SYNC = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "horovod", "byteps",
         "p3store_dist", "p3store_dist_sync")


def create(name="local"):
    """A store by name."""
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    if name in LOCAL:
        return KVStore(name, None)
    if name in _SYNC:
        return KVStore(name, _job.current())
    if name in ("dist_async", "dist_device_async"):
        return AsyncKVStore(name, _job.current())
    if name.lower() in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name.lower()]()
    known = (*LOCAL, *_SYNC, "dist_async", *KVStoreBase.kv_registry)
    raise MXNetError(f"kvstore: there is no '{name}'{nearest(name, known)} (there are: "
                     f"{', '.join(known)})")


class KVStoreBase:
    """What a store of the script's own has: broadcast, pushpull, rank, num_workers, type.
    `KVStoreBase.register` makes its class known to create() by its name."""

    OPTIMIZER = "optimizer"
    kv_registry = {}

    @staticmethod
    def register(klass):
        """Makes a class known by its name, whatever the case."""
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass

    @staticmethod
    def is_capable(capability):
        """Whether updates can run in the store."""
        return False

    def _lacks(self, what):
        raise NotImplementedError(f"{type(self).__name__} has no {what}")

    def broadcast(self, key, value, out, priority=0):
        """Copies worker 0's value to `out`."""
        self._lacks("broadcast")

    def pushpull(self, key, value, out=None, priority=0):
        """Adds what all workers push; the sum goes to `out`, or to the values."""
        self._lacks("pushpull")

    def set_optimizer(self, optimizer):
        """From now on a push is the gradient of an update."""
        self._lacks("set_optimizer")

    @property
    def type(self):  # noqa: A003 - MXNet's name
        """Its name."""
        return type(self).__name__.lower()

    @property
    def rank(self):
        """This worker's number."""
        return self._lacks("rank")

    @property
    def num_workers(self):
        """How many workers there are."""
        return self._lacks("num_workers")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes what the updater keeps."""
        self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname):
        """Reads what save_optimizer_states() wrote."""
        self._lacks("load_optimizer_states")


@KVStoreBase.register
class TestStore(KVStoreBase):
    """The least that a store can be: one process, sums over its devices."""

    def broadcast(self, key, value, out, priority=0):
        for array in as_list(out):
            value.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        values = as_list(value)
        total = _sum(values)
        for array in values if out is None else as_list(out):
            NDArray(total).copyto(array)

    @property
    def rank(self):
        return 0

    @property
    def num_workers(self):
        return 1


def _sum(values):
    total = values[0]._tensor.detach()
    for other in values[1:]:
        tensor = other._tensor.detach()
        total = total + (tensor if tensor.device == total.device else tensor.to(total.device))
    return total


def _stored_as(values):
    """The class that the sum of values has: row_sparse where all of them are."""
    stypes = {value.stype for value in values}
    return values[0]._of if stypes == {"row_sparse"} else NDArray


def _pairs(key, value):
    """(key, list of values) of one key or a list."""
    if isinstance(key, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(key):
            raise MXNetError(f"kvstore: {len(key)} keys, but values of another number")
        merged = {}
        for one, values in zip(key, value):
            merged.setdefault(one, []).extend(as_list(values))
        return list(merged.items())
    return [(key, as_list(value))]


class _TwoBit:
    """Sends +threshold or -threshold where what is left over reaches it; keeps the rest."""

    def __init__(self, threshold):
        self._threshold = float(threshold)
        self._left = {}

    def __call__(self, key, gradient):
        total = gradient + self._left[key] if key in self._left else gradient
        sent = (ops.cast(total >= self._threshold, total.dtype)
                - ops.cast(total <= -self._threshold, total.dtype)) * self._threshold
        self._left[key] = total - sent
        return sent


class KVStore(KVStoreBase):
    """A store that keeps workers in step, or of one process."""

    def __init__(self, name, job):
        self._type, self._job = name, job
        self._values = {}
        self._updater = None
        self._compress = None
        self._compression = None

    @property
    def type(self):  # noqa: A003 - MXNet's name
        """The name it was made by."""
        return self._type

    @property
    def rank(self):
        """This worker's number."""
        return 0 if self._job is None else self._job.rank

    @property
    def num_workers(self):
        """How many workers there are."""
        return 1 if self._job is None else self._job.workers

    def _is_alone(self):
        return self.num_workers == 1

    def _value(self, call, key):
        if key not in self._values:
            raise MXNetError(f"{call}: there is no key {key!r}, expected init() before")
        return self._values[key]

    def init(self, key, value):
        """First values; those of worker 0 count."""
        for name, values in _pairs(key, value):
            if name in self._values:
                raise MXNetError(f"init: key {name!r} is there already")
            if any(isinstance(known, str) != isinstance(name, str) for known in self._values):
                raise MXNetError(f"init: key {name!r}: keys are all numbers or all strings")
            tensor = values[0]._tensor.detach().copy()
            if not self._is_alone():
                tensor = self._job.broadcast(_host(tensor))
            # Its storage is the first value's.
            kind = type(values[0]) if values[0].stype != "default" else NDArray
            self._values[name] = kind(tensor)

    @staticmethod
    def is_capable(capability):
        """Whether updates can run in the store."""
        return capability == KVStoreBase.OPTIMIZER

    def _reduced(self, key, values):
        """The sum over devices and workers."""
        total = _host(_sum(values))
        if self._is_alone():
            return total.copy() if len(values) == 1 else total
        if self._compress is not None:
            total = self._compress(key, total)
        return self._job.all_reduce(total)

    def push(self, key, value, priority=0):
        """Adds what all workers push; the sum replaces the value, or updates it."""
        with _core._pause(_core.is_training()):
            for name, values in _pairs(key, value):
                stored = self._value("push", name)
                if values[0].shape != stored.shape:
                    raise MXNetError(f"push: key {name!r}: got shape {values[0].shape}, expected "
                                     f"{stored.shape}")
                total = _stored_as(values)(self._reduced(name, values))
                if self._updater is not None:
                    self._updater(_number(name), total, stored)
                else:
                    stored._tensor.assign(total._tensor)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies values to arrays."""
        if out is None:
            raise MXNetError("pull: expected out=, the array that the value is copied to")
        for name, outs in _pairs(key, out):
            stored = self._value("pull", name)
            if ignore_sparse and stored.stype != "default":
                continue  # row_sparse_pull has those
            for array in outs:
                if not ignore_sparse or array.stype == "default":
                    stored.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        """push, then pull to `out`, or to the values."""
        if self._updater is None:
            self.reduce(key, value, out)
            return
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def reduce(self, key, value, out=None):
        """The sum over devices and workers to `out`, or to the values; nothing is updated."""
        with _core._pause(_core.is_training()):
            # All sums first: an array may be among the values of several keys.
            totals = [(name, NDArray(self._reduced(name, values)))
                      for name, values in _pairs(key, value)]
            for (name, total), (_, outs) in zip(totals, _pairs(key, value if out is None else out)):
                if name in self._values:
                    self._values[name]._tensor.assign(total._tensor)
                for array in outs:
                    total.copyto(array)

    def broadcast(self, key, value, out, priority=0):
        """init, then pull."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """The rows that are named, each once, by increasing number; the others are 0."""
        if out is None or row_ids is None:
            raise MXNetError("row_sparse_pull: expected out= and row_ids=")
        from lockstep.mxnet.ndarray import sparse

        nested = isinstance(key, (list, tuple)) and isinstance(row_ids, (list, tuple))
        for place, (name, outs) in enumerate(_pairs(key, out)):
            stored = self._value("row_sparse_pull", name)
            # With a list of keys each has rows of its own, one array or one for each output.
            ids = as_list(row_ids[place] if nested and len(row_ids) == len(key) else row_ids)
            for i, array in enumerate(outs):
                if array.stype != "row_sparse":
                    raise MXNetError(f"row_sparse_pull: out of key {name} is {array.stype}, "
                                     "expected row_sparse")
                rows = sparse.retain(stored, ids[i if len(ids) > 1 else 0])
                array._tensor.assign(rows._tensor)

    def set_optimizer(self, optimizer):
        """From now on a push is the gradient of an update."""
        self._updater = _optimizer.get_updater(optimizer)

    def set_updater(self, updater):
        """updater(key, pushed, stored) runs at every push."""
        self._updater = updater

    _set_updater = set_updater

    def set_gradient_compression(self, compression_params):
        """{'type': '2bit', 'threshold': 0.5}"""
        kind = compression_params.get("type")
        if kind in (None, "none"):
            return
        if kind != "2bit":
            raise MXNetError(f"set_gradient_compression: there is no type '{kind}' (there is: "
                             "2bit)")
        if self._job is None and self._type in LOCAL and self._type != "device":
            raise MXNetError("Gradient compression is not supported for this type of kvstore")
        self._compression = compression_params
        self._compress = _TwoBit(compression_params.get("threshold", 0.5))

    def barrier(self):
        """Waits until all workers have come."""
        if not self._is_alone():
            self._job.barrier()

    _barrier = barrier

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes what the updater keeps."""
        if not isinstance(self._updater, _optimizer.Updater):
            raise AssertionError("Cannot save states for distributed training")
        with open(fname, "wb") as file:
            file.write(self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname):
        """Reads what save_optimizer_states() wrote."""
        if not isinstance(self._updater, _optimizer.Updater):
            raise AssertionError("Cannot load states for distributed training")
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    def _send_command_to_servers(self, head, body):
        raise MXNetError("kvstore: servers take no commands of scripts here")


class AsyncKVStore(KVStore):
    """The engine's store on servers; workers do not wait for each other."""

    def __init__(self, name, job):
        super().__init__(name, job)
        self._store = lockstep.kvstore.create("dist_async", job)

    def init(self, key, value):
        for name, values in _pairs(key, value):
            self._store.init(name, _host(values[0]._tensor.detach()))

    def push(self, key, value, priority=0):
        for name, values in _pairs(key, value):
            self._store.push(name, _host(_sum(values)))

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        for name, outs in _pairs(key, out):
            pulled = NDArray(self._store.pull(name))
            for array in outs:
                pulled.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def set_optimizer(self, optimizer):
        rule = optimizer._rule()
        if rule is None:
            raise MXNetError(f"kvstore: servers do not know the rule {type(optimizer).__name__} "
                             "with these options; sgd runs there, and adam that does not clip "
                             "its decay")
        _check_rates(optimizer)
        name, parameters = rule
        clip = {"clip_gradient": optimizer.clip_gradient} if optimizer._clips() else {}
        made = lockstep.optim.make_optimizer(name, learning_rate=optimizer.learning_rate,
                                             weight_decay=optimizer.wd, **parameters, **clip)
        self._store.set_optimizer(made, float(optimizer.rescale_grad))

    def barrier(self):
        self._store.barrier()


def _check_rates(optimizer):
    """Servers have one rate and one decay for all values, as they are told at first."""
    if optimizer.lr_scheduler is not None:
        raise MXNetError("kvstore: servers keep the rate that they are told at first, expected no "
                         "lr_scheduler with 'dist_async'")
    places = {*optimizer.param_dict, *optimizer.idx2name}
    if any(optimizer._factor(i, "lr_mult", optimizer.lr_mult) != 1 for i in places):
        raise MXNetError("kvstore: servers have one rate for all parameters, expected no lr_mult "
                         "with 'dist_async'")
    if optimizer.wd and any(optimizer._factor(i, "wd_mult", optimizer.wd_mult) != 1
                            for i in places):
        warnings.warn("kvstore: servers decay all parameters alike, wd_mult is not seen there",
                      stacklevel=3)


def _host(tensor):
    return tensor if tensor.device.index == 0 else tensor.to(_core.cpu(0))


def _number(key):
    return int(key) if isinstance(key, str) and key.isdigit() else key


