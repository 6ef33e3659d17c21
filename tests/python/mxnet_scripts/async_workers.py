# SPDX-License-Identifier: Apache-2.0
"""Workers that do not wait for each other: the servers update the parameters with each gradient as
it comes."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

store = mx.kv.create("dist_async")
mx.random.seed(1 + store.rank)  # the first worker's parameters are everybody's
rng = np.random.default_rng(0)
centres = rng.normal(0, 3, (4, 10))
labels = rng.integers(0, 4, 400)
data = (centres[labels] + rng.normal(size=(400, 10))).astype("float32")
own = slice(store.rank, None, store.num_workers)
loader = gluon.data.DataLoader(gluon.data.ArrayDataset(data[own], labels[own]), batch_size=20,
                               shuffle=True, num_workers=1)

net = gluon.nn.Dense(4)
net.initialize(mx.init.Xavier(), ctx=mx.cpu())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.5},
                        kvstore=store)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(6):
    for x, y in loader:
        with autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
accuracy = mx.metric.Accuracy()
accuracy.update(mx.nd.array(labels), net(mx.nd.array(data)))
print(f"worker {store.rank} of {store.num_workers} by {store.type}: "
      f"accuracy {accuracy.get()[1]:.3f}", flush=True)
