# SPDX-License-Identifier: Apache-2.0
"""A DCGAN: two nets, two trainers, transposed convolutions, labels of ones and zeros."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(2)
BATCH, LATENT, FILTERS = 16, 12, 8
ctx = mx.cpu()

net_g = nn.HybridSequential(prefix="generator_")
with net_g.name_scope():
    net_g.add(nn.Conv2DTranspose(FILTERS * 2, 4, 1, 0, use_bias=False), nn.BatchNorm(),
              nn.Activation("relu"),
              nn.Conv2DTranspose(FILTERS, 4, 2, 1, use_bias=False), nn.BatchNorm(),
              nn.Activation("relu"),
              nn.Conv2DTranspose(1, 4, 2, 1, use_bias=False), nn.Activation("tanh"))
net_d = nn.HybridSequential(prefix="discriminator_")
with net_d.name_scope():
    net_d.add(nn.Conv2D(FILTERS, 4, 2, 1, use_bias=False), nn.LeakyReLU(0.2),
              nn.Conv2D(FILTERS * 2, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2),
              nn.Conv2D(1, 4, 1, 0, use_bias=False))
net_g.initialize(mx.init.Normal(0.02), ctx=ctx)
net_d.initialize(mx.init.Normal(0.02), ctx=ctx)
net_g.hybridize()
net_d.hybridize()
options = {"learning_rate": 0.002, "beta1": 0.5}
trainer_g = gluon.Trainer(net_g.collect_params(), "adam", options)
trainer_d = gluon.Trainer(net_d.collect_params(), "adam", options)
loss_fn = gluon.loss.SigmoidBinaryCrossEntropyLoss()
rng = np.random.default_rng(0)
real_label, fake_label = nd.ones((BATCH,), ctx=ctx), nd.zeros((BATCH,), ctx=ctx)


def facc(label, pred):
    return ((1 / (1 + np.exp(-pred.ravel())) > 0.5) == label.ravel()).mean()


metric = mx.metric.CustomMetric(facc)
first = None
for step in range(24):
    # Real pictures are bright on the left.
    real = np.where(np.arange(16) < 8, 0.8, -0.8) + rng.normal(0, 0.05, (BATCH, 1, 16, 16))
    data = nd.array(real, ctx=ctx)
    latent = mx.nd.random.normal(0, 1, shape=(BATCH, LATENT, 1, 1), ctx=ctx)
    with autograd.record():
        output = net_d(data).reshape((-1, 1))
        error_real = loss_fn(output, real_label)
        metric.update([real_label], [output])
        fake = net_g(latent)
        output = net_d(fake.detach()).reshape((-1, 1))
        error_fake = loss_fn(output, fake_label)
        error_d = error_real + error_fake
    error_d.backward()
    metric.update([fake_label], [output])
    trainer_d.step(BATCH)
    with autograd.record():
        fake = net_g(latent)
        output = net_d(fake).reshape((-1, 1))
        error_g = loss_fn(output, real_label)
    error_g.backward()
    trainer_g.step(BATCH)
    if first is None:
        first = nd.mean(error_d).asscalar()
fake = net_g(latent)
assert fake.shape == (BATCH, 1, 16, 16)
sides = fake[:, :, :, :8].mean().asscalar() - fake[:, :, :, 8:].mean().asscalar()
print(f"discriminator first {first:.4f} last {nd.mean(error_d).asscalar():.4f} accuracy "
      f"{metric.get()[1]:.3f} left minus right {sides:.4f}")
