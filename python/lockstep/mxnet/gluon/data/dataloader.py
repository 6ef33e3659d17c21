# SPDX-License-Identifier: Apache-2.0
"""gluon.data.DataLoader: batches of a data set, made ahead by processes or threads."""

import collections
import concurrent.futures
import random

import numpy as np

from lockstep._processes import Processes
from lockstep.mxnet import _hints
from lockstep.mxnet import _random_state
from lockstep.mxnet.context import current_context
from lockstep.mxnet.gluon.data import batchify
from lockstep.mxnet.gluon.data import sampler as _sampler

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


def default_batchify_fn(data):
    """Samples stacked, tuples field by field."""
    if isinstance(data[0], (tuple, list)):
        return [default_batchify_fn(list(field)) for field in zip(*data)]
    return batchify.stacked(data)


default_mp_batchify_fn = default_batchify_fn


class DataLoader:
    """Iterating over it gives the batches of an epoch.

    With num_workers as many processes make batches ahead of their use, with thread_pool=True as
    many threads; their order is the sampler's. The processes are forks, made when the first batch
    is asked for: what changes in the data set later they do not see.
    """

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None,
                 batch_sampler=None, batchify_fn=None, num_workers=0, pin_memory=False,
                 pin_device_id=0, prefetch=None, thread_pool=False, timeout=120, try_nopython=None,
                 auto_reload=False, transform=None):
        if transform is not None:
            raise TypeError(_hints.NO_TRANSFORM)
        self._dataset = dataset
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is None:
                kind = _sampler.RandomSampler if shuffle else _sampler.SequentialSampler
                sampler = kind(len(dataset))
            elif shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            batch_sampler = _sampler.BatchSampler(sampler, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_size, shuffle, sampler and last_batch must not be specified if "
                             "batch_sampler is specified.")
        self._batch_sampler = batch_sampler
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn
        self._workers = max(0, num_workers)
        self._prefetch = max(0, 2 * self._workers if prefetch is None else int(prefetch))
        self._timeout = timeout
        self._in_threads, self._processes, self._pool = thread_pool, None, None
        self._epoch = 0

    def _load(self, indices):
        return self._batchify_fn([self._dataset[i] for i in indices])

    def _load_in(self, context, indices):
        with context:
            return self._load(indices)

    def _load_there(self, argument):
        """In a process of its own: what is drawn for a batch depends on its number alone."""
        context, draws, indices = argument
        entropy = np.random.SeedSequence(draws).generate_state(2)
        _random_state.seed(int(entropy[0]))
        np.random.seed(entropy[1])
        random.seed(int(entropy[1]))
        return self._load_in(context, indices)

    def __iter__(self):
        if not self._workers:
            return (self._load(indices) for indices in self._batch_sampler)
        return self._ahead()

    def _start(self):
        """Processes before threads: a fork has none of the threads that hold something."""
        if self._pool is not None:
            return
        if not self._in_threads:
            self._processes = Processes(self._load_there, self._workers, self._timeout,
                                        "DataLoader")
        self._pool = concurrent.futures.ThreadPoolExecutor(self._workers,
                                                           thread_name_prefix="DataLoader")

    def _submit(self, context, number, indices):
        if self._processes is None:
            return self._pool.submit(self._load_in, context, indices)
        draws = [_random_state.current_seed(), self._epoch, number]
        return self._pool.submit(self._processes, (context, draws, indices))

    def _ahead(self):
        self._start()
        self._epoch += 1
        context = current_context()
        waiting = collections.deque()
        try:
            for number, indices in enumerate(self._batch_sampler):
                waiting.append(self._submit(context, number, indices))
                if len(waiting) > max(self._prefetch, self._workers):
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()

    def _result(self, future):
        try:
            return future.result(timeout=self._timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"DataLoader: a batch took more than {self._timeout} s; give "
                               "timeout= more, or look at the data set's __getitem__") from None

    def __len__(self):
        return len(self._batch_sampler)

    def __del__(self):
        pool, processes = getattr(self, "_pool", None), getattr(self, "_processes", None)
        if pool is not None:
            pool.shutdown(wait=False)
        if processes is not None:
            processes.close()


