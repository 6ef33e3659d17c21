# SPDX-License-Identifier: Apache-2.0
"""Iterators over batches: of arrays, and of files."""

import gzip
import os
import queue
import struct
import threading
from collections import namedtuple

import numpy as np

from lockstep.errors import Corrupt, InvalidArgument, NotFound
from lockstep.mxnet import _hints
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet.base import attributes_of


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """An array's name, shape, type and what its axes mean."""

    def __new__(cls, name, shape, dtype=np.float32, layout="NCHW"):
        made = super().__new__(cls, name, tuple(shape) if not isinstance(shape, int) else (shape,))
        made.dtype, made.layout = dtype, layout
        return made

    def __repr__(self):
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout):
        """Which axis counts the samples."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes, types=None):
        """Descriptions of (name, shape) pairs, with types where they are given."""
        if types is None:
            return [DataDesc(*item) for item in shapes]
        types = dict(types)
        return [DataDesc(item[0], item[1], types[item[0]]) for item in shapes]


class DataBatch:
    """Arrays of one step: `data`, `label`, and how many of the last samples are repeats."""

    def __init__(self, data, label=None, pad=None, index=None, bucket_key=None, provide_data=None,
                 provide_label=None):
        for what, arrays in (("data", data), ("label", label)):
            if arrays is not None and not isinstance(arrays, (list, tuple)):
                raise AssertionError(f"DataBatch: {what} is a list of arrays")
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key = bucket_key
        self.provide_data, self.provide_label = provide_data, provide_label

    def __str__(self):
        shapes = [array.shape for array in self.data]
        labels = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {shapes} label shapes: {labels}"


class DataIter:
    """What a loop over batches needs: subclasses have `next`, or the four below it."""

    def __init__(self, batch_size=0):
        self.batch_size = batch_size

    def __iter__(self):
        return self

    def reset(self):
        """Back to the first batch."""

    def next(self):
        """The next batch."""
        if self.iter_next():
            return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(),
                             index=self.getindex())
        raise StopIteration

    def __next__(self):
        return self.next()

    def iter_next(self):
        """Goes on; whether there is a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no iter_next")

    def getdata(self):
        """The arrays of the batch."""

    def getlabel(self):
        """Its labels."""

    def getindex(self):
        """Which samples they are."""
        return None

    def getpad(self):
        """How many of the last are repeats."""


def _first(iterator):
    return getattr(iterator, "provide_data"), getattr(iterator, "provide_label")


class _BatchIter(DataIter):
    """Has whole batches of other iterators, the present one in current_batch."""

    def getdata(self):
        return self.current_batch.data

    def getlabel(self):
        return self.current_batch.label

    def getindex(self):
        return self.current_batch.index

    def getpad(self):
        return self.current_batch.pad


class ResizeIter(_BatchIter):
    """As many batches of another iterator as wanted, from its beginning again where it ends."""

    def __init__(self, data_iter, size, reset_internal=True):
        super().__init__()
        self.data_iter, self.size, self.reset_internal = data_iter, size, reset_internal
        self.cur, self.current_batch = 0, None
        self.provide_data, self.provide_label = _first(data_iter)
        self.batch_size = data_iter.batch_size
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self):
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self):
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


class PrefetchingIter(_BatchIter):
    """Has a thread fetch the next batch of one or several iterators while this one is used."""

    _DEPTH = 2

    def __init__(self, iters, rename_data=None, rename_label=None):
        super().__init__()
        self.iters = iters if isinstance(iters, list) else [iters]
        if not self.iters:
            raise InvalidArgument("PrefetchingIter: no iterator")
        self.rename_data, self.rename_label = rename_data, rename_label
        self.batch_size = self.provide_data[0][1][0]
        self.current_batch, self._thread = None, None
        self._start()

    def _start(self):
        self._queue, self._stop = queue.Queue(self._DEPTH), threading.Event()
        self._thread = threading.Thread(target=self._fetch, args=(self._queue, self._stop),
                                        name="prefetch", daemon=True)
        self._thread.start()

    def _fetch(self, out, stop):
        item = None
        while not stop.is_set() and not isinstance(item, BaseException) and item != ():
            try:
                item = [iterator.next() for iterator in self.iters]
            except StopIteration:
                item = ()
            except BaseException as error:  # noqa: B902: it is raised where the batch is asked for
                item = error
            while not stop.is_set():
                try:
                    out.put(item, timeout=0.1)
                    break
                except queue.Full:
                    continue

    def _end(self):
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def __del__(self):
        if getattr(self, "_thread", None) is not None:
            self._stop.set()

    def _renamed(self, which, names):
        made = []
        for i, iterator in enumerate(self.iters):
            for desc in getattr(iterator, which):
                name = names[i][desc[0]] if names else desc[0]
                made.append(DataDesc(name, desc[1], getattr(desc, "dtype", np.float32)))
        return made

    @property
    def provide_data(self):
        return self._renamed("provide_data", self.rename_data)

    @property
    def provide_label(self):
        return self._renamed("provide_label", self.rename_label)

    def reset(self):
        self._end()
        for iterator in self.iters:
            iterator.reset()
        self._start()

    def iter_next(self):
        if self._thread is None:
            return False
        batches = self._queue.get()
        if isinstance(batches, BaseException):
            self._end()
            raise batches
        if batches == ():
            self._end()
            return False
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or []],
            batches[0].pad, batches[0].index, provide_data=self.provide_data,
            provide_label=self.provide_label)
        return True

    def next(self):
        if self.iter_next():
            return self.current_batch
        raise StopIteration


def _as_arrays(data, allow_empty, default_name, dtype):
    """(name, NumPy array) of an array, a list of arrays, or a dict; those that are none of MXNet's
    get the dtype."""
    if data is None:
        data = []
    if isinstance(data, (np.ndarray, nd.NDArray)) or not isinstance(data, (list, tuple, dict)):
        data = [data]
    if not allow_empty and not len(data):
        raise InvalidArgument("NDArrayIter: no data")
    if not isinstance(data, dict):
        names = [default_name] if len(data) == 1 else [f"_{i}_{default_name}"
                                                       for i in range(len(data))]
        data = dict(zip(names, data))
    made = []
    for name, value in data.items():
        made.append((name, value.asnumpy() if hasattr(value, "asnumpy")
                     else np.asarray(value, dtype)))
    return made


class NDArrayIter(DataIter):
    """Batches of arrays. What does not fill the last batch is filled with the first samples
    ('pad'), left out ('discard') or kept for the next pass ('roll_over'). Samples are counted along
    the layout's N."""

    _dtype = np.float32

    def __init__(self, data, label=None, batch_size=1, shuffle=False, last_batch_handle="pad",
                 data_name="data", label_name="softmax_label", layout="NCHW"):
        super().__init__(batch_size)
        if "N" not in layout:
            raise InvalidArgument(f"NDArrayIter: the layout is {layout!r}, and has no N")
        self.layout = layout
        self.data = _as_arrays(data, False, data_name, self._dtype)
        self.label = _as_arrays(label, True, label_name, self._dtype)
        self.num_data = self._samples(self.data[0][1])
        self._check(batch_size, last_batch_handle)
        self.num_source = len(self.data) + len(self.label)
        self.idx = np.arange(self.num_data)
        self.shuffle, self.last_batch_handle = shuffle, last_batch_handle
        self._kept = np.zeros(0, dtype=np.int64)
        self.cursor = -batch_size
        self._begin()

    def _axis(self, array):
        """Where an array has its samples: labels of fewer axes at the first."""
        axis = self.layout.find("N")
        return axis if axis < array.ndim else 0

    def _samples(self, array):
        return array.shape[self._axis(array)]

    def _check(self, batch_size, handle):
        if handle not in ("pad", "discard", "roll_over"):
            raise InvalidArgument(f"NDArrayIter: last_batch_handle is {handle!r}, expected pad, "
                                  "discard or roll_over")
        for name, array in self.data + self.label:
            if self._samples(array) < self.num_data:
                raise InvalidArgument(f"NDArrayIter: '{name}' has {self._samples(array)} samples, "
                                      f"'{self.data[0][0]}' has {self.num_data}")
        if batch_size < 1 or (batch_size > self.num_data and handle != "pad"):
            raise InvalidArgument(f"NDArrayIter: batch_size is {batch_size}, there are "
                                  f"{self.num_data} samples")

    def _begin(self):
        if self.shuffle:
            np.random.shuffle(self.idx)
        self._order = np.concatenate([self._kept, self.idx])
        self._kept = np.zeros(0, dtype=np.int64)
        self.cursor = -self.batch_size

    def _descriptions(self, arrays):
        made = []
        for name, array in arrays:
            axis = self._axis(array)
            shape = array.shape[:axis] + (self.batch_size,) + array.shape[axis + 1:]
            made.append(DataDesc(name, shape, array.dtype, self.layout))
        return made

    @property
    def provide_data(self):
        """What its data are."""
        return self._descriptions(self.data)

    @property
    def provide_label(self):
        """What its labels are."""
        return self._descriptions(self.label)

    def hard_reset(self):
        """Back to the first sample, whatever was kept."""
        self._kept = np.zeros(0, dtype=np.int64)
        self._begin()

    def reset(self):
        if self.last_batch_handle == "roll_over":
            rest = len(self._order) % self.batch_size
            if rest and self.cursor + self.batch_size >= len(self._order) - rest:
                self._kept = self._order[len(self._order) - rest:].copy()
        self._begin()

    def iter_next(self):
        self.cursor += self.batch_size
        left = len(self._order) - self.cursor
        return left > 0 if self.last_batch_handle == "pad" else left >= self.batch_size

    def _rows(self):
        rows = self._order[self.cursor:self.cursor + self.batch_size]
        missing = self.batch_size - len(rows)
        return np.concatenate([rows, np.resize(self._order, missing)]) if missing else rows

    def _take(self, arrays):
        rows = self._rows()
        plain = not self.shuffle and len(rows) and (np.diff(rows) == 1).all()
        made = []
        for _, array in arrays:
            before = (slice(None),) * self._axis(array)
            part = array[before + (slice(rows[0], rows[-1] + 1) if plain else rows,)]
            made.append(nd.array(part, dtype=part.dtype))
        return made

    def getdata(self):
        return self._take(self.data)

    def getlabel(self):
        return self._take(self.label)

    def getindex(self):
        return self._rows()

    def getpad(self):
        if self.last_batch_handle != "pad":
            return 0
        return max(0, self.cursor + self.batch_size - len(self._order))


def _part(count, part_index, num_parts):
    if not 0 <= part_index < num_parts:
        raise InvalidArgument(f"part_index is {part_index}, expected 0 to {num_parts - 1}")
    return count * part_index // num_parts, count * (part_index + 1) // num_parts


_IDX_TYPES = {8: np.uint8, 9: np.int8, 11: np.int16, 12: np.int32, 13: np.float32, 14: np.float64}


def read_idx(path):
    """The array of an .idx file as MNIST has, gzipped or not."""
    if not os.path.exists(path):
        if not os.path.exists(path + ".gz"):
            raise NotFound(f"{path}: there is no such file")
        path += ".gz"
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
        raise Corrupt(f"{path}: no .idx file begins so")
    axes = data[3]
    if len(data) < 4 + 4 * axes:
        raise Corrupt(f"{path}: the file ends within its head")
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    dtype = np.dtype(_IDX_TYPES[data[2]]).newbyteorder(">")
    if int(np.prod(shape, dtype=object)) * dtype.itemsize != len(data) - 4 - 4 * axes:
        raise Corrupt(f"{path}: {len(data) - 4 - 4 * axes} bytes for {dtype}{list(shape)}")
    array = np.frombuffer(data, dtype, offset=4 + 4 * axes).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


class _FileIter(NDArrayIter):
    """What is read of files: `getdata` and `getlabel` give an array, not a list."""

    _dtype = None  # as the file's reader has made them

    def getdata(self):
        return super().getdata()[0]

    def getlabel(self):
        return super().getlabel()[0]

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())


class MNISTIter(_FileIter):
    """Batches of MNIST's files, pixels divided by 256; the last partial batch is left out. What it
    is told beside the below it ignores, as MXNet's does."""

    def __init__(self, image="./train-images-idx3-ubyte", label="./train-labels-idx1-ubyte",
                 batch_size=128, shuffle=True, flat=False, seed=0, silent=False, num_parts=1,
                 part_index=0, data_name="data", label_name="softmax_label", **_):
        images, labels = read_idx(image), read_idx(label)
        if len(images) != len(labels):
            raise Corrupt(f"{image}: {len(images)} images, and {len(labels)} labels in {label}")
        begin, end = _part(len(images), part_index, num_parts)
        order = np.arange(begin, end)
        if shuffle:
            np.random.RandomState(seed).shuffle(order)
        data = images[order].astype(np.float32) * np.float32(1 / 256)
        data = data.reshape(len(data), -1) if flat else data[:, None]
        super().__init__(data, labels[order].astype(np.float32), batch_size,
                         last_batch_handle="discard", data_name=data_name, label_name=label_name)


class CSVIter(_FileIter):
    """Batches of files of numbers with commas, a sample a line. The last batch is filled with the
    first samples, whether or not it is told to round."""

    def __init__(self, data_csv, data_shape, label_csv=None, label_shape=(1,), batch_size=1,
                 round_batch=True, dtype="float32", data_name="data",
                 label_name="softmax_label", **_):
        data = _read_csv(data_csv, data_shape, dtype)
        label = (_read_csv(label_csv, label_shape, dtype) if label_csv not in (None, "NULL")
                 else np.zeros((len(data),) + tuple(label_shape), dtype))
        if len(label) != len(data):
            raise Corrupt(f"{label_csv}: {len(label)} lines, and {len(data)} in {data_csv}")
        if tuple(label_shape) == (1,):
            label = label.reshape(-1)
        super().__init__(data, label, batch_size, data_name=data_name, label_name=label_name)


def _read_csv(path, shape, dtype):
    rows = []
    width = int(np.prod(shape))
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = np.array(line.split(","), dtype=dtype)
            except ValueError:
                raise Corrupt(f"{path}:{number}: expected numbers with commas") from None
            if row.size != width:
                raise Corrupt(f"{path}:{number}: {row.size} numbers, expected {width}")
            rows.append(row)
    return np.array(rows, dtype=dtype).reshape((len(rows),) + tuple(shape))


class LibSVMIter(DataIter):
    """Batches of `label index:value ...` lines, as csr arrays."""

    def __init__(self, data_libsvm, data_shape, label_libsvm=None, label_shape=(1,), batch_size=1,
                 round_batch=True, num_parts=1, part_index=0, data_name="data",
                 label_name="softmax_label", **_):
        super().__init__(batch_size)
        width = data_shape[0] if isinstance(data_shape, (list, tuple)) else data_shape
        self._rows, labels = _read_libsvm(data_libsvm, width)
        if label_libsvm is not None:
            label_width = int(np.prod(label_shape))
            rows, _ = _read_libsvm(label_libsvm, label_width)
            labels = np.array([_dense_row(row, label_width) for row in rows], np.float32)
        begin, end = _part(len(self._rows), part_index, num_parts)
        self._rows, self._labels = self._rows[begin:end], np.asarray(labels, np.float32)[begin:end]
        self._width, self._at = width, -batch_size
        self._names = data_name, label_name

    @property
    def provide_data(self):
        """What its data are."""
        return [DataDesc(self._names[0], (self.batch_size, self._width))]

    @property
    def provide_label(self):
        """What its labels are."""
        return [DataDesc(self._names[1], (self.batch_size,) + self._labels.shape[1:])]

    def reset(self):
        self._at = -self.batch_size

    def iter_next(self):
        self._at += self.batch_size
        return self._at < len(self._rows)

    def _numbers(self):
        return [i % len(self._rows) for i in range(self._at, self._at + self.batch_size)]

    def getdata(self):
        rows = [self._rows[i] for i in self._numbers()]
        indptr = np.cumsum([0] + [len(row[0]) for row in rows])
        indices = np.concatenate([row[0] for row in rows])
        values = np.concatenate([row[1] for row in rows])
        from lockstep.mxnet.ndarray import sparse

        return sparse.csr_matrix((values, indices, indptr), shape=(len(rows), self._width))

    def getlabel(self):
        return nd.array(self._labels[self._numbers()])

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad())

    def getpad(self):
        return max(0, self._at + self.batch_size - len(self._rows))


def _dense_row(row, width):
    made = np.zeros(width, np.float32)
    made[row[0]] = row[1]
    return made


def _read_libsvm(path, width):
    rows, labels = [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            if not fields:
                continue
            try:
                labels.append(float(fields[0].split(",")[0]) if ":" not in fields[0] else 0.0)
                pairs = [field.split(":") for field in fields if ":" in field]
                indices = np.array([int(index) for index, _ in pairs], np.int64)
                values = np.array([float(value) for _, value in pairs], np.float32)
            except ValueError:
                raise Corrupt(f"{path}:{number}: expected a label and index:value") from None
            if indices.size and (indices.min() < 0 or indices.max() >= width):
                raise Corrupt(f"{path}:{number}: an index outside of 0 to {width - 1}")
            rows.append((indices, values))
    return rows, labels


def ImageRecordIter(path_imgrec, data_shape, batch_size, path_imgidx=None, label_width=1,
                    shuffle=False, num_parts=1, part_index=0, round_batch=True, seed=0,
                    data_name="data", label_name="softmax_label", dtype="float32", **options):
    """Batches of images in a record file, changed as the options tell; of threads and buffers it
    may be told, and needs none."""
    from lockstep.mxnet import image

    return image.RecordIter(
        path_imgrec, tuple(data_shape), batch_size, path_imgidx, label_width, shuffle, num_parts,
        part_index, seed, data_name, label_name, dtype, options)


def ImageRecordUInt8Iter(*args, **kwargs):
    """As ImageRecordIter, of uint8."""
    return ImageRecordIter(*args, **dict(kwargs, dtype="uint8"))


__getattr__ = attributes_of(globals(), _hints.IO)
