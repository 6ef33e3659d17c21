# SPDX-License-Identifier: Apache-2.0
"""Batches of images."""

import os
import random as _random

import numpy as np

from lockstep.errors import Corrupt, InvalidArgument
from lockstep.mxnet import image, io, recordio
from lockstep.mxnet import ndarray as nd


class ImageIter(io.DataIter):
    """Batches of images of a record file, of a list file (.lst), or of a list, changed by
    augmenters: [N, C, H, W] float32."""

    def __init__(self, batch_size, data_shape, label_width=1, path_imgrec=None, path_imglist=None,
                 path_root=None, path_imgidx=None, shuffle=False, part_index=0, num_parts=1,
                 aug_list=None, imglist=None, data_name="data", label_name="softmax_label",
                 dtype="float32", last_batch_handle="pad", **kwargs):
        super().__init__(batch_size)
        self.check_data_shape(tuple(data_shape))
        self.data_shape, self.label_width, self.dtype = tuple(data_shape), label_width, dtype
        self.shuffle, self.last_batch_handle = shuffle, last_batch_handle
        self.path_root = path_root
        self.auglist = image.CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self._names = data_name, label_name
        self.imgrec, self.imglist = None, None
        if path_imgrec:
            self._open_records(path_imgrec, path_imgidx)
        if path_imglist or imglist is not None:
            self._take_list(path_imglist, imglist)
        elif self.imgrec is None:
            raise InvalidArgument("ImageIter: path_imgrec, path_imglist or imglist is needed")
        begin, end = io._part(len(self.seq), part_index, num_parts)
        self.seq = self.seq[begin:end]
        self._kept = []
        self.reset()

    def _open_records(self, path, index):
        if index:
            self.imgrec = recordio.MXIndexedRecordIO(index, path, "r")
            self.seq = list(self.imgrec.keys)
        else:
            self.imgrec = _Offsets(path)
            self.seq = list(range(len(self.imgrec.offsets)))

    def _take_list(self, path, given):
        self.imglist = {}
        if path:
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    fields = line.rstrip("\n").split("\t")
                    if len(fields) < 3:
                        raise Corrupt(f"{path}:{number}: expected an index, labels and a path")
                    self.imglist[int(fields[0])] = np.array(fields[1:-1], np.float32), fields[-1]
        else:
            for number, item in enumerate(given):
                label = item[:-1] if len(item) > 2 else item[0]
                self.imglist[number] = np.array(label, np.float32).reshape(-1), item[-1]
        self.seq = list(self.imglist)

    @property
    def provide_data(self):
        """What its data are."""
        return [io.DataDesc(self._names[0], (self.batch_size,) + self.data_shape, self.dtype)]

    @property
    def provide_label(self):
        """What its labels are."""
        shape = (self.batch_size,) + ((self.label_width,) if self.label_width > 1 else ())
        return [io.DataDesc(self._names[1], shape)]

    def reset(self):
        """Back to the first image, of another order where it shuffles."""
        if self.shuffle:
            _random.shuffle(self.seq)
        self.cur = 0

    hard_reset = reset

    def check_data_shape(self, data_shape):
        """Raises unless it is (3, H, W) or (1, H, W)."""
        if len(data_shape) != 3 or data_shape[0] not in (1, 3):
            raise ValueError(f"data_shape is {data_shape}, expected (3, H, W) or (1, H, W)")

    def next_sample(self):
        """(label, an image file's bytes) of the next one."""
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is not None:
            header, data = recordio.unpack(self.imgrec.read_idx(key))
            return (self.imglist[key][0] if self.imglist else header.label), data
        label, name = self.imglist[key]
        return label, self.read_image(name)

    def read_image(self, fname):
        """A file's bytes."""
        with open(os.path.join(self.path_root or "", fname), "rb") as file:
            return file.read()

    def imdecode(self, s):
        """The image of a file's bytes."""
        return image.imdecode(s, flag=0 if self.data_shape[0] == 1 else 1)

    def augmentation_transform(self, data):
        """The image after all changes."""
        for change in self.auglist:
            data = change(data)
        return data

    def postprocess_data(self, datum):
        """[C, H, W] of [H, W, C]."""
        return np.transpose(image._numpy(datum), (2, 0, 1))

    def next(self):
        data = np.zeros((self.batch_size,) + self.data_shape, self.dtype)
        labels = self._labels()
        count = self._fill(data, labels, 0)
        if count == 0 or (count < self.batch_size and self.last_batch_handle == "discard"):
            raise StopIteration
        pad = self.batch_size - count
        if pad:
            at = self.cur
            self.cur = 0
            while count < self.batch_size and self.seq:
                count = self._fill(data, labels, count)
                self.cur = 0 if count < self.batch_size else at
            self.cur = len(self.seq)
        label = self._label_array(labels)
        return io.DataBatch([nd.array(data, dtype=self.dtype)], [label], pad=pad,
                            provide_data=self.provide_data, provide_label=self.provide_label)

    def _labels(self):
        return np.zeros((self.batch_size, self.label_width), np.float32)

    def _label_array(self, labels):
        return nd.array(labels if self.label_width > 1 else labels[:, 0])

    def _fill(self, data, labels, count):
        while count < self.batch_size:
            try:
                label, bytes_ = self.next_sample()
            except StopIteration:
                break
            made = self.postprocess_data(self.augmentation_transform(self.imdecode(bytes_)))
            if made.shape != self.data_shape:
                raise InvalidArgument(f"ImageIter: an image of shape {made.shape} after its "
                                      f"changes, expected {self.data_shape}")
            data[count] = made
            labels[count] = np.asarray(label, np.float32).reshape(-1)[:self.label_width]
            count += 1
        return count


class _Offsets(recordio.MXRecordIO):
    """Records by their number: the file is looked through once."""

    def __init__(self, path):
        super().__init__(path, "r")
        self.offsets = []
        while True:
            at = self.tell()
            if self.read() is None:
                break
            self.offsets.append(at)

    def read_idx(self, number):
        """A record by its number."""
        self._check_pid(allow_reset=True)
        self.record.seek(self.offsets[number])
        return self.read()


class RecordIter(ImageIter):
    """mx.io.ImageRecordIter. Options that are none of pictures (threads, buffers) it ignores."""

    _NOT_HERE = {"path_imglist": "", "aug_seq": "aug_default", "mean_a": 0.0, "std_a": 1.0}

    def __init__(self, path, shape, batch_size, index, label_width, shuffle, num_parts, part_index,
                 seed, data_name, label_name, dtype, options):
        from lockstep.mxnet import _record_aug

        self._check(options)
        changes = _record_aug.RecordAug(shape, options.get("seed_aug"), **{
            key: options[key] for key in _record_aug.DEFAULTS if key in options})
        self._mirror = options.get("mirror", False), options.get("rand_mirror", False)
        self._take_colours(shape[0], options)
        if seed:
            _random.seed(seed)
        super().__init__(batch_size, shape, label_width, path_imgrec=path, path_imgidx=index,
                         shuffle=shuffle, part_index=part_index, num_parts=num_parts,
                         aug_list=[changes], data_name=data_name, label_name=label_name,
                         dtype=dtype, last_batch_handle="pad")
        if options.get("mean_img"):
            self._mean = self._mean_image(options["mean_img"])

    def _check(self, options):
        for name, default in self._NOT_HERE.items():
            if options.get(name, default) not in (default, None):
                raise InvalidArgument(f"ImageRecordIter: {name} is not here")

    def _take_colours(self, channels, options):
        def of_channels(kind, default):
            values = [options.get(f"{kind}_{colour}", default) for colour in "rgb"[:channels]]
            return np.array(values, np.float32).reshape(-1, 1, 1)

        self._mean = of_channels("mean", 0.0)
        self._factor = options.get("scale", 1.0) / of_channels("std", 1.0)
        self._contrast = options.get("max_random_contrast", 0.0)
        self._light = options.get("max_random_illumination", 0.0)

    def _mean_image(self, path):
        """The mean of all images: a file's, which is made where it is missing."""
        if os.path.exists(path):
            made = nd.load(path)
            made = made[0] if isinstance(made, list) else next(iter(made.values()))
            return made.asnumpy()
        total = np.zeros(self.data_shape)
        for _ in self.seq:
            total += super().postprocess_data(
                self.augmentation_transform(self.imdecode(self.next_sample()[1])))
        mean = (total / max(len(self.seq), 1)).astype(np.float32)
        nd.save(path, {"mean_img": nd.array(mean)})
        self.cur = 0
        return mean

    def postprocess_data(self, datum):
        made = super().postprocess_data(datum)
        if self.dtype != "uint8":
            contrast = 1 + _random.uniform(-self._contrast, self._contrast)
            light = _random.uniform(-self._light, self._light)
            made = ((made.astype(np.float32) - self._mean) * contrast + light) * self._factor
        always, sometimes = self._mirror
        return made[..., ::-1] if always or (sometimes and _random.random() < 0.5) else made
