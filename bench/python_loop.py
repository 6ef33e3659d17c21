#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Gluon loop (record, backward, step) beside PyTorch's eager one: the net of mnist-lenet, batch
64, one thread, the same first parameters, hybridized and not; and a small op of each. Sides take
turns, round by round, so that a busy machine is busy for all of them; reported is the median of the
rounds' ratios. The losses must agree. Prints a line of JSON for each.

    PYTHONPATH=build/python bench/python_loop.py --rounds 9 --steps 30
"""
import argparse
import json
import statistics
import time

import numpy as np
import torch

import lockstep as ls
import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon

BATCH, RATE = 64, 0.05


def batches(count):
    """Classes that differ in brightness by rows."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        labels = rng.integers(0, 10, BATCH)
        pictures = rng.normal(0, 0.3, (BATCH, 1, 28, 28)).astype("float32")
        pictures[np.arange(BATCH), 0, labels * 2] += 1
        made.append((pictures, labels.astype("int64")))
    return made


class Torch:
    """PyTorch's eager loop."""

    def __init__(self, data):
        layers = []
        for inputs, outputs in ((1, 32), (32, 64)):
            layers += [torch.nn.Conv2d(inputs, outputs, 3, padding=1), torch.nn.ReLU(),
                       torch.nn.MaxPool2d(2)]
        layers += [torch.nn.Flatten(), torch.nn.Linear(3136, 128), torch.nn.ReLU(),
                   torch.nn.Linear(128, 10)]
        self.net = torch.nn.Sequential(*layers)
        self.loss_of = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), RATE, momentum=0.9)
        self.data = [tuple(map(torch.from_numpy, batch)) for batch in data]

    def parameters(self):
        return [p.detach().numpy().copy() for p in self.net.parameters()]

    def step(self, i):
        x, y = self.data[i % len(self.data)]
        self.optimizer.zero_grad()
        loss = self.loss_of(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def value(self, loss):
        return loss.item()


class Gluon:
    """The same by lockstep.mxnet."""

    def __init__(self, data, parameters, hybridized):
        self.net = gluon.nn.HybridSequential()
        for channels in (32, 64):
            self.net.add(gluon.nn.Conv2D(channels, 3, padding=1, activation="relu"),
                         gluon.nn.MaxPool2D(2))
        self.net.add(gluon.nn.Flatten(), gluon.nn.Dense(128, activation="relu"), gluon.nn.Dense(10))
        self.net.initialize()
        self.net(mx.nd.zeros((1, 1, 28, 28)))
        for parameter, value in zip(self.net.collect_params().values(), parameters):
            parameter.set_data(mx.nd.array(value))
        if hybridized:
            self.net.hybridize()
        self.loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd",
                                     {"learning_rate": RATE, "momentum": 0.9})
        self.data = [(mx.nd.array(x), mx.nd.array(y)) for x, y in data]

    def step(self, i):
        x, y = self.data[i % len(self.data)]
        with autograd.record():
            loss = self.loss_of(self.net(x), y)
        loss.backward()
        self.trainer.step(BATCH)
        return loss

    def value(self, loss):
        return float(loss.mean().asscalar())


class SmallOp:
    """x + x of four numbers, a thousand times a step."""

    def __init__(self, x):
        self.x = x

    def step(self, i):
        x = self.x
        for _ in range(1000):
            y = x + x
        return y

    def value(self, y):
        return float(y.sum())


def timed(side, begin, steps):
    start = time.perf_counter()
    for i in range(begin, begin + steps):
        result = side.step(i)
    value = side.value(result)
    return time.perf_counter() - start, value


def compare(name, sides, rounds, steps):
    """Ratios of the first side's time to the others'."""
    ratios = {other: [] for other in list(sides)[1:]}
    for number in range(rounds + 1):
        took = {}
        for side_name, side in sides.items():
            took[side_name], value = timed(side, number * steps, steps)
            if side_name == next(iter(sides)):
                wanted = value
            # Sums have other orders: what is learnt is close, not equal.
            assert abs(value - wanted) < 0.02 + 0.05 * abs(wanted), (name, side_name, value, wanted)
        for other in ratios if number else ():
            ratios[other].append(took[next(iter(sides))] / took[other])
    for other, values in ratios.items():
        print(json.dumps({"loop": name, "side": other, "peer": next(iter(sides)),
                          "speed_over_peer": round(statistics.median(values), 3)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=30, help="of each side, in a round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = batches(16)
    peer = Torch(data)
    first = peer.parameters()
    compare("lenet", {"torch eager": peer, "gluon hybridized": Gluon(data, first, True),
                      "gluon eager": Gluon(data, first, False)}, options.rounds, options.steps)
    numbers = np.arange(4, dtype="float32")
    compare("x + x", {"torch": SmallOp(torch.from_numpy(numbers)),
                      "lockstep": SmallOp(ls.tensor(numbers)),
                      "mx.nd": SmallOp(mx.nd.array(numbers))}, options.rounds, 10)


main()
