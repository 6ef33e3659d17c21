# SPDX-License-Identifier: Apache-2.0
"""Ratings by users and items: embeddings, their product, an iterator over arrays."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(4)
np.random.seed(4)
USERS, ITEMS, RANK = 30, 40, 4


class MatrixFactorization(gluon.HybridBlock):
    """The product of a user's and an item's vector, and a bias of each."""

    def __init__(self, users, items, rank, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.user = nn.Embedding(users, rank, weight_initializer=mx.init.Normal(0.1))
            self.item = nn.Embedding(items, rank, weight_initializer=mx.init.Normal(0.1))
            self.user_bias = nn.Embedding(users, 1, weight_initializer="zeros")
            self.item_bias = nn.Embedding(items, 1, weight_initializer="zeros")

    def hybrid_forward(self, F, user, item):
        score = F.sum(self.user(user) * self.item(item), axis=1)
        return score + self.user_bias(user).flatten().reshape((-1,)) + F.reshape(
            self.item_bias(item), shape=(-1,))


rng = np.random.default_rng(1)
p, q = rng.normal(size=(USERS, RANK)), rng.normal(size=(ITEMS, RANK))
user = rng.integers(0, USERS, 2000).astype("float32")
item = rng.integers(0, ITEMS, 2000).astype("float32")
score = (p[user.astype(int)] * q[item.astype(int)]).sum(axis=1).astype("float32")
train = gluon.data.DataLoader(gluon.data.ArrayDataset(user, item, score), batch_size=100,
                              shuffle=True)
net = MatrixFactorization(USERS, ITEMS, RANK)
net.initialize(ctx=mx.cpu())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), mx.optimizer.Adam(learning_rate=0.05))
loss_fn = gluon.loss.L2Loss()
rmse = mx.metric.RMSE()
for epoch in range(12):
    rmse.reset()
    for u, i, s in train:
        with autograd.record():
            made = net(u, i)
            loss = loss_fn(made, s)
        loss.backward()
        trainer.step(u.shape[0])
        rmse.update(s, made)
    if epoch in (0, 11):
        print(f"epoch {epoch} rmse {rmse.get()[1]:.4f}", flush=True)
