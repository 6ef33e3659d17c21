# SPDX-License-Identifier: Apache-2.0
"""The Trainer: nets, losses and schedules written in Python run in the deterministic step.

>>> import numpy as np
>>> import lockstep as ls
>>> x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
>>> y = (x.sum(axis=1) > 0).astype("int64")
>>> trainer = ls.Trainer(ls.nn.dense(2), ls.nn.SoftmaxCrossEntropyLoss(),
...                      ls.optim.sgd(learning_rate=0.5), global_batch=32)
>>> result = trainer.fit((x, y), epochs=20)
>>> result.steps
40
>>> trainer.evaluate((x, y)).accuracy > 0.9
True
"""

from lockstep._core import train as _train
from lockstep._core.train import (EpochEvent, Evaluation, EvaluationRecord, FitContext, FitResult,
                                  StepEvent, Trainer, best_model, early_stopping, print_warnings,
                                  record_metrics)
from lockstep._html import run_html
from lockstep._notebook import NotebookProgress, in_notebook

__all__ = ["Callback", "EpochEvent", "Evaluation", "EvaluationRecord", "FitContext", "FitResult",
           "StepEvent", "Trainer", "best_model", "early_stopping", "on_epoch", "on_evaluation",
           "on_step", "print_warnings", "record_metrics", "show_progress"]


class Callback:
    """Is told what happens in a run; subclasses have the methods that they care for:
    on_train_begin(context), on_step_end(context, event), on_epoch_end(context, event),
    on_evaluation(context, evaluation), on_warning(context, line), on_train_end(context, result).
    """

    wants_predictions = False


def _one(method, function):
    made = Callback()
    setattr(made, method, function)
    return made


def on_step(function):
    """Calls function(context, event) after every step."""
    return _one("on_step_end", function)


def on_epoch(function):
    """Calls function(context, event) after every epoch."""
    return _one("on_epoch_end", function)


def on_evaluation(function):
    """Calls function(context, evaluation) after every evaluation."""
    return _one("on_evaluation", function)


def show_progress():
    """A bar with the loss, the rate and the time that is left: on the terminal, or in the notebook
    that this is run in."""
    return NotebookProgress() if in_notebook() else _train.show_progress()


def _fit(self, dataset, *, epochs=1, steps=0, transform=None, sampler=None, schedule=None,
         callbacks=(), validation=None, validation_transform=None, validation_batch=0, metrics=(),
         train_metrics=(), train_metric_samples=0, evaluate_every=0, checkpoints="",
         checkpoint_every=0, keep_last=3, monitor=None, resume=False, loader_threads=1, prefetch=4,
         skip_bad=False):
    """One run from its first step, or from a checkpoint, to its end; the net has the result.

    `transform` changes a sample's first field, `schedule` is one of `lockstep.optim` or a function
    of the step, `checkpoints` a folder, `monitor` a metric's name or (name, maximize).
    """
    given = dict(locals())
    del given["self"], given["dataset"]
    return self._fit(dataset, **given)


# Python's own errors about the arguments have this name.
_fit.__name__, _fit.__qualname__ = "fit", "Trainer.fit"
Trainer.fit = _fit
FitResult._repr_html_ = lambda self: run_html(self)
