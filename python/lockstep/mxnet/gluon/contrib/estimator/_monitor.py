# SPDX-License-Identifier: Apache-2.0
"""Whether a metric has become better."""

import warnings

import numpy as np

from lockstep.mxnet.metric import CompositeEvalMetric, EvalMetric


class Monitor:
    """A metric that is watched, and which of two values of it is the better one."""

    def __init__(self, handler, metric, mode):
        if not isinstance(metric, EvalMetric) or isinstance(metric, CompositeEvalMetric):
            raise ValueError(f"{handler}: the monitor is {metric!r}, expected one of the "
                             "estimator's train_metrics or val_metrics")
        if mode not in ("auto", "min", "max"):
            warnings.warn(f"{handler}: there is no mode '{mode}' (there are: auto, min, max); auto "
                          "is used", RuntimeWarning)
            mode = "auto"
        self.metric = metric
        self.better = {"min": np.less, "max": np.greater}.get(mode) or self._by_name(handler)

    def _by_name(self, handler):
        """Accuracies and F1 grow, what else there is shrinks."""
        name = self.metric.get()[0]
        grows = any(part in name.lower() for part in ("acc", "f1"))
        warnings.warn(f"{handler}: '{name}' is better where it is "
                      f"{'greater' if grows else 'less'}; mode='min' or mode='max' says so")
        return np.greater if grows else np.less

    @property
    def worst(self):
        """What every value is better than."""
        return np.inf if self.better is np.less else -np.inf

    def value(self):
        """The metric's value, or None where nothing has updated it."""
        name, value = self.metric.get()
        if np.isnan(value):
            warnings.warn(f"estimator: {name} is not updated; the monitor is one of the estimator's "
                          "train_metrics or val_metrics", RuntimeWarning)
            return None
        return value
