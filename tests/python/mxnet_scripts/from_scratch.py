# SPDX-License-Identifier: Apache-2.0
"""A book's chapters: everything from arrays, then the same with Gluon."""

import mxnet as mx
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import data as gdata
from mxnet.gluon import loss as gloss
from mxnet.gluon import nn

mx.random.seed(3)

# Automatic differentiation.
x = nd.arange(4).reshape((4, 1))
x.attach_grad()
with autograd.record():
    y = 2 * nd.dot(x.T, x)
y.backward()
assert (x.grad - 4 * x).norm().asscalar() == 0


def f(a):
    b = a * 2
    while b.norm().asscalar() < 1000:
        b = b * 2
    return b if b.sum().asscalar() > 0 else 100 * b


a = nd.random.normal(shape=1)
a.attach_grad()
with autograd.record():
    c = f(a)
c.backward()
assert a.grad == c / a

# Linear regression from scratch.
num_inputs, num_examples = 2, 1000
true_w, true_b = nd.array([2, -3.4]), 4.2
features = nd.random.normal(scale=1, shape=(num_examples, num_inputs))
labels = nd.dot(features, true_w) + true_b
labels += nd.random.normal(scale=0.01, shape=labels.shape)


def data_iter(batch_size, features, labels):
    indices = nd.shuffle(nd.arange(len(features)))
    for i in range(0, len(features), batch_size):
        j = indices[i:i + batch_size]
        yield features.take(j), labels.take(j)


def linreg(X, w, b):
    return nd.dot(X, w) + b


def squared_loss(y_hat, y):
    return (y_hat - y.reshape(y_hat.shape)) ** 2 / 2


def sgd(params, lr, batch_size):
    for param in params:
        param[:] = param - lr * param.grad / batch_size


w = nd.random.normal(scale=0.01, shape=(num_inputs, 1))
b = nd.zeros(shape=(1,))
w.attach_grad()
b.attach_grad()
for epoch in range(3):
    for X, y in data_iter(10, features, labels):
        with autograd.record():
            loss = squared_loss(linreg(X, w, b), y)
        loss.backward()
        sgd([w, b], 0.03, 10)
print(f"scratch loss {squared_loss(linreg(features, w, b), labels).mean().asscalar():.6f} w "
      f"{w[0].asscalar():.2f} {w[1].asscalar():.2f} b {b.asscalar():.2f}")

# The same with Gluon.
net = nn.Sequential()
net.add(nn.Dense(1))
net.initialize(init.Normal(sigma=0.01))
loader = gdata.DataLoader(gdata.ArrayDataset(features, labels), 10, shuffle=True)
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.03})
l2 = gloss.L2Loss()
for epoch in range(3):
    for X, y in loader:
        with autograd.record():
            loss = l2(net(X), y)
        loss.backward()
        trainer.step(10)
print(f"gluon loss {l2(net(features), labels).mean().asscalar():.6f} "
      f"w {net[0].weight.data()[0, 0].asscalar():.2f}")

# Softmax regression and a convolution from scratch.
W = nd.random.normal(scale=0.01, shape=(16, 3))
bias = nd.zeros(3)
for param in (W, bias):
    param.attach_grad()


def softmax(X):
    X_exp = X.exp()
    return X_exp / X_exp.sum(axis=1, keepdims=True)


def cross_entropy(y_hat, y):
    return -nd.pick(y_hat, y).log()


X = nd.random.uniform(shape=(300, 16))
y = nd.argmax(nd.stack(X[:, :5].sum(axis=1), X[:, 5:10].sum(axis=1), X[:, 10:15].sum(axis=1),
                       axis=1), axis=1)
for _ in range(100):
    with autograd.record():
        loss = cross_entropy(softmax(nd.dot(X.reshape((-1, 16)), W) + bias), y).sum()
    loss.backward()
    sgd([W, bias], 1.0, 300)
accuracy = (softmax(nd.dot(X, W) + bias).argmax(axis=1) == y.astype("float32")).mean().asscalar()
print(f"softmax accuracy {accuracy:.3f}")


def corr2d(X, K):
    h, w = K.shape
    Y = nd.zeros((X.shape[0] - h + 1, X.shape[1] - w + 1))
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = (X[i:i + h, j:j + w] * K).sum()
    return Y


picture = nd.ones((6, 8))
picture[:, 2:6] = 0
edges = corr2d(picture, nd.array([[1, -1]]))
conv2d = nn.Conv2D(1, kernel_size=(1, 2))
conv2d.initialize()
for i in range(10):
    with autograd.record():
        made = conv2d(picture.reshape((1, 1, 6, 8)))
        error = (made - edges.reshape((1, 1, 6, 7))) ** 2
    error.backward()
    conv2d.weight.data()[:] -= 3e-2 * conv2d.weight.grad()
print(f"kernel error {error.sum().asscalar():.4f}")
