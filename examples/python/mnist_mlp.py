#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with dense layers: a net of one's own, and a Trainer.

python3 mnist_mlp.py [--synthetic] [--epochs N] [--steps N]
"""

import argparse

import lockstep as ls
from lockstep import data, nn, optim


class MLP(nn.Block):
    def __init__(self, hidden=128, classes=10):
        super().__init__()
        self.hidden = nn.dense(hidden, activation="relu")
        self.dropout = nn.dropout(0.1)
        self.out = nn.dense(classes)

    def forward(self, x):
        return self.out(self.dropout(self.hidden(x)))


def open_data(synthetic):
    if synthetic:
        return ls.recipes.find("mnist-lenet").open_data("synthetic")
    return data.mnist(train=True), data.mnist(train=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="generated pictures: no download")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0)
    options = parser.parse_args()

    train, test = open_data(options.synthetic)
    pixels = data.to_tensor([0.1307], [0.3081])
    trainer = ls.Trainer(MLP(), nn.SoftmaxCrossEntropyLoss(),
                         optim.adam(learning_rate=1e-3), global_batch=128, seed=1)
    result = trainer.fit(train, epochs=options.epochs, steps=options.steps, transform=pixels,
                         validation=test, validation_transform=pixels, validation_batch=256,
                         callbacks=[ls.train.show_progress()])
    print(f"accuracy {result.validation.accuracy:.4f}, params_sha256 {result.params_sha256}")


main()
