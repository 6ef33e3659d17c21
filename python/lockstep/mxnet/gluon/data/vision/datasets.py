# SPDX-License-Identifier: Apache-2.0
"""Sets of pictures, read from a folder."""

import gzip
import os
import struct
import warnings

import numpy as np

from lockstep.mxnet.gluon.data.dataset import Dataset, RecordFileDataset
from lockstep.mxnet.gluon.parameter import _array_class
from lockstep.mxnet.ndarray.ndarray import NDArray, _tensor_of

__all__ = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageListDataset",
           "ImageRecordDataset", "MNIST"]
_HOME = os.path.join("~", ".mxnet", "datasets")


def _find(folders, names, what):
    """The first of some files that is in one of the folders."""
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    root = folders[0]
    raise FileNotFoundError(f"{what}: there is no {names[0]} in {root}; put the files of the set "
                            "there, or give root=")


def read_idx(path):
    """The array of an idx file, packed by gzip or not."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        contents = file.read()
    if len(contents) < 4 or contents[:2] != b"\0\0" or contents[2] != 8:
        raise ValueError(f"{path}: is no idx file of bytes")
    axes = contents[3]
    shape = struct.unpack_from(f">{axes}I", contents, 4)
    data = np.frombuffer(contents, dtype=np.uint8, offset=4 + 4 * axes)
    if data.size != np.prod(shape):
        raise ValueError(f"{path}: has {data.size} elements, expected those of {shape}")
    return data.reshape(shape)


class _Downloaded(Dataset):
    """Arrays in memory."""

    def __init__(self, root, transform):
        self._transform = transform
        self._root = os.path.expanduser(root)
        self._data = self._label = None
        self._get_data()

    def __getitem__(self, idx):
        data, label = self._data[idx], self._label[idx]
        return (data, label) if self._transform is None else self._transform(data, label)

    def __len__(self):
        return len(self._label)

    def _set(self, data, labels):
        kind = _array_class()
        self._data = kind(_tensor_of(data, "uint8"))
        labels = labels.astype(np.int32)
        self._label = labels if kind is NDArray else kind(_tensor_of(labels, "int32"))

    def _get_data(self):
        raise NotImplementedError


class MNIST(_Downloaded):
    """Handwritten digits, [28, 28, 1]."""

    _folders = ("mnist",)

    def __init__(self, root=os.path.join(_HOME, "mnist"), train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _get_data(self):
        part = "train" if self._train else "t10k"
        folders = _places(self._root, self._folders)
        files = []
        for kind in ("images-idx3", "labels-idx1"):
            names = [f"{part}-{kind}-ubyte{end}" for end in (".gz", "")]
            names += [n.replace("-idx", ".idx") for n in names]
            files.append(_find(folders, names, type(self).__name__))
        images, labels = (read_idx(path) for path in files)
        self._set(images[..., None], labels)


def _places(root, names):
    """Where a set's files may be: in the folder that is named, where `lockstep data get` put them,
    or where MXNet kept what it had fetched."""
    from lockstep import data

    homes = data.cache_dir(), os.path.expanduser(_HOME)
    return [root, *[os.path.join(home, name) for home in homes for name in names]]


class FashionMNIST(MNIST):
    """Clothes, [28, 28, 1]."""

    _folders = ("fashion-mnist", "fashion_mnist")

    def __init__(self, root=os.path.join(_HOME, "fashion-mnist"), train=True, transform=None):
        super().__init__(root, train, transform)


class CIFAR10(_Downloaded):
    """Photographs, [32, 32, 3]."""

    _train_files = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    _test_files = ("test_batch.bin",)
    _folders, _kept = ("", "cifar-10-batches-bin", "cifar10"), ("cifar10",)
    _label_bytes = 1

    def __init__(self, root=os.path.join(_HOME, "cifar10"), train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _read(self, path):
        rows = np.fromfile(path, dtype=np.uint8)
        width = 3072 + self._label_bytes
        if rows.size % width:
            raise ValueError(f"{path}: {rows.size} bytes are no multiple of {width}")
        rows = rows.reshape(-1, width)
        pictures = rows[:, self._label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return pictures, rows[:, self._label_byte()]

    def _label_byte(self):
        return 0

    def _get_data(self):
        names = self._train_files if self._train else self._test_files
        folders = _places(self._root, self._kept)
        parts = [self._read(_find(folders, [os.path.join(f, name) for f in self._folders],
                                  type(self).__name__)) for name in names]
        self._set(np.concatenate([p for p, _ in parts]), np.concatenate([y for _, y in parts]))


class CIFAR100(CIFAR10):
    """Photographs of 100 classes, or 20."""

    _train_files, _test_files = ("train.bin",), ("test.bin",)
    _folders, _kept = ("", "cifar-100-binary", "cifar100"), ("cifar100",)
    _label_bytes = 2

    def __init__(self, root=os.path.join(_HOME, "cifar100"), fine_label=False, train=True,
                 transform=None):
        self._fine_label = fine_label
        super().__init__(root, train, transform)

    def _label_byte(self):
        return 1 if self._fine_label else 0


class ImageRecordDataset(RecordFileDataset):
    """Pictures of a .rec file."""

    def __init__(self, filename, flag=1, transform=None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx):
        from lockstep.mxnet import image, recordio

        header, picture = recordio.unpack(super().__getitem__(idx))
        data = image.imdecode(picture, self._flag)
        if self._transform is not None:
            return self._transform(data, header.label)
        return data, header.label


class ImageFolderDataset(Dataset):
    """root/class/picture.png; classes are numbered by name."""

    _endings = (".jpg", ".jpeg", ".png", ".npy")

    def __init__(self, root, flag=1, transform=None):
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets, self.items = [], []
        if not os.path.isdir(self._root):
            raise FileNotFoundError(f"ImageFolderDataset: there is no folder {self._root}")
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                if name.lower().endswith(self._endings):
                    self.items.append((os.path.join(path, name), label))

    def __getitem__(self, idx):
        path, label = self.items[idx]
        picture = _read_picture(path, self._flag)
        return (picture, label) if self._transform is None else self._transform(picture, label)

    def __len__(self):
        return len(self.items)


def _read_picture(path, flag):
    if path.endswith(".npy"):
        contents = np.load(path, allow_pickle=False)
        return NDArray(_tensor_of(contents, contents.dtype.name))
    from lockstep.mxnet import image

    return image.imread(path, flag)


class ImageListDataset(Dataset):
    """Pictures of a .lst file, or of a list of [label, path]."""

    def __init__(self, root=".", imglist=None, flag=1):
        self._root, self._flag = os.path.expanduser(root), flag
        self.items = []
        if isinstance(imglist, str):
            with open(os.path.join(self._root, imglist), encoding="utf-8") as file:
                for line in file:
                    _, *labels, path = line.strip().split("\t")
                    self.items.append((path, np.array(labels, dtype="float32")))
        else:
            for *labels, path in imglist:
                self.items.append((path, np.array(labels, dtype="float32").reshape(-1)))

    def __getitem__(self, idx):
        path, labels = self.items[idx]
        label = labels[0] if len(labels) == 1 else labels
        return _read_picture(os.path.join(self._root, path), self._flag), label

    def __len__(self):
        return len(self.items)
