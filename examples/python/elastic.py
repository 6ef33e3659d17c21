#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on workers that may be lost, replaced, or told to leave: the same bits.

python3 elastic.py [--synthetic] [--steps N]
lockstep launch -n 4 -- python3 elastic.py [--synthetic]      kill -9 one of them: the others go on
"""

import argparse

import lockstep as ls
from lockstep import data, nn, optim


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()

    # All that it takes: a job that survives.
    job = ls.join_job(survives=True)
    place = "synthetic" if options.synthetic else data.get("mnist")
    train, test = ls.recipes.find("mnist-mlp").open_data(place)
    net = nn.sequential(nn.flatten(), nn.dense(128, activation="relu"), nn.dense(10))
    trainer = ls.Trainer(net, nn.SoftmaxCrossEntropyLoss(),
                         optim.sgd(learning_rate=0.1, momentum=0.9), global_batch=128, shards=8,
                         seed=1, job=job)
    pixels = data.to_tensor([0.1307], [0.3081])
    result = trainer.fit(train, steps=options.steps, transform=pixels, validation=test,
                         validation_transform=pixels)
    if result.is_first and not result.is_dismissed:  # the first of those that are left speaks
        print(f"accuracy {result.validation.accuracy:.4f}, params_sha256 {result.params_sha256}")


main()
