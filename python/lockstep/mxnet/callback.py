# SPDX-License-Identifier: Apache-2.0
"""What `fit` calls after batches and epochs."""

import logging
import math
import sys
import time


def module_checkpoint(mod, prefix, period=1, save_optimizer_states=False):
    """Saves a module every so many epochs."""
    period = max(1, int(period))

    def callback(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix, period=1):
    """Saves symbol and parameters every so many epochs."""
    from lockstep.mxnet.model import save_checkpoint

    period = max(1, int(period))

    def callback(iter_no, sym, arg, aux):
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period, auto_reset=False):
    """Logs the metric every so many batches."""

    def callback(param):
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name,
                             value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """Logs samples a second, and the metric, every so many batches."""

    def __init__(self, batch_size, frequent=50, auto_reset=True):
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self.init, self.tic, self.last_count = False, 0.0, 0

    def __call__(self, param):
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
            return
        if count % self.frequent:
            return
        elapsed = time.time() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else float("inf")
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
        else:
            named = param.eval_metric.get_name_value()
            text = "".join(f"\t{name}={value:f}" for name, value in named)
            begin = 0 if not self.auto_reset else count - self.frequent
            if self.auto_reset:
                getattr(param.eval_metric, "reset_local", param.eval_metric.reset)()
            logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, begin,
                         count, speed, text)
        self.tic = time.time()


class ProgressBar:
    """A bar of how many batches are done."""

    def __init__(self, total, length=80):
        self.total, self.bar_len = total, length

    def __call__(self, param):
        filled = int(round(self.bar_len * param.nbatch / float(self.total)))
        percent = math.ceil(100.0 * param.nbatch / float(self.total))
        sys.stdout.write(f"[{'=' * filled}{'-' * (self.bar_len - filled)}] {percent}%\r")


class LogValidationMetricsCallback:
    """Logs the metric of the validation at the end of an epoch."""

    def __call__(self, param):
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
