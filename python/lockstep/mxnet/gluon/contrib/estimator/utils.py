# SPDX-License-Identifier: Apache-2.0
"""Which metrics an estimator has."""

from lockstep.mxnet.gluon.loss import SoftmaxCrossEntropyLoss
from lockstep.mxnet.metric import Accuracy, CompositeEvalMetric, EvalMetric


def check_metrics(metrics):
    """A list of simple metrics, of one, several, a composite or None."""
    if isinstance(metrics, CompositeEvalMetric):
        return [part for metric in metrics.metrics for part in check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    for metric in metrics:
        if not isinstance(metric, EvalMetric):
            raise ValueError(f"estimator: expected metrics of mx.metric, got {metric!r}")
    return metrics


def check_known(handler, known):
    """Raises where a handler looks at a metric that nobody updates."""
    for name in dir(handler):
        value = getattr(handler, name) if "metric" in name else None
        for metric in value if isinstance(value, list) else [value] if value else []:
            if metric not in known:
                raise ValueError(
                    f"estimator: {type(handler).__name__} looks at {metric}, which is none of the "
                    "estimator's: take one of train_metrics or val_metrics")


def metric_for(loss):
    """What a loss is shown with, where it is clear: classes are counted."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
