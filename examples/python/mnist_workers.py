#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on any number of workers, with the same bits on every number:

python3 mnist_workers.py [--synthetic] [--steps N]
lockstep launch -n 4 -- python3 mnist_workers.py [--synthetic] [--steps N]
"""

import argparse

import lockstep as ls
from lockstep import nn, optim


class LeNet(nn.Block):
    def __init__(self):
        super().__init__()
        self.features = nn.sequential(
            nn.conv2d(16, 3, padding=1, activation="relu"), nn.max_pool2d(2),
            nn.conv2d(32, 3, padding=1, activation="relu"), nn.max_pool2d(2))
        self.head = nn.sequential(nn.dense(64, activation="relu"), nn.dense(10))

    def forward(self, x):
        return self.head(self.features(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    job = ls.join_job()
    recipe = ls.recipes.find("mnist-lenet")
    train, test = recipe.open_data("synthetic" if options.synthetic else ls.data.get("mnist"))
    trainer = ls.Trainer(LeNet(), nn.SoftmaxCrossEntropyLoss(),
                         optim.sgd(learning_rate=0.05, momentum=0.9), global_batch=128, shards=8,
                         seed=1, job=job)
    result = trainer.fit(train, steps=options.steps, transform=recipe.train_transform(),
                         schedule=optim.cosine(0.05, steps=options.steps))
    if job.is_first:
        print(f"{job.workers} workers: loss {result.train_loss:.4f}, "
              f"params_sha256 {result.params_sha256}")


main()
