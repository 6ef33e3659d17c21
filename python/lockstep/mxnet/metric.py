# SPDX-License-Identifier: Apache-2.0
"""mx.metric: numbers that tell how well predictions fit labels."""

import json
import math

import numpy as np

from lockstep.mxnet import _hints
from lockstep.mxnet.base import as_list, attributes_of, nearest
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["Accuracy", "CompositeEvalMetric", "CrossEntropy", "CustomMetric", "EvalMetric", "F1",
           "Loss", "MAE", "MCC", "MSE", "NegativeLogLikelihood", "PCC", "PearsonCorrelation",
           "Perplexity", "RMSE", "TopKAccuracy", "check_label_shapes", "create", "np", "register"]
_numpy = np
_REGISTRY = {}


def register(klass):
    """Makes a metric known by its class's name."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def alias(*names):
    """Further names."""
    def decorate(klass):
        for name in names:
            _REGISTRY[name.lower()] = klass
        return klass

    return decorate


def create(metric, *args, **kwargs):
    """A metric of a name, a function, a list of them, or itself."""
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, (list, tuple)):
        made = CompositeEvalMetric()
        for one in metric:
            made.add(create(one, *args, **kwargs))
        return made
    if callable(metric) and not isinstance(metric, type):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, str) and metric.startswith("{"):
        config = json.loads(metric)
        return create(config.pop("metric"), **config)
    found = _REGISTRY.get(str(metric).lower())
    if found is None:
        raise ValueError(f"metric: there is no '{metric}'{nearest(str(metric), _REGISTRY)} (there "
                         f"are: {', '.join(sorted(_REGISTRY))})")
    return found(*args, **kwargs)


def _array(value):
    return value.asnumpy() if isinstance(value, NDArray) else _numpy.asarray(value)


def check_label_shapes(labels, preds, wrap=False, shape=False):
    """Raises where there are not as many labels as predictions."""
    left, right = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if left != right:
        raise ValueError(f"Shape of labels {left} does not match shape of predictions {right}")
    if wrap:
        labels, preds = as_list(labels), as_list(preds)
    return labels, preds


class EvalMetric:
    """A sum over instances since reset()."""

    __getattr__ = _hints.lookup(_hints.METRIC)

    def __init__(self, name, output_names=None, label_names=None, **kwargs):
        self.name = str(name)
        self.output_names, self.label_names = output_names, label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self):
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self):
        """What create() makes it of."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name,
                "output_names": self.output_names, "label_names": self.label_names}

    def update_dict(self, label, pred):
        """update() with values by name."""
        preds = [pred[n] for n in self.output_names] if self.output_names is not None else list(
            pred.values())
        labels = [label[n] for n in self.label_names] if self.label_names is not None else list(
            label.values())
        self.update(labels, preds)

    def update(self, labels, preds):
        """Takes a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def reset(self):
        """Begins anew."""
        self.num_inst, self.sum_metric = 0, 0.0
        self.global_num_inst, self.global_sum_metric = 0, 0.0

    def reset_local(self):
        """Begins anew, but for the global numbers."""
        self.num_inst, self.sum_metric = 0, 0.0

    def _add(self, total, count):
        self.sum_metric += total
        self.global_sum_metric += total
        self.num_inst += count
        self.global_num_inst += count

    def _value(self, total, count):
        return total / count if count else float("nan")

    def get(self):
        """(name, value)"""
        return self.name, self._value(self.sum_metric, self.num_inst)

    def get_global(self):
        """(name, value) since reset(); of a metric that does not count so far, since reset_local()."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def _named(self, name, value):
        return list(zip(as_list(name), as_list(value)))

    def get_name_value(self):
        """[(name, value)]"""
        return self._named(*self.get())

    def get_global_name_value(self):
        """[(name, value)] since reset()."""
        if not self._has_global_stats:
            return self.get_name_value()
        return self._named(*self.get_global())


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics."""

    def __init__(self, metrics=None, name="composite", output_names=None, label_names=None):
        self.metrics = [create(m) for m in metrics or []]
        super().__init__(name, output_names, label_names)

    def add(self, metric):
        """One more."""
        self.metrics.append(create(metric))

    def get_metric(self, index):
        """The one of a number."""
        try:
            return self.metrics[index]
        except IndexError:
            return ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")

    def update_dict(self, labels, preds):
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self):
        for metric in self.metrics:
            metric.reset()

    def reset_local(self):
        for metric in self.metrics:
            metric.reset_local()

    def _all(self, method):
        names, values = [], []
        for metric in self.metrics:
            name, value = getattr(metric, method)()
            names.extend(as_list(name))
            values.extend(as_list(value))
        return names, values

    def get(self):
        return self._all("get")

    def get_global(self):
        return self._all("get_global")


@register
@alias("acc")
class Accuracy(EvalMetric):
    """How often the class is right."""

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _array(label), _array(pred)
            if pred.shape != label.shape:
                pred = pred.argmax(axis=self.axis)
            label, pred = label.astype("int32").ravel(), pred.astype("int32").ravel()
            check_label_shapes(label, pred)
            self._add(int((pred == label).sum()), len(pred))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """How often the class is among the k likeliest."""

    def __init__(self, top_k=1, name="top_k_accuracy", output_names=None, label_names=None):
        if top_k <= 1:
            raise AssertionError("Please use Accuracy if top_k is no more than 1")
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _array(label).astype("int32").ravel(), _array(pred)
            if pred.ndim == 1:
                self._add(int((pred.astype("int32") == label).sum()), len(label))
                continue
            best = _numpy.argsort(pred.astype("float32"), axis=1)[:, -self.top_k:]
            self._add(int((best == label[:, None]).any(axis=1).sum()), len(label))


class _BinaryCounts:
    """True and false positives and negatives."""

    def __init__(self):
        self.tp = self.fp = self.tn = self.fn = 0

    def update(self, label, pred):
        """Takes a batch."""
        pred, label = _array(pred), _array(label).astype("int32").ravel()
        guess = _numpy.argmax(pred, axis=1) if pred.ndim > 1 else (pred > 0.5).astype("int32")
        if len(_numpy.unique(label)) > 2:
            raise ValueError("F1 and MCC currently only support binary classification.")
        self.tp += int(((guess == 1) & (label == 1)).sum())
        self.fp += int(((guess == 1) & (label == 0)).sum())
        self.tn += int(((guess == 0) & (label == 0)).sum())
        self.fn += int(((guess == 0) & (label == 1)).sum())

    @property
    def total(self):
        """How many there were."""
        return self.tp + self.fp + self.tn + self.fn

    def f1(self):
        """The harmonic mean of precision and recall."""
        both = 2 * self.tp + self.fp + self.fn
        return 2.0 * self.tp / both if both else 0.0

    def mcc(self):
        """Matthews's correlation."""
        if not self.total:
            return 0.0
        terms = (self.tp + self.fp, self.tp + self.fn, self.tn + self.fp, self.tn + self.fn)
        divisor = math.prod(float(t) for t in terms if t)
        return (self.tp * self.tn - self.fp * self.fn) / math.sqrt(divisor)


class _Binary(EvalMetric):
    """A number of the counts, over all batches or as a mean of batches."""

    _measure = "f1"

    def __init__(self, name, output_names=None, label_names=None, average="macro"):
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    def reset(self):
        self._counts, self._all_counts = _BinaryCounts(), _BinaryCounts()
        super().reset()

    def reset_local(self):
        self._counts = _BinaryCounts()
        super().reset_local()

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._counts.update(label, pred)
            self._all_counts.update(label, pred)
        value = getattr(self._counts, self._measure)()
        if self.average == "macro":
            self._add(value, 1)
            self._counts = _BinaryCounts()
            return
        self.num_inst, self.global_num_inst = self._counts.total, self._all_counts.total
        self.sum_metric = value * self.num_inst
        self.global_sum_metric = getattr(self._all_counts, self._measure)() * self.global_num_inst


@register
class F1(_Binary):
    """The harmonic mean of precision and recall, of two classes."""

    def __init__(self, name="f1", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_Binary):
    """Matthews's correlation, of two classes."""

    _measure = "mcc"

    def __init__(self, name="mcc", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class Perplexity(EvalMetric):
    """exp of the mean -log of the label's probability."""

    def __init__(self, ignore_label=None, axis=-1, name="perplexity", output_names=None,
                 label_names=None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label,
                         has_global_stats=True)
        self.ignore_label, self.axis = ignore_label, axis

    def update(self, labels, preds):
        if len(labels) != len(preds):
            raise AssertionError("Perplexity: as many labels as predictions")
        loss, count = 0.0, 0
        for label, pred in zip(labels, preds):
            pred = _array(pred)
            label = _array(label).reshape(-1).astype("int64")
            rows = _numpy.moveaxis(pred, self.axis, -1).reshape(-1, pred.shape[self.axis])
            chosen = rows[_numpy.arange(len(label)), label]
            if self.ignore_label is not None:
                ignored = label == self.ignore_label
                count -= int(ignored.sum())
                chosen = _numpy.where(ignored, 1.0, chosen)
            loss -= float(_numpy.log(_numpy.maximum(1e-10, chosen)).sum())
            count += len(label)
        self._add(loss, count)

    def _value(self, total, count):
        return math.exp(total / count) if count else float("nan")


class _Difference(EvalMetric):
    """A mean over batches."""

    def _measure(self, label, pred):
        raise NotImplementedError

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _array(label), _array(pred)
            if label.ndim == 1:
                label = label.reshape(-1, 1)
            if pred.ndim == 1:
                pred = pred.reshape(-1, 1)
            self._add(float(self._measure(label, pred)), 1)


@register
class MAE(_Difference):
    """The mean size of the difference."""

    def __init__(self, name="mae", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _measure(self, label, pred):
        return _numpy.abs(label - pred).mean()


@register
class MSE(_Difference):
    """The mean square of the difference."""

    def __init__(self, name="mse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _measure(self, label, pred):
        return ((label - pred) ** 2).mean()


@register
class RMSE(_Difference):
    """The root of the mean square of the difference."""

    def __init__(self, name="rmse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _measure(self, label, pred):
        return math.sqrt(((label - pred) ** 2).mean())


@register
@alias("ce")
class CrossEntropy(EvalMetric):
    """The mean -log of the label's probability."""

    def __init__(self, eps=1e-12, name="cross-entropy", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _array(label).ravel().astype("int64"), _array(pred)
            if label.shape[0] != pred.shape[0]:
                raise AssertionError(f"{label.shape[0]} labels for {pred.shape[0]} predictions")
            chosen = pred[_numpy.arange(len(label)), label]
            self._add(float(-_numpy.log(chosen + self.eps).sum()), len(label))


@register
@alias("nll_loss", "nll-loss")
class NegativeLogLikelihood(CrossEntropy):
    """The same under another name."""

    def __init__(self, eps=1e-12, name="nll-loss", output_names=None, label_names=None):
        super().__init__(eps, name, output_names, label_names)


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """How predictions and labels go together."""

    def __init__(self, name="pearsonr", output_names=None, label_names=None, average="macro"):
        self.average, self._seen = average, []
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self):
        self._seen = []
        super().reset()

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, False, True)
            pair = (_array(label).ravel(), _array(pred).ravel())
            if self.average == "macro":
                self._add(float(_numpy.corrcoef(pair[1], pair[0])[0, 1]), 1)
                continue
            self._seen.append(pair)
            whole = [_numpy.concatenate(part) for part in zip(*self._seen)]
            self.sum_metric = self.global_sum_metric = float(
                _numpy.corrcoef(whole[1], whole[0])[0, 1])
            self.num_inst = self.global_num_inst = 1


@register
class PCC(EvalMetric):
    """The correlation of a confusion matrix, of any number of classes."""

    def __init__(self, name="pcc", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self):
        self._global_matrix = _numpy.zeros((2, 2))
        super().reset()
        self.reset_local()

    def reset_local(self):
        self._matrix = _numpy.zeros((2, 2))
        super().reset_local()

    @staticmethod
    def _grown(matrix, size):
        grow = max(size - len(matrix), 0)
        return _numpy.pad(matrix, ((0, grow), (0, grow)))

    @staticmethod
    def _correlation(matrix):
        n, x, y = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
        divisor = math.sqrt((n * n - (x * x).sum()) * (n * n - (y * y).sum()))
        return float((n * _numpy.trace(matrix) - (x * y).sum()) / divisor) if divisor else 0.0

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _array(label).astype("int32").ravel(), _array(pred)
            guess = pred.argmax(axis=1) if pred.shape != label.shape else pred.astype("int32")
            size = max(int(label.max()), int(guess.max())) + 1
            self._matrix = self._grown(self._matrix, size)
            self._global_matrix = self._grown(self._global_matrix, size)
            for matrix in (self._matrix, self._global_matrix):
                _numpy.add.at(matrix, (guess.ravel(), label), 1)
        self.sum_metric = self._correlation(self._matrix)
        self.global_sum_metric = self._correlation(self._global_matrix)
        self.num_inst = self.global_num_inst = 1


@register
class Loss(EvalMetric):
    """The mean of what is given as predictions."""

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _, preds):
        for pred in as_list(preds):
            pred = _array(pred)
            self._add(float(pred.sum()), pred.size)


@register
class Torch(Loss):
    """Loss under an old name."""

    def __init__(self, name="torch", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """Loss under an old name."""

    def __init__(self, name="caffe", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """feval(label, pred) gives a number, or (sum, count)."""

    def __init__(self, feval, name=None, allow_extra_outputs=False, output_names=None,
                 label_names=None):
        if name is None:
            name = feval.__name__
            if "<" in name:
                name = f"custom({name})"
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels, preds):
        labels, preds = as_list(labels), as_list(preds)
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for pred, label in zip(preds, labels):
            made = self._feval(_array(label), _array(pred))
            self._add(*(made if isinstance(made, tuple) else (made, 1)))


def np(numpy_feval, name=None, allow_extra_outputs=False):  # noqa: F811 - MXNet's name
    """A metric of a function on NumPy arrays."""
    def feval(label, pred):
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)


__getattr__ = attributes_of(globals(), _hints.METRICS)
