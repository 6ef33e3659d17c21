# SPDX-License-Identifier: Apache-2.0
"""Sentences as numbers, in batches of one length each."""

import bisect
import random as _random

import numpy as np

from lockstep.mxnet import io
from lockstep.mxnet import ndarray as nd


def encode_sentences(sentences, vocab=None, invalid_label=-1, invalid_key="\n", start_label=0,
                     unknown_token=None):
    """Sentences of numbers, and the vocabulary, made where none is given."""
    new = vocab is None
    vocab = {invalid_key: invalid_label} if new else vocab
    number, made = start_label, []
    for sentence in sentences:
        coded = []
        for word in sentence:
            if word not in vocab:
                if not new and unknown_token is None:
                    raise AssertionError(f"Unknown token {word}")
                if not new:
                    word = unknown_token
                else:
                    if number == invalid_label:
                        number += 1
                    vocab[word] = number
                    number += 1
            coded.append(vocab[word])
        made.append(coded)
    return made, vocab


class BucketSentenceIter(io.DataIter):
    """Sentences in batches of one length each; the label is the next word."""

    def __init__(self, sentences, batch_size, buckets=None, invalid_label=-1, data_name="data",
                 label_name="softmax_label", dtype="float32", layout="NT"):
        super().__init__(batch_size)
        if not buckets:
            lengths = np.bincount([len(s) for s in sentences])
            buckets = [i for i, count in enumerate(lengths) if count >= batch_size]
        self.buckets = sorted(buckets)
        self.data = [[] for _ in self.buckets]
        for sentence in sentences:
            at = bisect.bisect_left(self.buckets, len(sentence))
            if at == len(self.buckets):
                continue  # longer than the largest
            padded = np.full((self.buckets[at],), invalid_label, dtype=dtype)
            padded[:len(sentence)] = sentence
            self.data[at].append(padded)
        self.data = [np.asarray(rows, dtype=dtype).reshape(len(rows), size)
                     for rows, size in zip(self.data, self.buckets)]
        self.dtype, self.invalid_label, self.layout = dtype, invalid_label, layout
        self.data_name, self.label_name = data_name, label_name
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._descriptions(data_name, self.default_bucket_key)
        self.provide_label = self._descriptions(label_name, self.default_bucket_key)
        self.idx = [(i, at) for i, rows in enumerate(self.data)
                    for at in range(0, len(rows) - batch_size + 1, batch_size)]
        self.reset()

    def _descriptions(self, name, size):
        shape = (self.batch_size, size) if self.major_axis == 0 else (size, self.batch_size)
        return [io.DataDesc(name, shape, self.dtype, layout=self.layout)]

    def reset(self):
        self.curr_idx = 0
        _random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)

    def next(self):
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, at = self.idx[self.curr_idx]
        self.curr_idx += 1
        data = self.data[i][at:at + self.batch_size]
        label = np.full_like(data, self.invalid_label)
        label[:, :-1] = data[:, 1:]
        if self.major_axis == 1:
            data, label = data.T, label.T
        size = self.buckets[i]
        return io.DataBatch([nd.array(data, dtype=self.dtype)], [nd.array(label, dtype=self.dtype)],
                            pad=0, bucket_key=size,
                            provide_data=self._descriptions(self.data_name, size),
                            provide_label=self._descriptions(self.label_name, size))
