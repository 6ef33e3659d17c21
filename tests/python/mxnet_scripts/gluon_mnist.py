# SPDX-License-Identifier: Apache-2.0
"""Gluon's first example: digits from a folder of idx files, a DataLoader, a small net."""

import argparse
import os
import struct
import tempfile

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.data.vision import transforms

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=50)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--hybridize", action="store_true")
args = parser.parse_args()


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(struct.pack(">HBB", 0, 8, array.ndim))
        file.write(struct.pack(f">{array.ndim}I", *array.shape))
        file.write(array.astype(np.uint8).tobytes())


def make_digits(folder):
    """Pictures that a small net can tell apart: a bright bar in one of ten rows."""
    rng = np.random.default_rng(7)
    for part, count in (("train", 600), ("t10k", 100)):
        labels = rng.integers(0, 10, count)
        images = rng.integers(0, 60, (count, 28, 28))
        for image, label in zip(images, labels):
            image[2 * label + 2:2 * label + 5, 4:24] += 150
        write_idx(os.path.join(folder, f"{part}-images-idx3-ubyte"), images)
        write_idx(os.path.join(folder, f"{part}-labels-idx1-ubyte"), labels)


def evaluate(net, data):
    metric = mx.metric.Accuracy()
    for x, y in data:
        metric.update(preds=net(x), labels=y)
    return metric.get()[1]


mx.random.seed(42)
np.random.seed(42)
with tempfile.TemporaryDirectory() as root:
    make_digits(root)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.13, 0.31)])
    train = gluon.data.DataLoader(
        gluon.data.vision.MNIST(root, train=True).transform_first(transform),
        batch_size=args.batch_size, shuffle=True, last_batch="discard", num_workers=2)
    test = gluon.data.DataLoader(
        gluon.data.vision.MNIST(root, train=False).transform_first(transform),
        batch_size=args.batch_size, shuffle=False)

    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels=6, kernel_size=5, padding=2, activation="relu"),
                nn.MaxPool2D(pool_size=2, strides=2),
                nn.Conv2D(channels=16, kernel_size=3, activation="relu"),
                nn.MaxPool2D(pool_size=2, strides=2), nn.Flatten(), nn.Dense(64, activation="relu"),
                nn.Dropout(0.1), nn.Dense(10))
    ctx = [mx.cpu()]
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
    if args.hybridize:
        net.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02, "momentum": 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(args.epochs):
        total, count = 0.0, 0
        for data, label in train:
            parts = zip(gluon.utils.split_and_load(data, ctx_list=ctx),
                        gluon.utils.split_and_load(label, ctx_list=ctx))
            with autograd.record():
                losses = [loss_fn(net(x), y) for x, y in parts]
            for loss in losses:
                loss.backward()
            trainer.step(data.shape[0])
            total += sum(nd.sum(loss).asscalar() for loss in losses)
            count += data.shape[0]
        print(f"epoch {epoch} loss {total / count:.4f} accuracy {evaluate(net, test):.3f}",
              flush=True)

    file = os.path.join(root, "net.params")
    net.save_parameters(file)
    other = nn.HybridSequential()
    other.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2, 2),
              nn.Conv2D(16, 3, activation="relu"), nn.MaxPool2D(2, 2), nn.Flatten(),
              nn.Dense(64, activation="relu"), nn.Dropout(0.1), nn.Dense(10))
    other.load_parameters(file, ctx=mx.cpu())
    batch = next(iter(test))[0]
    np.testing.assert_allclose(other(batch).asnumpy(), net(batch).asnumpy(), rtol=1e-3, atol=1e-4)
    print(f"accuracy {evaluate(other, test):.3f}")
