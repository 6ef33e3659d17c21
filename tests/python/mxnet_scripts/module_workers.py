# SPDX-License-Identifier: Apache-2.0
"""A symbol trained by a Module on several workers, each with its own part of the data; then the same
by Horovod's names."""

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")
rng = np.random.default_rng(0)
centres = rng.normal(0, 3, (4, 10))
labels = rng.integers(0, 4, 400)
data = (centres[labels] + rng.normal(size=(400, 10))).astype("float32")
share = 400 // store.num_workers
part = slice(store.rank * share, (store.rank + 1) * share)

net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
net = mx.sym.SoftmaxOutput(net, name="softmax")
module = mx.mod.Module(net)
mx.random.seed(1 + store.rank)  # the first worker's parameters are everybody's
module.fit(mx.io.NDArrayIter(data[part], labels[part], 40 // store.num_workers), num_epoch=3,
           kvstore=store, optimizer_params={"learning_rate": 0.1}, initializer=mx.init.Xavier())
weight = module.get_params()[0]["fc_weight"].asnumpy()
accuracy = dict(module.score(mx.io.NDArrayIter(data, labels, 40), "acc"))["accuracy"]
print(f"module {store.rank} {store.num_workers} {weight.tobytes().hex()[:64]} {accuracy:.3f}",
      flush=True)

hvd.init()
block = mx.gluon.nn.Dense(4, in_units=10)
block.initialize(mx.init.Xavier())
hvd.broadcast_parameters(block.collect_params())
trainer = hvd.DistributedTrainer(block.collect_params(), "sgd", {"learning_rate": 0.2})
loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
for _ in range(20):
    with mx.autograd.record():
        loss = loss_of(block(mx.nd.array(data[part])), mx.nd.array(labels[part]))
    loss.backward()
    trainer.step(share)
mean = hvd.allreduce(loss.mean()).asscalar()
weight = block.weight.data().asnumpy()
print(f"horovod {hvd.rank()} {hvd.size()} {weight.tobytes().hex()[:64]} {mean:.3f}", flush=True)
