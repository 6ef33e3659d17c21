# SPDX-License-Identifier: Apache-2.0
"""The recipe mnist-lenet with its net, its loss and its schedule written in Python:
lenet.py STEPS THREADS [SEED]. Prints the SHA-256 of the parameters."""

import math
import sys

import lockstep as ls
from lockstep import nn


class LeNet(nn.Block):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.conv2d(32, 3, padding=1)
        self.conv2 = nn.conv2d(64, 3, padding=1)
        self.fc1 = nn.dense(128)
        self.fc2 = nn.dense(10)

    def forward(self, x):
        y = ls.max_pool(ls.relu(self.conv1(x)), 2)
        y = ls.max_pool(ls.relu(self.conv2(y)), 2)
        return self.fc2(ls.relu(self.fc1(y)))


def main():
    steps, threads = int(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    job = ls.join_job()
    recipe = ls.recipes.find("mnist-lenet")
    train, _ = recipe.open_data("synthetic")
    rates = recipe.schedule(steps)
    trainer = ls.Trainer(
        LeNet(), lambda scores, labels: ls.softmax_cross_entropy(scores, labels),
        recipe.optimizer(), global_batch=recipe.global_batch, shards=recipe.shards,
        threads=threads, seed=seed, accuracy=False, job=job)
    result = trainer.fit(train, steps=steps, transform=recipe.train_transform(),
                         schedule=lambda step: rates(step))
    assert math.isfinite(result.train_loss)
    if job.is_first:
        print(result.params_sha256)


main()
