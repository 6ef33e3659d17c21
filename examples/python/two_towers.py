#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recommender of two inputs: a tower for users, one for items, and their product. Then the best
items for a user are asked for.

python3 two_towers.py [--steps N]
lockstep launch -n 2 -- python3 two_towers.py [--steps N]
"""

import argparse

import numpy as np

import lockstep as ls
from lockstep import nn, optim

USERS, ITEMS, TASTES = 60, 80, 4


def tower(rows):
    return nn.sequential(nn.embedding(rows, 16), nn.dense(32, activation="relu"), nn.dense(8))


class TwoTowers(nn.Block):
    def __init__(self):
        super().__init__()
        self.user = tower(USERS)
        self.item = tower(ITEMS)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(axis=1)


def likes(seed, pairs=4096):
    """Users like the items of their own taste, one of four."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, USERS, pairs), rng.integers(0, ITEMS, pairs)
    return user, item, (user % TASTES == item % TASTES).astype("float32")


def recommend(net, user, count=5):
    """The items that a user likes best, and their scores."""
    scores = net(np.full(ITEMS, user), np.arange(ITEMS)).numpy()
    best = np.argsort(-scores)[:count]
    return best.tolist(), scores[best].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()

    job = ls.join_job()
    trainer = ls.Trainer(TwoTowers(), nn.SigmoidBinaryCrossEntropyLoss(),
                         optim.adam(learning_rate=0.01), global_batch=128, job=job,
                         fields=["input:user", "input:item", "label:liked"])
    result = trainer.fit(likes(1), steps=options.steps, validation=likes(2))
    if not job.is_first:
        return
    print(f"pairs told right that it has not seen: accuracy {result.validation.accuracy:.4f}")
    items, _ = recommend(trainer.net, user=7)
    print(f"for user 7, of taste {7 % TASTES}: items {items} of tastes "
          f"{[item % TASTES for item in items]}")
    print(f"params_sha256 {result.params_sha256}")


main()
