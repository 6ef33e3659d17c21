#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Photographs with a convolutional net on several devices, in MXNet's words: each device has its
part of a batch, and the Trainer adds the gradients of all of them.

python3 gluon_cifar_devices.py [--synthetic] [--devices N] [--epochs N] [--steps N]
"""

import argparse
import itertools

import lockstep as ls
import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd
from lockstep.mxnet.gluon import nn
from lockstep.mxnet.gluon.data.vision import transforms


def open_data(synthetic):
    if not synthetic:
        return [gluon.data.vision.CIFAR10(train=train) for train in (True, False)]
    sets = ls.recipes.find("cifar-cnn").open_data("synthetic")
    return [gluon.data.SimpleDataset([(nd.array(x.numpy(), dtype="uint8"), int(y))
                                      for x, y in (s[i] for i in range(min(len(s), 1024)))])
            for s in sets]


def make_net():
    net = nn.HybridSequential()
    for channels in (32, 64):
        net.add(nn.Conv2D(channels, kernel_size=3, padding=1), nn.BatchNorm(),
                nn.Activation("relu"), nn.MaxPool2D(pool_size=2, strides=2))
    net.add(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dropout(0.2), nn.Dense(10))
    return net


def evaluate(net, batches, contexts):
    accuracy = mx.metric.Accuracy()
    for x, y in batches:
        parts = gluon.utils.split_and_load(x, contexts, even_split=False)
        labels = gluon.utils.split_and_load(y, contexts, even_split=False)
        accuracy.update(labels, [net(part) for part in parts])
    return accuracy.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="at most so many an epoch")
    options = parser.parse_args()

    mx.random.seed(1)
    device = mx.gpu if mx.context.num_gpus() else mx.cpu
    contexts = [device(i) for i in range(options.devices)]
    pixels = transforms.Compose([transforms.ToTensor(),
                                 transforms.Normalize((0.4914, 0.4822, 0.4465),
                                                      (0.2470, 0.2435, 0.2616))])
    train, test = (s.transform_first(pixels) for s in open_data(options.synthetic))
    batches = gluon.data.DataLoader(train, batch_size=64, shuffle=True, last_batch="discard",
                                    num_workers=1)
    net = make_net()
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.001})
    losses = mx.metric.Loss()
    for epoch in range(options.epochs):
        losses.reset()
        for x, y in itertools.islice(batches, options.steps or None):
            parts = gluon.utils.split_and_load(x, contexts)
            labels = gluon.utils.split_and_load(y, contexts)
            with autograd.record():
                loss = [loss_of(net(part), label) for part, label in zip(parts, labels)]
            autograd.backward(loss)
            trainer.step(len(x))  # once a batch: it adds what the devices have
            losses.update(0, loss)
        accuracy = evaluate(net, gluon.data.DataLoader(test, batch_size=128), contexts)
        print(f"epoch {epoch + 1} on {len(contexts)} devices: loss {losses.get()[1]:.4f}, "
              f"accuracy {accuracy:.4f}")


main()
