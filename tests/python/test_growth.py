# SPDX-License-Identifier: Apache-2.0
"""What is dropped is gone: neither loops nor nets leave anything behind."""

import gc

import numpy as np

import lockstep as ls
from lockstep import autograd, nn, optim


class Net(nn.Block):
    def __init__(self):
        super().__init__()
        self.hidden = nn.dense(8, activation="relu")
        self.out = nn.dense(2)
        self.scale = nn.Parameter((2,), init=nn.init.one())

    def forward(self, x):
        return self.out(self.hidden(x)) * self.scale


def resident_kb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4


def growth(action, warm_up, count):
    """(kilobytes of the process, bytes of tensors) that `count` more of them leave."""
    for _ in range(warm_up):
        action()
    gc.collect()
    before = resident_kb(), ls.memory_stats()["live_bytes"]
    for _ in range(count):
        action()
    gc.collect()
    return resident_kb() - before[0], ls.memory_stats()["live_bytes"] - before[1]


def test_ten_thousand_eager_steps_leave_nothing():
    net, loss_of = Net(), nn.SoftmaxCrossEntropyLoss()
    net.initialize()
    labels = ls.tensor([0, 1, 0, 1])
    net(np.ones((4, 3), "float32"))
    updater = optim.Updater(net, optim.sgd(learning_rate=0.01))

    def step():
        with autograd.record():
            loss = loss_of(net(np.ones((4, 3), "float32")), labels)
        loss.backward()
        updater.step(4)

    kilobytes, live = growth(step, 1000, 10000)
    assert kilobytes < 1024 and live == 0


def test_a_thousand_nets_leave_nothing():
    x = ls.ones((4, 3))

    def make():
        net = nn.sequential(Net(), Net())
        net.initialize()
        net.hybridize()
        net(x)

    kilobytes, live = growth(make, 100, 1000)
    assert kilobytes < 1024 and live == 0
