# SPDX-License-Identifier: Apache-2.0
"""Data sets that scripts take from mx.test_utils, of files that are there or can be fetched."""

import bz2
import os
import zipfile

from lockstep.mxnet.gluon import utils

_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
          "t10k-labels-idx1-ubyte")
_SITE = "http://data.mxnet.io/data/"


def download(url, fname=None, dirname=None, overwrite=False, retries=5):
    """The file of an address, in a folder: the one that is there already, else fetched."""
    name = fname or url.split("/")[-1]
    if dirname is not None:
        name = os.path.join(dirname, name)
    return utils.download(url, path=name, overwrite=overwrite, retries=retries)


def get_zip_data(data_dir, url, data_origin_name):
    """Fetches an archive into a folder, and unpacks it there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, path)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(data_dir)


def get_bz2_data(data_dir, data_name, url, data_origin_name):
    """Fetches a packed file into a folder, and unpacks it under another name."""
    target, packed = (os.path.join(data_dir, name) for name in (data_name, data_origin_name))
    if os.path.exists(target):
        return
    download(url, packed)
    with bz2.open(packed) as source, open(target + ".part", "wb") as file:
        while block := source.read(1 << 20):
            file.write(block)
    os.replace(target + ".part", target)
    os.remove(packed)


def get_mnist_ubyte(path="data"):
    """MNIST's files in a folder: those that are found, unpacked, else fetched."""
    from lockstep.mxnet.gluon.data.vision.datasets import _find, _places, read_idx

    os.makedirs(path, exist_ok=True)
    if all(os.path.exists(os.path.join(path, name)) for name in _MNIST):
        return
    try:
        found = [_find(_places(path, ("mnist",)), (name + ".gz", name), "MNIST")
                 for name in _MNIST]
    except FileNotFoundError:
        get_zip_data(path, _SITE + "mnist.zip", "mnist.zip")
        return
    for name, source in zip(_MNIST, found):
        contents = read_idx(source)
        header = bytes([0, 0, 8, contents.ndim]) + b"".join(
            extent.to_bytes(4, "big") for extent in contents.shape)
        with open(os.path.join(path, name), "wb") as file:
            file.write(header + contents.tobytes())


def get_mnist_iterator(batch_size, input_shape, num_parts=1, part_index=0, path="data"):
    """(training, validation) iterators of MNIST."""
    from lockstep.mxnet import io

    get_mnist_ubyte(path)

    def part(images, labels, **options):
        return io.MNISTIter(image=os.path.join(path, images), label=os.path.join(path, labels),
                            input_shape=input_shape, batch_size=batch_size,
                            flat=len(input_shape) != 3, num_parts=num_parts,
                            part_index=part_index, **options)

    return part(*_MNIST[:2], shuffle=True), part(*_MNIST[2:])


def get_cifar10(path="data"):
    """CIFAR-10 as RecordIO files in a folder, fetched where they are not there."""
    if not os.path.exists(os.path.join(path, "cifar", "train.rec")):
        os.makedirs(path, exist_ok=True)
        get_zip_data(path, _SITE + "cifar10.zip", "cifar10.zip")
