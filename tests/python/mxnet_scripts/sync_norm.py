# SPDX-License-Identifier: Apache-2.0
"""Each worker has a half of a batch; SyncBatchNorm gives what BatchNorm gives on the whole."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
rng = np.random.default_rng(3)
x, heads = (nd.array(rng.normal(1.0, 2.0, size=(6, 3, 4, 4))) for _ in range(2))


def run(norm, x, heads):
    norm.initialize()
    x.attach_grad()
    with autograd.record():
        y = norm(x)
    y.backward(heads)
    return [a.asnumpy() for a in (y, x.grad, norm.running_mean.data(), norm.running_var.data())]


own = slice(6 // workers * rank, 6 // workers * (rank + 1))
whole = run(nn.BatchNorm(), x.copy(), heads)
part = run(gluon.contrib.nn.SyncBatchNorm(num_devices=workers), x[own].copy(), heads[own])
for got, wanted in zip(part, (whole[0][own], whole[1][own], whole[2], whole[3])):
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
print("worker", rank, "agrees")
