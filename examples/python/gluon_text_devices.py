#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a review kind? An LSTM on several devices, in MXNet's words: words become numbers by a
vocabulary, sentences of several lengths one batch by padding.

python3 gluon_text_devices.py [--data FILE] [--devices N] [--epochs N] [--sentences N]

A line of FILE is a label (0 or 1), a tab and a text. Without one, sentences are drawn.
"""

import argparse
import random

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd
from lockstep.mxnet.contrib import text
from lockstep.mxnet.gluon import nn, rnn

KIND = "lovely great delightful clever warm brilliant moving".split()
UNKIND = "dull awful tedious clumsy cold dreadful boring".split()
REST = "the film was and its story an actor scene music end a long little rather".split()


def drawn(count, seed=1):
    """Sentences that end on a word which says whether they are kind."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        label = rng.randrange(2)
        words = [rng.choice(REST) for _ in range(rng.randint(4, 12))]
        words.insert(rng.randint(1, len(words)), rng.choice(KIND if label else UNKIND))
        lines.append((label, " ".join(words)))
    return lines


def read(path):
    lines = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            label, _, words = line.rstrip("\n").partition("\t")
            lines.append((int(label), words))
    return lines


class Reader(gluon.HybridBlock):
    """[N, T] word numbers and [N] lengths to [N, 2] scores: the mean of the LSTM's states."""

    def __init__(self, words, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words = nn.Embedding(words, 32)
            self.lstm = rnn.LSTM(32, layout="NTC")
            self.scores = nn.Dense(2)

    def hybrid_forward(self, F, x, lengths):
        states = self.lstm(self.words(x))
        told = F.SequenceMask(states, sequence_length=lengths, use_sequence_length=True, axis=1)
        return self.scores(F.broadcast_div(told.sum(axis=1), lengths.expand_dims(1)))


def make_batches(lines, vocabulary, batch, shuffle):
    samples = [(nd.array(vocabulary.to_indices(words.split()), dtype="int32"), label)
               for label, words in lines]
    batchify = gluon.data.batchify.Tuple(gluon.data.batchify.Pad(ret_length=True),
                                         gluon.data.batchify.Stack())
    return gluon.data.DataLoader(gluon.data.SimpleDataset(samples), batch_size=batch,
                                 shuffle=shuffle, batchify_fn=batchify)


def parts_of(batch, contexts):
    (words, lengths), labels = batch
    split = [gluon.utils.split_and_load(array, contexts, even_split=False)
             for array in (words, lengths.astype("float32"), labels)]
    return list(zip(*split))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="lines of a label, a tab and a text")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=2000, help="drawn where there is no data")
    options = parser.parse_args()

    mx.random.seed(1)
    contexts = [mx.cpu(i) for i in range(options.devices)]
    lines = read(options.data) if options.data else drawn(options.sentences)
    counter = text.utils.count_tokens_from_str("\n".join(words for _, words in lines))
    vocabulary = text.vocab.Vocabulary(counter, min_freq=2)
    cut = len(lines) * 9 // 10
    train = make_batches(lines[:cut], vocabulary, 32, True)
    test = make_batches(lines[cut:], vocabulary, 64, False)

    net = Reader(len(vocabulary))
    net.initialize(mx.init.Xavier(), ctx=contexts)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    for epoch in range(options.epochs):
        total = 0.0
        for batch in train:
            with autograd.record():
                losses = [loss_of(net(x, lengths), y) for x, lengths, y in parts_of(batch, contexts)]
            autograd.backward(losses)
            trainer.step(len(batch[1]))
            total += sum(loss.sum().asscalar() for loss in losses)
        accuracy = mx.metric.Accuracy()
        for batch in test:
            for x, lengths, y in parts_of(batch, contexts):
                accuracy.update(y, net(x, lengths))
        print(f"epoch {epoch + 1} on {len(contexts)} devices: loss {total / cut:.4f}, "
              f"accuracy {accuracy.get()[1]:.4f}")


main()
