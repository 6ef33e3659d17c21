# SPDX-License-Identifier: Apache-2.0
"""Data sets, transforms, samplers and the loader.

Anything with `__len__` and `__getitem__` is a data set; so are arrays with a common first axis.

>>> import numpy as np
>>> from lockstep import data
>>> class Squares(data.Dataset):
...     def __len__(self):
...         return 6
...     def __getitem__(self, i):
...         return np.float32([i, i * i]), i % 2
>>> for x, y in data.Loader(Squares(), batch=3, shuffle=False):
...     print(x.shape, y.tolist())
(3, 2) [0, 1, 0]
(3, 2) [1, 0, 1]
"""

import os

from lockstep._core import data as _data
from lockstep._core.data import *  # noqa: F401,F403
from lockstep._core.data import Samples, Transform, as_dataset
from lockstep.errors import InvalidArgument


class Dataset:
    """A set of samples that Python makes: subclasses have `__len__` and `__getitem__`, which
    returns a tuple of arrays and numbers. It may be called by several threads. One that has
    `get_batch(indices)` too, which returns the fields of so many samples stacked, is asked for that
    instead."""

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")


class Sampler:
    """An order of samples that Python makes: `epoch(number)` returns as many indices as
    `len()` says, a function of the number alone."""

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def epoch(self, number):
        raise NotImplementedError(f"{type(self).__name__} has no epoch")


class _InProcesses(Dataset):
    """The samples of a set, made by other processes."""

    def __init__(self, dataset, processes, transform, timeout):
        from lockstep._processes import Processes

        if processes < 1:
            raise InvalidArgument(f"in_processes: processes is {processes}, expected 1 or more")
        self._size = len(dataset)
        self.processes = Processes(_Batches(dataset, transform), processes, timeout)

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        return tuple(field[0] for field in self.get_batch([index]))

    def get_batch(self, indices):
        """The fields of so many samples, stacked."""
        return self.processes(list(indices))


class _Batches:
    """What a process computes; nothing of it is pickled."""

    def __init__(self, dataset, transform):
        self.dataset, self.transform = as_dataset(dataset), transform

    def __call__(self, indices):
        return _data._load_batch(self.dataset, indices, self.transform)


def in_processes(dataset, processes, transform=None, timeout=120.0):
    """A set whose samples other processes make: forks of this one, so that what Python computes for
    a sample takes no turns with the step. `transform` is applied there. Batches are asked for by as
    many threads as the loader has: give it `threads=processes`.

    >>> import numpy as np
    >>> from lockstep import data
    >>> digits = [(np.float32([i]), i) for i in range(8)]
    >>> squares = data.in_processes(digits, 2, transform=lambda x: x * x)
    >>> squares[3][0].tolist()
    [9.0]
    """
    return _InProcesses(dataset, processes, transform, timeout)


class Loader:
    """Batches of a data set, made ahead by threads. Each iteration is the next epoch.

    The last samples that do not fill a batch are left out, unless `last` is "keep". With
    `processes` samples, and a transform that is a function, are made by as many other processes
    (`in_processes`) and collected by as many threads.
    """

    def __init__(self, dataset, batch, shuffle=False, seed=0, transform=None, sampler=None,
                 threads=1, prefetch=4, last="discard", processes=0):
        if last not in ("discard", "keep"):
            raise InvalidArgument(f"loader: last is '{last}', expected 'discard' or 'keep'")
        if batch < 1:
            raise InvalidArgument(f"loader: batch is {batch}, expected 1 or more")
        if processes:
            there = None if isinstance(transform, Transform) else transform
            dataset, threads = in_processes(dataset, processes, there), processes
            transform = transform if there is None else None
            prefetch = max(prefetch, 2 * processes)
        self._dataset = as_dataset(dataset)
        if sampler is None:
            size = len(self._dataset)
            sampler = (_data.random_sampler(size, seed) if shuffle
                       else _data.sequential_sampler(size))
        self._sampler = sampler
        self._batch, self._transform, self._last = batch, transform, last
        self._arguments = (transform, seed, threads, prefetch)
        self._loader = None
        self._epoch = 0

    def __len__(self):
        whole, rest = divmod(len(self._sampler), self._batch)
        return whole + (1 if rest and self._last == "keep" else 0)

    def __iter__(self):
        epoch, self._epoch = self._epoch, self._epoch + 1
        whole, rest = divmod(len(self._sampler), self._batch)
        if whole and self._loader is None:
            self._loader = _data._Loader(self._dataset, self._sampler, self._batch,
                                         *self._arguments)
        for step in range(epoch * whole, (epoch + 1) * whole):
            yield self._loader.step(step)
        if rest and self._last == "keep":
            order = list(self._sampler.epoch(epoch))
            yield _data._load_batch(self._dataset, order[whole * self._batch:], self._transform)


def _generator(seed, step, shard, use):
    """What a random transform draws from: a function of the sample's place in the run."""
    import numpy as np

    return np.random.Generator(np.random.Philox(key=[seed, (step << 32) | shard], counter=use))


def cache_dir():
    """Where fetched data sets are kept: LOCKSTEP_DATA, or the user's cache."""
    if os.environ.get("LOCKSTEP_DATA"):
        return os.environ["LOCKSTEP_DATA"]
    parent = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(parent, "lockstep")


def get(name, cache=None):
    """The folder of a named set's files, fetched and checked where they are missing."""
    return _data._get(name, cache or cache_dir())


def mnist(train=True, folder=None):
    """Handwritten digits: uint8 [28, 28, 1] and int64."""
    return _data._mnist(folder or get("mnist"), train)


def fashion_mnist(train=True, folder=None):
    """Clothes: uint8 [28, 28, 1] and int64."""
    return _data._fashion_mnist(folder or get("fashion-mnist"), train)


def cifar10(train=True, folder=None):
    """Photographs: uint8 [32, 32, 3] and int64."""
    return _data._cifar10(folder or get("cifar10"), train)
