# SPDX-License-Identifier: Apache-2.0
"""An LSTM with a conditional random field: Python's own control flow under record()."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import Block, nn, rnn

mx.random.seed(1)
START_TAG, STOP_TAG = "<START>", "<STOP>"


def argmax(vec):
    return int(nd.argmax(vec, axis=1).asscalar())


def log_sum_exp(vec):
    max_score = nd.max(vec).asscalar()
    return nd.log(nd.sum(nd.exp(vec - max_score))) + max_score


class BiLSTM_CRF(Block):
    """Scores of tags by an LSTM, and of a tag after another by a matrix."""

    def __init__(self, vocab_size, tag2idx, embedding_dim, hidden_dim):
        super().__init__()
        self.tag2idx, self.hidden_dim = tag2idx, hidden_dim
        self.tagset_size = len(tag2idx)
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = rnn.LSTM(hidden_dim // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Dense(self.tagset_size)
        self.transitions = self.params.get("crf_transition_matrix",
                                           shape=(self.tagset_size, self.tagset_size))
        self.hidden = self.init_hidden()

    def init_hidden(self):
        return [nd.random.normal(shape=(2, 1, self.hidden_dim // 2)),
                nd.random.normal(shape=(2, 1, self.hidden_dim // 2))]

    def _forward_alg(self, feats):
        alphas = [[-10000.0] * self.tagset_size]
        alphas[0][self.tag2idx[START_TAG]] = 0.0
        alphas = nd.array(alphas)
        for feat in feats:
            next_alphas = []
            for next_tag in range(self.tagset_size):
                emit = feat[next_tag].reshape((1, -1))
                trans = self.transitions.data()[next_tag].reshape((1, -1))
                next_alphas.append(log_sum_exp(alphas + trans + emit))
            alphas = nd.concat(*next_alphas, dim=0).reshape((1, -1))
        terminal = alphas + self.transitions.data()[self.tag2idx[STOP_TAG]]
        return log_sum_exp(terminal)

    def _get_lstm_features(self, sentence):
        self.hidden = self.init_hidden()
        embeds = self.word_embeds(sentence).reshape((sentence.shape[0], 1, -1))
        out, self.hidden = self.lstm(embeds, self.hidden)
        out = out.reshape((sentence.shape[0], self.hidden_dim))
        return nd.split(self.hidden2tag(out), num_outputs=out.shape[0], axis=0, squeeze_axis=True)

    def _score_sentence(self, feats, tags):
        score = nd.array([0])
        tags = nd.concat(nd.array([self.tag2idx[START_TAG]]), *tags, dim=0)
        for i, feat in enumerate(feats):
            to, at = int(tags[i + 1].asscalar()), int(tags[i].asscalar())
            score = score + self.transitions.data()[to, at] + feat[to]
        return score + self.transitions.data()[self.tag2idx[STOP_TAG],
                                               int(tags[int(tags.shape[0] - 1)].asscalar())]

    def _viterbi_decode(self, feats):
        backpointers = []
        vvars = nd.full((1, self.tagset_size), -10000.0)
        vvars[0, self.tag2idx[START_TAG]] = 0
        for feat in feats:
            pointers, scores = [], []
            for next_tag in range(self.tagset_size):
                next_var = vvars + self.transitions.data()[next_tag]
                best = argmax(next_var)
                pointers.append(best)
                scores.append(next_var[0, best])
            vvars = (nd.concat(*scores, dim=0) + feat).reshape((1, -1))
            backpointers.append(pointers)
        terminal = vvars + self.transitions.data()[self.tag2idx[STOP_TAG]]
        best = argmax(terminal)
        path = [best]
        for pointers in reversed(backpointers):
            best = pointers[best]
            path.append(best)
        assert path.pop() == self.tag2idx[START_TAG]
        path.reverse()
        return terminal[0, path[-1]], path

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)

    def forward(self, sentence):
        return self._viterbi_decode(self._get_lstm_features(sentence))


training = [("the wall street journal reported today that apple made money".split(),
             "B I I I O O O B O O".split()),
            ("georgia tech is a university in georgia".split(), "B I O O O O B".split())]
word2idx = {}
for sentence, _ in training:
    for word in sentence:
        word2idx.setdefault(word, len(word2idx))
tag2idx = {"B": 0, "I": 1, "O": 2, START_TAG: 3, STOP_TAG: 4}
model = BiLSTM_CRF(len(word2idx), tag2idx, 5, 4)
model.initialize(mx.init.Xavier(magnitude=2.24), ctx=mx.cpu())
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 1e-4})


def prepare(words, table):
    return nd.array([table[word] for word in words])


first = last = None
for epoch in range(25):
    total = 0.0
    for sentence, tags in training:
        with autograd.record():
            loss = model.neg_log_likelihood(prepare(sentence, word2idx), prepare(tags, tag2idx))
        loss.backward()
        trainer.step(1)
        total += loss.asscalar()
    first = total if first is None else first
    last = total
score, path = model(prepare(training[0][0], word2idx))
right = np.mean([p == tag2idx[t] for p, t in zip(path, training[0][1])])
print(f"first {first:.4f} last {last:.4f} right {right:.2f}")
