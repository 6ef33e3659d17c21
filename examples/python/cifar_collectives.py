#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Photographs on several workers with explicit collectives: all begin with the parameters of
worker 0 (broadcast), each computes the gradients of its part of the batch, their sum is everybody's
(all_reduce), and every worker makes the same step.

python3 cifar_collectives.py [--synthetic] [--steps N]
lockstep launch -n 4 -- python3 cifar_collectives.py [--synthetic] [--steps N]

For the same bits on any number of workers, and workers that come and go, see mnist_workers.py.
"""

import argparse

import lockstep as ls
from lockstep import autograd, data, nn, optim

BATCH = 64


def make_net():
    return nn.sequential(
        nn.conv2d(32, 3, padding=1, activation="relu"), nn.max_pool2d(2),
        nn.conv2d(64, 3, padding=1, activation="relu"), nn.max_pool2d(2),
        nn.flatten(), nn.dense(128, activation="relu"), nn.dense(10))


class OwnPart(data.Sampler):
    """The samples of one worker: an order that all of them draw, and of each batch a part."""

    def __init__(self, size, job, seed=1):
        self.order = data.random_sampler(size // BATCH * BATCH, seed)
        self.job = job

    def __len__(self):
        return len(self.order) // self.job.workers

    def epoch(self, number):
        order, part = list(self.order.epoch(number)), BATCH // self.job.workers
        return [i for start in range(self.job.rank * part, len(order), BATCH)
                for i in order[start:start + part]]


def exchange_gradients(job, parameters):
    """The sum over all workers: of all parameters in one message."""
    gradients = [p.grad() for p in parameters]
    flat = ls.concat([g.reshape(-1) for g in gradients], axis=0)
    total = job.all_reduce(flat)
    begin = 0
    for p, g in zip(parameters, gradients):
        end = begin + g.size
        p.grad()[...] = total[begin:end].reshape(g.shape)
        begin = end


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()

    job = ls.join_job()
    if BATCH % job.workers:
        raise SystemExit(f"a batch of {BATCH} has no equal parts for {job.workers} workers")
    recipe = ls.recipes.find("cifar-cnn")
    train, test = recipe.open_data("synthetic" if options.synthetic else data.get("cifar10"))
    batches = data.Loader(train, batch=BATCH // job.workers, sampler=OwnPart(len(train), job),
                          transform=recipe.test_transform())
    net = make_net()
    net.initialize(nn.init.xavier(), seed=job.rank)  # others than worker 0's are not used
    net(ls.zeros((1, 3, 32, 32)))  # tells the layers their shapes
    parameters = list(net.parameters().values())
    for p in parameters:
        p.set_data(job.broadcast(p.data(), root=0))
    updater = optim.Updater(net, optim.sgd(learning_rate=0.05, momentum=0.9))
    loss_of = nn.SoftmaxCrossEntropyLoss()
    step = 0
    while step < options.steps:
        for x, y in batches:
            with autograd.record():
                loss = loss_of(net(x), y).sum()
            loss.backward()
            exchange_gradients(job, parameters)
            updater.step(BATCH)
            step += 1
            if step == options.steps:
                break
    mean = job.all_reduce(loss.detach().reshape(1)).item() / BATCH
    own = ls.stack([p.data().sum() for p in parameters])
    same = bool((job.all_reduce(own, "max") == job.all_reduce(own, "min")).all())
    if job.is_first:
        accuracy = ls.metrics.metric("accuracy")
        for x, y in data.Loader(test, batch=256, transform=recipe.test_transform(), last="keep"):
            accuracy.update(y, net(x))
        print(f"{job.workers} workers: loss {mean:.4f}, accuracy {accuracy.get()[1]:.4f}, "
              f"{'the same' if same else 'NOT THE SAME'} parameters on all of them")


main()
