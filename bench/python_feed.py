#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a Python data set keep the step fed? The net of mnist-lenet is trained, batch 64, one thread,
on pictures that are in memory as the net reads them, and on a Dataset of Python's whose NumPy
transform makes them of bytes, by threads and by processes: by Trainer.fit and by a Gluon loop. Steps
are taken in turns, so that a busy machine is busy for all of them. The losses must agree. Prints
a line of JSON for each, with its rate over that of memory.

    PYTHONPATH=build/python bench/python_feed.py --rounds 8 --steps 60
"""
import argparse
import json
import time

import numpy as np

import lockstep as ls
import lockstep.mxnet as mx
from lockstep import data, nn, optim
from lockstep.mxnet import autograd, gluon

BATCH, SAMPLES = 64, 8192


def to_input(picture):
    """What such scripts do to a picture of bytes [28, 28, 1]."""
    picture = np.asarray(picture).astype("float32").transpose(2, 0, 1) / 255
    return (picture - np.float32(0.1307)) / np.float32(0.3081)


class Pictures(data.Dataset):
    def __init__(self, pictures, labels):
        self.pictures, self.labels = pictures, labels

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        return to_input(self.pictures[i]), self.labels[i]


class Fit:
    """Trainer.fit, a run at a time; its own rate leaves out the set-up."""

    def __init__(self, dataset, threads=1):
        self.dataset, self.threads, self.seconds, self.steps = dataset, threads, 0.0, 0

    def run(self, steps):
        trainer = ls.Trainer(ls.recipes.find("mnist-lenet").net(), nn.SoftmaxCrossEntropyLoss(), optim.sgd(learning_rate=0.01),
                             global_batch=BATCH, shards=1, threads=1, seed=1, accuracy=False)
        result = trainer.fit(self.dataset, steps=steps, loader_threads=self.threads)
        self.seconds += steps * BATCH / result.samples_per_s
        self.steps += steps
        self.loss = result.train_loss


class Loop:
    """record, backward, step, hybridized."""

    def __init__(self, loader):
        self.loader, self.seconds, self.steps, self.batches = loader, 0.0, 0, None
        self.net = gluon.nn.HybridSequential()
        for channels in (32, 64):
            self.net.add(gluon.nn.Conv2D(channels, 3, padding=1, activation="relu"),
                         gluon.nn.MaxPool2D(2))
        self.net.add(gluon.nn.Flatten(), gluon.nn.Dense(128, activation="relu"), gluon.nn.Dense(10))
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize()
        self.loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.01})

    def _batch(self):
        while True:
            if self.batches is None:
                self.batches = iter(self.loader)
            for batch in self.batches:
                return batch
            self.batches = None

    def _step(self):
        x, y = self._batch()
        with autograd.record():
            loss = self.loss_of(self.net(x), y)
        loss.backward()
        self.trainer.step(BATCH)
        return loss

    def run(self, steps):
        if not self.steps:
            mx.random.seed(1)  # of the parameters, which the first step makes
            for _ in range(3):
                self._step()
        begin = time.perf_counter()
        for _ in range(steps):
            loss = self._step()
        self.loss = loss.mean().asscalar()
        self.seconds += time.perf_counter() - begin
        self.steps += steps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60, help="of each, in a round")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()

    train, _ = ls.recipes.find("mnist-lenet").open_data("synthetic")
    pictures, labels = (field.numpy() for field in train.batch(list(range(SAMPLES))))
    inputs = np.stack([to_input(picture) for picture in pictures])
    python = Pictures(pictures, labels)
    there = data.in_processes(python, options.processes)
    in_memory = gluon.data.ArrayDataset(inputs, labels)

    def loader(dataset, **more):
        return gluon.data.DataLoader(dataset, BATCH, last_batch="discard", **more)

    batches = list(loader(in_memory))
    samples = gluon.data.SimpleDataset(python)
    kinds = {
        "fit": {"memory": Fit((inputs, labels)), "threads": Fit(python),
                "processes": Fit(there, options.processes)},
        "gluon loop": {"memory": Loop(batches),
                       "threads": Loop(loader(samples, num_workers=1, thread_pool=True)),
                       "processes": Loop(loader(samples, num_workers=options.processes))},
    }
    for kind, ways in kinds.items():
        for _ in range(options.rounds):
            for way in ways.values():
                way.run(options.steps)
        rate = {name: way.steps / way.seconds for name, way in ways.items()}
        for name, way in ways.items():
            assert abs(way.loss - ways["memory"].loss) < 1e-4, (kind, name, way.loss)
            print(json.dumps({"loop": kind, "data": name, "steps_per_s": round(rate[name], 2),
                              "of_memory": round(rate[name] / rate["memory"], 3)}), flush=True)


main()
