# SPDX-License-Identifier: Apache-2.0
"""Figures of merit over all samples since the last reset.

>>> import lockstep as ls
>>> accuracy = ls.metrics.metric("accuracy")
>>> accuracy.update(ls.tensor([0, 1]), ls.tensor([[0.9, 0.1], [0.8, 0.2]]))
>>> accuracy.get()
('accuracy', 0.5)
"""

from lockstep._core.metrics import Metric, custom, metric, metric_names

__all__ = ["Metric", "custom", "metric", "metric_names"]
