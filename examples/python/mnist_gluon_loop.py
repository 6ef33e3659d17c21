#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with a loop by hand: record, backward, step.

python3 mnist_gluon_loop.py [--synthetic] [--epochs N] [--steps N]
"""

import argparse
import itertools

import lockstep as ls
from lockstep import autograd, data, nn, optim


class LeNet(nn.Block):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.conv2d(32, 3, padding=1)
        self.conv2 = nn.conv2d(64, 3, padding=1)
        self.fc1 = nn.dense(128, activation="relu")
        self.fc2 = nn.dense(classes)

    def forward(self, x):
        y = ls.max_pool(ls.relu(self.conv1(x)), 2)
        y = ls.max_pool(ls.relu(self.conv2(y)), 2)
        return self.fc2(self.fc1(y))


def open_data(synthetic):
    if synthetic:
        return ls.recipes.find("mnist-lenet").open_data("synthetic")
    return data.mnist(train=True), data.mnist(train=False)


def evaluate(net, loader):
    accuracy = ls.metrics.metric("accuracy")
    for x, y in loader:
        accuracy.update(y, net(x))
    return accuracy.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="at most so many an epoch")
    options = parser.parse_args()

    train, test = open_data(options.synthetic)
    pixels = data.to_tensor([0.1307], [0.3081])
    batches = data.Loader(train, batch=64, shuffle=True, seed=1, transform=pixels)
    net = LeNet()
    net.initialize(nn.init.xavier(), seed=1)
    net.hybridize()
    loss_of = nn.SoftmaxCrossEntropyLoss()
    updater = None
    for epoch in range(options.epochs):
        for x, y in itertools.islice(batches, options.steps or None):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            # Made after the first forward, which tells the layers their shapes.
            updater = updater or optim.Updater(net, optim.sgd(learning_rate=0.05, momentum=0.9))
            updater.step(len(x))
        accuracy = evaluate(net, data.Loader(test, batch=256, transform=pixels, last="keep"))
        print(f"epoch {epoch + 1}: loss {loss.mean().item():.4f}, accuracy {accuracy:.4f}")


main()
