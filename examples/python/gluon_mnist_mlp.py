#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with dense layers, in MXNet's words: a Gluon net, a Trainer, a loop.

python3 gluon_mnist_mlp.py [--synthetic] [--epochs N] [--steps N]
"""

import argparse
import itertools

import lockstep as ls
import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd
from lockstep.mxnet.gluon import nn


def open_data(synthetic):
    """Sets of pictures [1, 28, 28] between 0 and 1, and numbers of classes."""
    transform = gluon.data.vision.transforms.ToTensor()
    if not synthetic:
        return [gluon.data.vision.MNIST(train=train).transform_first(transform)
                for train in (True, False)]
    sets = ls.recipes.find("mnist-mlp").open_data("synthetic")
    return [gluon.data.SimpleDataset([(nd.array(x.numpy(), dtype="uint8"), int(y))
                                      for x, y in (s[i] for i in range(min(len(s), 2048)))])
            .transform_first(transform) for s in sets]


def evaluate(net, batches):
    accuracy = mx.metric.Accuracy()
    for x, y in batches:
        accuracy.update(y, net(x))
    return accuracy.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="at most so many an epoch")
    options = parser.parse_args()

    mx.random.seed(1)
    context = mx.gpu() if mx.context.num_gpus() else mx.cpu()
    train, test = open_data(options.synthetic)
    batches = gluon.data.DataLoader(train, batch_size=64, shuffle=True, last_batch="discard")
    net = nn.HybridSequential()
    net.add(nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"),
            nn.Dense(10))
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize()
    # Ten scores and no softmax: the loss has it.
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for epoch in range(options.epochs):
        for x, y in itertools.islice(batches, options.steps or None):
            x, y = x.as_in_context(context), y.as_in_context(context)
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(len(x))
        accuracy = evaluate(net, gluon.data.DataLoader(test, batch_size=256))
        print(f"epoch {epoch + 1}: loss {loss.mean().asscalar():.4f}, accuracy {accuracy:.4f}")


main()
