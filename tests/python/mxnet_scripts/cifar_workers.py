# SPDX-License-Identifier: Apache-2.0
"""A residual net on several workers: every worker has its own part of the pictures."""

import argparse
import random

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision

parser = argparse.ArgumentParser()
parser.add_argument("--kvstore", default="dist_sync")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()

store = mx.kv.create(args.kvstore)
mx.random.seed(1)


class SplitSampler(gluon.data.sampler.Sampler):
    """The part of the positions that belongs to one worker."""

    def __init__(self, length, num_parts=1, part_index=0):
        self.part_len = length // num_parts
        self.start = self.part_len * part_index
        self.end = self.start + self.part_len

    def __iter__(self):
        indices = list(range(self.start, self.end))
        random.Random(3).shuffle(indices)
        return iter(indices)

    def __len__(self):
        return self.part_len


rng = np.random.default_rng(5)
labels = rng.integers(0, 4, 64).astype("float32")
pictures = rng.normal(size=(64, 3, 32, 32)).astype("float32") * 0.3
for picture, label in zip(pictures, labels):
    picture[int(label) % 3, 8 * int(label) // 2:8 * int(label) // 2 + 12] += 2.0
dataset = gluon.data.ArrayDataset(mx.nd.array(pictures), mx.nd.array(labels))
loader = gluon.data.DataLoader(dataset, args.batch, last_batch="discard",
                               sampler=SplitSampler(64, store.num_workers, store.rank))

net = vision.resnet18_v1(classes=4)
net.initialize(mx.init.Xavier(), ctx=mx.cpu())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003}, kvstore=store)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
step, losses = 0, []
while step < args.steps:
    for data, label in loader:
        with autograd.record():
            loss = loss_fn(net(data), label)
        loss.backward()
        trainer.step(data.shape[0] * store.num_workers)
        losses.append(loss.mean().asscalar())
        step += 1
        if step == args.steps:
            break
weights = sum(float(p.data().astype("float64").sum().asscalar())
              for p in net.collect_params().values() if p.grad_req != "null")
print(f"worker {store.rank} of {store.num_workers}: first {losses[0]:.4f} last {losses[-1]:.4f} "
      f"weights {weights:.9f}", flush=True)
