# SPDX-License-Identifier: Apache-2.0
"""A recipe's training step in PyTorch: forward, loss, backward and SGD with momentum."""

import time

import torch

from recipes import RECIPES


def memory(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass  # then the peak includes the import, which is below a step's


class Step:
    """One recipe's training step on one generated batch."""

    def __init__(self, name, channels_last, seed=1, batch=None, wrap=lambda model: model):
        torch.manual_seed(seed)
        recipe = RECIPES[name]
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.batch = batch or recipe.batch
        model = recipe.model()
        if recipe.image:
            model = model.to(memory_format=self.layout)
        self.model = wrap(model)
        reset_peak()
        self.idle = memory("VmRSS")
        self.loss = recipe.loss
        inputs = recipe.inputs(self.batch)
        self.inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.labels = recipe.labels(self.batch)
        if recipe.image:
            self.inputs = tuple(x.contiguous(memory_format=self.layout) for x in self.inputs)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model(*self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def window(self, seconds):
        """Samples a second over at least so many seconds."""
        steps = 0
        start = time.perf_counter()
        while True:
            self.run()
            steps += 1
            spent = time.perf_counter() - start
            if spent >= seconds:
                return steps * self.batch / spent

    def facts(self):
        parameters = sum(p.numel() * p.element_size() for p in self.model.parameters())
        return {
            "batch": self.batch,
            "layout": "channels-last" if self.layout is torch.channels_last else "contiguous",
            "parameter_bytes": parameters,
            "peak_rss_bytes_above_idle": memory("VmHWM") - self.idle,
        }
