# SPDX-License-Identifier: Apache-2.0
"""Shows what the nodes of a symbol compute while it is trained."""

import logging
import re

from lockstep.mxnet.ndarray import NDArray


def _mean_size(x):
    return x.astype("float32").square().mean().sqrt()


class Monitor:
    """Every `interval` batches, a statistic of what each node computes and of each parameter."""

    def __init__(self, interval, stat_func=None, pattern=".*", sort=False, monitor_all=False):
        self.stat_func = stat_func or _mean_size
        self.interval, self.sort, self.monitor_all = interval, sort, monitor_all
        self.activated, self.queue, self.step, self.exes = False, [], 0, []
        self.re_prog = re.compile(pattern)

    def stat_helper(self, name, array):
        """Notes the statistic of an array."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe):
        """Watches an executor."""
        exe.set_monitor_callback(self._watch, self.monitor_all)
        if exe not in self.exes:
            self.exes.append(exe)

    def _watch(self, name, array):
        self.stat_helper(name, array)

    def tic(self):
        """Before a batch."""
        if self.step % self.interval == 0:
            self.queue, self.activated = [], True
        self.step += 1

    def toc(self):
        """After a batch: (step, name, text) of what was noted."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in exe.arg_dict.items():
                self.stat_helper(name, array)
            for name, array in exe.aux_dict.items():
                self.stat_helper(name, array)
            for name, array in exe.grad_dict.items():
                if array is not None:
                    self.stat_helper(name + "_grad", array)
        self.activated = False
        found = sorted(self.queue, key=lambda item: item[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(values)) for step, name, values in found]

    def toc_print(self):
        """After a batch: logs what was noted."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _text(values):
    values = values if isinstance(values, (list, tuple)) else [values]
    made = []
    for value in values:
        if isinstance(value, NDArray):
            value = value.asscalar() if value.size == 1 else value.asnumpy()
        made.append(str(value))
    return "\t".join(made) + "\t"
