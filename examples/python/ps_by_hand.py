#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers by hand: a worker pulls the parameters, computes gradients of its part of the
batch, and pushes them; the servers add them up and run the optimiser.

python3 ps_by_hand.py [--synthetic] [--steps N]
lockstep launch -n 2 -s 2 -- python3 ps_by_hand.py [--synthetic] [--steps N]
"""

import argparse
import hashlib

import lockstep as ls
from lockstep import autograd, data, nn, optim

BATCH, SHARDS = 128, 4  # a worker computes some of the shards


def gradients_of(net, loss_of, samples, shard, digits, pixels):
    """The gradients of one shard's mean loss, and that loss."""
    size = BATCH // SHARDS
    x, y = digits.batch(samples[shard * size:(shard + 1) * size])
    x = ls.stack([pixels(one) for one in x])
    with autograd.record():
        loss = loss_of(net(x), y).mean()
    loss.backward()
    return {name: p.grad().copy() for name, p in net.parameters().items()}, loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()

    job = ls.join_job()  # a server stays in here while there are workers
    store = ls.kvstore.create("dist_sync", job)
    place = "synthetic" if options.synthetic else data.get("mnist")
    digits, _ = ls.recipes.find("mnist-mlp").open_data(place)
    pixels = data.to_tensor([0.1307], [0.3081])
    net = nn.sequential(nn.flatten(), nn.dense(128, activation="relu"), nn.dense(10))
    net.initialize(nn.init.fan_in(), seed=1)
    net(ls.zeros((1, 1, 28, 28)))  # tells the layers their shapes
    for name, p in net.parameters().items():
        store.init(name, p.data())
    store.set_optimizer(optim.sgd(learning_rate=0.1, momentum=0.9), 1.0 / SHARDS)

    loss_of = nn.SoftmaxCrossEntropyLoss()
    order = data.random_sampler(len(digits), seed=1)
    first, end = (SHARDS * r // job.workers for r in (job.rank, job.rank + 1))
    per_epoch = len(digits) // BATCH
    for step in range(options.steps):
        if step % per_epoch == 0:
            epoch = list(order.epoch(step // per_epoch))
        begin = step % per_epoch * BATCH
        for name, p in net.parameters().items():
            p.set_data(store.pull(name))
        parts = []
        for shard in range(first, end):
            gradients, loss = gradients_of(net, loss_of, epoch[begin:begin + BATCH], shard, digits,
                                           pixels)
            parts.append(gradients)
        for name in net.parameters():
            store.push(name, [gradients[name] for gradients in parts])
    digest = hashlib.sha256()
    for name in sorted(net.parameters()):
        digest.update(store.pull(name).numpy().tobytes())
    store.barrier()
    if job.is_first:
        print(f"loss {loss:.4f}, parameters {digest.hexdigest()}")


main()
