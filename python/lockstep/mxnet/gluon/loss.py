# SPDX-License-Identifier: Apache-2.0
"""gluon.loss: one number for each sample."""

import math

from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.gluon.block import HybridBlock

__all__ = ["CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss",
           "L2Loss", "LogisticLoss", "Loss", "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss",
           "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss", "SoftmaxCrossEntropyLoss",
           "SquaredHingeLoss", "TripletLoss"]


def _apply_weighting(F, loss, weight=None, sample_weight=None):  # noqa: N803
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        loss = loss * weight
    return loss


def _reshape_like(F, x, y):  # noqa: N803
    return x if getattr(x, "shape", 0) == getattr(y, "shape", 1) else F.reshape_like(x, y)


class Loss(HybridBlock):
    """A weight, and the axis of samples."""

    def __init__(self, weight, batch_axis, **kwargs):
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self):
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _finish(self, F, loss, sample_weight, weight=None):  # noqa: N803
        loss = _apply_weighting(F, loss, self._weight if weight is None else weight, sample_weight)
        if getattr(loss, "ndim", 2) == 1 and self._batch_axis == 0:
            return loss
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L2Loss(Loss):
    """Half the mean square of the difference."""

    def __init__(self, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        loss = F.square(_reshape_like(F, label, pred) - pred)
        return self._finish(F, loss, sample_weight, self._weight / 2)


class L1Loss(Loss):
    """The mean size of the difference."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        return self._finish(F, F.abs(_reshape_like(F, label, pred) - pred), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """-log of the probability of labels 0 to 1."""

    def __init__(self, from_sigmoid=False, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F, pred, label, sample_weight=None, pos_weight=None):  # noqa: N803
        label = _reshape_like(F, label, pred)
        if self._from_sigmoid:
            eps = 1e-12
            positive = F.log(pred + eps) * label
            if pos_weight is not None:
                positive = F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + eps) * (1.0 - label))
        elif pos_weight is None:
            loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        else:
            factor = 1 + F.broadcast_mul(pos_weight - 1, label)
            tail = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
            loss = pred - pred * label + factor * tail
        return self._finish(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """-log of the probability that softmax gives the label."""

    def __init__(self, axis=-1, sparse_label=True, from_logits=False, weight=None, batch_axis=0,
                 **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        if sample_weight is None and self._is_plain(pred, label):
            return self._finish(F, F._softmax_cross_entropy_rows(pred, label), None)
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * _reshape_like(F, label, pred), axis=self._axis, keepdims=True)
        return self._finish(F, loss, sample_weight)

    def _is_plain(self, pred, label):
        """Whether one op of the engine computes it: a row of scores and a class number each."""
        if self._from_logits or not self._sparse_label or getattr(pred, "ndim", 0) != 2:
            return False
        return self._axis in (-1, 1) and getattr(label, "shape", None) in (
            pred.shape[:1], (pred.shape[0], 1))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """How far distributions are apart."""

    def __init__(self, from_logits=True, axis=-1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        return self._finish(F, label * (F.log(label + 1e-12) - pred), sample_weight)


class CTCLoss(Loss):
    """Connectionist temporal classification; the last class is the blank, -1 pads labels."""

    def __init__(self, layout="NTC", label_layout="NT", weight=None, **kwargs):
        if layout not in ("NTC", "TNC"):
            raise AssertionError(f"Only 'NTC' and 'TNC' layouts for pred are supported. Got: "
                                 f"{layout}")
        if label_layout not in ("NT", "TN"):
            raise AssertionError(f"Only 'NT' and 'TN' layouts for label are supported. Got: "
                                 f"{label_layout}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout, self._label_layout = layout, label_layout

    def hybrid_forward(self, F, pred, label, pred_lengths=None, label_lengths=None,  # noqa: N803
                       sample_weight=None):
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(pred, label, pred_lengths, label_lengths,
                         use_data_lengths=pred_lengths is not None,
                         use_label_lengths=label_lengths is not None, blank_label="last")
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """Squares near 0, straight lines beyond rho."""

    def __init__(self, rho=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho,
                       (0.5 / self._rho) * F.square(loss))
        return self._finish(F, loss, sample_weight)


class HingeLoss(Loss):
    """max(0, margin - pred label) for labels -1 and 1."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        loss = F.relu(self._margin - pred * _reshape_like(F, label, pred))
        return self._finish(F, loss, sample_weight)


class SquaredHingeLoss(HingeLoss):
    """The hinge loss's square."""

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        loss = F.square(F.relu(self._margin - pred * _reshape_like(F, label, pred)))
        return self._finish(F, loss, sample_weight)


class LogisticLoss(Loss):
    """log(1 + exp(-pred label))."""

    def __init__(self, weight=None, batch_axis=0, label_format="signed", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, received {label_format}.")
        self._label_format = label_format

    def hybrid_forward(self, F, pred, label, sample_weight=None):  # noqa: N803
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._finish(F, loss, sample_weight)


class TripletLoss(Loss):
    """How much nearer the positive is than the negative."""

    def __init__(self, margin=1, weight=None, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, pred, positive, negative, sample_weight=None):  # noqa: N803
        positive, negative = _reshape_like(F, positive, pred), _reshape_like(F, negative, pred)
        loss = F.sum(F.square(positive - pred) - F.square(negative - pred), axis=self._batch_axis,
                     exclude=True)
        return _apply_weighting(F, F.relu(loss + self._margin), self._weight, sample_weight)


class PoissonNLLLoss(Loss):
    """-log of a Poisson probability."""

    def __init__(self, weight=None, from_logits=True, batch_axis=0, compute_full=False, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F, pred, target, sample_weight=None, epsilon=1e-08):  # noqa: N803
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = (target * F.log(target + epsilon) - target
                        + 0.5 * F.log(2 * math.pi * (target + epsilon)))
            loss = loss + stirling * (target > 1)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss)


class CosineEmbeddingLoss(Loss):
    """1 - cosine for label 1, cosine beyond a margin for -1."""

    def __init__(self, weight=None, batch_axis=0, margin=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F, input1, input2, label, sample_weight=None):  # noqa: N803
        input1 = _reshape_like(F, input1, input2)
        label = F.reshape(label, shape=(-1, 1))
        dot = F.reshape(F.sum(input1 * input2, axis=-1), shape=(-1, 1))
        norms = F.norm(input1, axis=-1) * F.norm(input2, axis=-1)
        cosine = dot / F.maximum(F.reshape(norms, shape=(-1, 1)), 1e-12)
        loss = F.where(label == 1, 1 - cosine, F.relu(cosine - self._margin))
        return _apply_weighting(F, loss, self._weight, sample_weight)


class SDMLLoss(Loss):
    """Each row of one batch against all rows of the other, the matching one being right."""

    def __init__(self, smoothing_parameter=0.3, weight=1.0, batch_axis=0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._smoothing = smoothing_parameter
        self.kl_loss = KLDivLoss(from_logits=True)

    def hybrid_forward(self, F, x1, x2):  # noqa: N803
        count = x1.shape[0]
        far = F.sum(F.square(F.expand_dims(x1, 1) - F.expand_dims(x2, 0)), axis=2)
        hot = F.one_hot(F.arange(count), count)
        wrong = self._smoothing / (count - 1)
        labels = hot * (1 - self._smoothing - wrong) + wrong
        return self.kl_loss(F.log_softmax(-far, axis=1), labels)


__getattr__ = attributes_of(globals(), {
    "LossMetric": "write mx.metric.Loss(); metric.update(0, [loss]); metric.get()",
    "CrossEntropyLoss": "write gluon.loss.SoftmaxCrossEntropyLoss()",
    "MSELoss": "write gluon.loss.L2Loss()",
})
