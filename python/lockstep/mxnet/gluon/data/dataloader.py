# SPDX-License-Identifier: Apache-2.0
"""gluon.data.DataLoader: batches of a data set, made ahead by threads."""

import collections
import concurrent.futures

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

    With num_workers as many threads make batches ahead of their use; their order is the sampler's.
    """

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None,
                 batch_sampler=None, batchify_fn=None, num_workers=0, pin_memory=False,
                 pin_device_id=0, prefetch=None, thread_pool=False, timeout=120, try_nopython=None,
                 auto_reload=False):
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
        self._pool = None

    def _load(self, indices, context=None):
        if context is not None:
            with context:
                return self._batchify_fn([self._dataset[i] for i in indices])
        return self._batchify_fn([self._dataset[i] for i in indices])

    def __iter__(self):
        if not self._workers:
            return (self._load(indices) for indices in self._batch_sampler)
        return self._ahead()

    def _ahead(self):
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(
                self._workers, thread_name_prefix="DataLoader")
        context = current_context()
        waiting, batches = collections.deque(), iter(self._batch_sampler)
        try:
            for indices in batches:
                waiting.append(self._pool.submit(self._load, indices, context))
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
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.shutdown(wait=False)


