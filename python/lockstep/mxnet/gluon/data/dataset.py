# SPDX-License-Identifier: Apache-2.0
"""Data sets: len() and [] of samples."""

import os

from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """Subclasses have __getitem__ and __len__."""

    def __getitem__(self, idx):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def filter(self, fn):  # noqa: A003 - MXNet's name
        """The samples for which fn is true."""
        return _Chosen(self, [i for i in range(len(self)) if fn(self[i])])

    def shard(self, num_shards, index):
        """One of as many equal parts."""
        if not 0 <= index < num_shards:
            raise AssertionError(f"Shard index of out bound: {index} out of {num_shards}")
        size, rest = divmod(len(self), num_shards)
        start = size * index + min(index, rest)
        return _Chosen(self, range(start, start + size + (1 if index < rest else 0)))

    def take(self, count):
        """The first samples."""
        if count is None or count > len(self):
            count = len(self)
        return _Chosen(self, range(count))

    def sample(self, sampler):
        """The samples that a sampler names."""
        from lockstep.mxnet.gluon.data.sampler import Sampler

        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler "
                            "instead.")
        return _Chosen(self, list(sampler))

    def transform(self, fn, lazy=True):
        """fn(*sample) instead of a sample; at once, or each time it is asked for."""
        made = _Transformed(self, fn)
        return made if lazy else SimpleDataset([made[i] for i in range(len(made))])

    def transform_first(self, fn, lazy=True):
        """fn of the sample's first field."""
        return self.transform(_First(fn), lazy)


class _First:
    """A function of a sample's first field."""

    def __init__(self, fn):
        self._fn = fn

    def __call__(self, x, *rest):
        return (self._fn(x), *rest) if rest else self._fn(x)


class _Chosen(Dataset):
    """Some samples of another set."""

    def __init__(self, dataset, indices):
        self._dataset, self._indices = dataset, indices

    def __len__(self):
        return len(self._indices)

    def __getitem__(self, idx):
        return self._dataset[self._indices[idx]]


class _Transformed(Dataset):
    """A function of each sample."""

    def __init__(self, dataset, fn):
        self._data, self._fn = dataset, fn

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class SimpleDataset(Dataset):
    """A list, or whatever has len() and []."""

    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]


class ArrayDataset(Dataset):
    """Arrays, lists and sets of equal length side by side."""

    def __init__(self, *args):
        if not args:
            raise AssertionError("Needs at least 1 arrays")
        self._length = len(args[0])
        self._data = []
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise AssertionError(f"All arrays must have the same length; array[0] has length "
                                     f"{self._length} while array[{i}] has {len(data)}.")
            if isinstance(data, NDArray) and data.ndim == 1:
                data = data.asnumpy()
            self._data.append(data)

    def __getitem__(self, idx):
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self):
        return self._length


class RecordFileDataset(Dataset):
    """The records of a .rec file with its .idx."""

    def __init__(self, filename):
        from lockstep.mxnet import recordio

        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, filename, "r")

    def __getitem__(self, idx):
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self):
        return len(self._record.keys)
