# SPDX-License-Identifier: Apache-2.0
"""A word language model: embedding, LSTM, dropout, tied weights, truncated backpropagation."""

import math

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

mx.random.seed(11)
np.random.seed(11)
VOCABULARY, WIDTH, BPTT, BATCH = 12, 24, 8, 8


class RNNModel(gluon.Block):
    """An encoder, recurrent layers and a decoder with the encoder's weights."""

    def __init__(self, mode, vocab_size, num_embed, num_hidden, num_layers, dropout=0.1,
                 tie_weights=True, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.drop = nn.Dropout(dropout)
            self.encoder = nn.Embedding(vocab_size, num_embed,
                                        weight_initializer=mx.init.Uniform(0.1))
            layer = {"lstm": rnn.LSTM, "gru": rnn.GRU}[mode]
            self.rnn = layer(num_hidden, num_layers, dropout=dropout, input_size=num_embed)
            if tie_weights:
                self.decoder = nn.Dense(vocab_size, in_units=num_hidden,
                                        params=self.encoder.params)
            else:
                self.decoder = nn.Dense(vocab_size, in_units=num_hidden)
            self.num_hidden = num_hidden

    def forward(self, inputs, hidden):
        emb = self.drop(self.encoder(inputs))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        return self.decoder(output.reshape((-1, self.num_hidden))), hidden

    def begin_state(self, *args, **kwargs):
        return self.rnn.begin_state(*args, **kwargs)


def detach(hidden):
    if isinstance(hidden, (tuple, list)):
        return [detach(h) for h in hidden]
    return hidden.detach()


def make_corpus(length):
    """Words that mostly follow each other in a circle."""
    rng = np.random.default_rng(3)
    words, word = [], 0
    for _ in range(length):
        words.append(word)
        word = (word + 1) % VOCABULARY if rng.random() < 0.95 else rng.integers(VOCABULARY)
    return np.array(words, dtype="int32")


def batchify(data, batch_size):
    nbatch = data.shape[0] // batch_size
    return nd.array(data[:nbatch * batch_size]).reshape((batch_size, nbatch)).T


corpus = batchify(make_corpus(2400), BATCH)
model = RNNModel("lstm", VOCABULARY, WIDTH, WIDTH, 2)
context = mx.cpu()
model.collect_params().initialize(mx.init.Xavier(), ctx=context)
assert model.decoder.weight is model.encoder.weight
trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.01})
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
parameters = [p for p in model.collect_params().values()]
for epoch in range(4):
    total, count = 0.0, 0
    hidden = model.begin_state(func=mx.nd.zeros, batch_size=BATCH, ctx=context)
    for i in range(0, corpus.shape[0] - 1 - BPTT, BPTT):
        data, target = corpus[i:i + BPTT], corpus[i + 1:i + 1 + BPTT].reshape((-1,))
        hidden = detach(hidden)
        with autograd.record():
            output, hidden = model(data, hidden)
            loss = loss_fn(output, target)
        loss.backward()
        grads = [p.grad(context) for p in parameters]
        gluon.utils.clip_global_norm(grads, 0.25 * BPTT * BATCH)
        trainer.step(BATCH * BPTT)
        total += mx.nd.sum(loss).asscalar()
        count += loss.size
    print(f"epoch {epoch} loss {total / count:.4f} perplexity {math.exp(total / count):.2f}",
          flush=True)
