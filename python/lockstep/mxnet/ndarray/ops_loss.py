# SPDX-License-Identifier: Apache-2.0
"""Outputs whose gradient is that of a loss, and losses."""

from lockstep import _core, ops
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.ndarray.registry import register


class _Output:
    """Its result as it is; for gradient what `slope` says, whatever comes from above."""

    def __init__(self, result, slope, op, params):
        self._result, self._slope = result, slope
        self._op, self._params = op, params

    def forward(self, data, label):
        self._data, self._label = data, label
        self._made = self._result(data)
        return self._made

    def symbols(self, data, label):
        """The op, of symbols."""
        return [_symbol_of(self._op, self._params, data, label)]

    def backward(self, above):
        return self._slope(self._made, self._label, above), None


def _symbol_of(op, params, *inputs):
    from lockstep.mxnet import symbol

    return getattr(symbol, op)(*inputs, **params)


def _with_slope(result, slope, data, label, op, **params):
    return _core._call_function(_Output(result, slope, op, params), [data, label])[0]


def softmax_slope(made, label, axis, grad_scale=1.0, ignore_label=-1.0, use_ignore=False,
                  normalization="null", smooth_alpha=0.0):
    """What goes back from a softmax along an axis: its difference to the label, which is numbers
    of classes or has a probability for each; the latter are not normalised."""
    if label.shape == made.shape:
        return (made - label) * float(grad_scale)
    classes, several = made.shape[axis], axis != made.ndim - 1
    numbers = ops.cast(ops.reshape(label, _label_shape(made, axis)), "int64")
    hot = _hot(numbers, classes, made.dtype)
    if several:
        hot = ops.transpose(hot, (0, made.ndim - 1, *range(1, made.ndim - 1)))
    elif smooth_alpha:
        rest = smooth_alpha / (classes - 1)
        hot = hot * (1 - smooth_alpha - rest) + rest
    difference = made - hot
    keep = ops.cast(ops.not_equal(numbers, int(ignore_label)), made.dtype)
    if use_ignore:
        difference = difference * ops.expand_dims(keep, axis)
    if normalization == "valid":
        return difference * (float(grad_scale) / ops.maximum(ops.sum(keep), 1.0))
    return difference * (float(grad_scale) / _places(numbers, several, normalization))


def _places(numbers, several, normalization):
    """What MXNet divides by. With a softmax for each place of a sample (multi_output) that is the
    places even without a normalization."""
    if not several:
        return numbers.size if normalization == "batch" else 1
    return numbers.size if normalization == "batch" else numbers.size // numbers.shape[0]


def _label_shape(made, axis):
    shape = list(made.shape)
    del shape[axis]
    return tuple(shape)


def _hot(numbers, classes, dtype):
    places = ops.arange(0, classes, 1, "int64", numbers.device)
    return ops.cast(ops.equal(ops.expand_dims(numbers, -1), places), dtype)


@register("SoftmaxOutput", "Softmax")
def softmax_output(data, label, grad_scale=1.0, ignore_label=-1.0, multi_output=False,
                   use_ignore=False, preserve_shape=False, normalization="null", out_grad=False,
                   smooth_alpha=0.0):
    """softmax, with the gradient of the cross entropy to the label."""
    options = dict(grad_scale=grad_scale, ignore_label=ignore_label, use_ignore=use_ignore,
                   normalization=normalization, smooth_alpha=smooth_alpha)
    shape = data.shape
    data, label, axis = softmax_layout(data, label, multi_output, preserve_shape)

    def slope(made, wanted, above):
        difference = softmax_slope(made, wanted, axis, **options)
        return difference * above if out_grad else difference

    made = _with_slope(lambda x: ops.softmax(x, axis), slope, data, label, "SoftmaxOutput",
                       multi_output=multi_output, preserve_shape=preserve_shape,
                       out_grad=out_grad, **options)
    return ops.reshape(made, shape)


def softmax_layout(data, label, multi_output=False, preserve_shape=False):
    """(data, label, axis of the classes): all of a sample are its classes unless told."""
    if multi_output:
        return data, label, 1
    if not preserve_shape and data.ndim > 2:
        flat = (data.shape[0], -1)
        label = ops.reshape(label, flat) if label.shape == data.shape else label
        data = ops.reshape(data, flat)
    return data, label, data.ndim - 1


def _regression(op, result, difference):
    def call(data, label, grad_scale=1.0):
        def slope(made, wanted, above):
            outputs = made.size // made.shape[0]
            return difference(made, ops.reshape(wanted, made.shape)) * (float(grad_scale) / outputs)

        return _with_slope(result, slope, data, label, op, grad_scale=grad_scale)

    register(op)(call)


_regression("LinearRegressionOutput", lambda x: x + 0, lambda y, t: y - t)
_regression("LogisticRegressionOutput", ops.sigmoid, lambda y, t: y - t)
_regression("MAERegressionOutput", lambda x: x + 0, lambda y, t: ops.sign(y - t))


@register("SVMOutput")
def svm_output(data, label, margin=1.0, regularization_coefficient=1.0, use_linear=False):
    """The scores, with the gradient of the hinge loss."""
    def slope(made, wanted, above):
        sign = _hot(ops.cast(wanted, "int64"), made.shape[1], made.dtype) * 2.0 - 1.0
        below = float(margin) - sign * made
        if use_linear:
            size = ops.cast(below > 0, made.dtype)
        else:
            size = 2.0 * ops.relu(below)
        return -sign * size * float(regularization_coefficient)

    return _with_slope(lambda x: x + 0, slope, data, label, "SVMOutput", margin=margin,
                       regularization_coefficient=regularization_coefficient, use_linear=use_linear)


class _MakeLoss:
    """Its input; the gradient is a constant."""

    def __init__(self, params):
        self._params = params

    def forward(self, data):
        self._data = data
        return data + 0

    def symbols(self, data):
        """The op, of a symbol."""
        return [_symbol_of("MakeLoss", self._params, data)]

    def backward(self, above):
        return _core.ones_like(self._data) * self._scale()

    def _scale(self):
        scale, kind = float(self._params["grad_scale"]), self._params["normalization"]
        if kind == "batch":
            return scale / self._data.shape[0]
        if kind != "valid":
            return scale
        valid = ops.cast(self._data > float(self._params["valid_thresh"]), self._data.dtype)
        return scale / ops.maximum(ops.sum(valid), 1.0)


@register("MakeLoss", "make_loss")
def make_loss(data, grad_scale=1.0, valid_thresh=0.0, normalization="null"):
    """A loss as it is: its gradient is 1, times a scale."""
    params = dict(grad_scale=grad_scale, valid_thresh=valid_thresh, normalization=normalization)
    return _core._call_function(_MakeLoss(params), [data])[0]


@register("IdentityAttachKLSparseReg")
def identity_attach(data, sparseness_target=0.1, penalty=0.001, momentum=0.9):
    """Not here."""
    raise MXNetError("IdentityAttachKLSparseReg is not in lockstep.mxnet; add the penalty to the "
                     "loss")


@register("CTCLoss", "ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")
def ctc_loss(data, label, data_lengths=None, label_lengths=None, use_data_lengths=False,
             use_label_lengths=False, blank_label="first"):
    """-log of the probability of the labels; data is [T, N, C] before softmax.

    With blank_label 'first' class 0 is the blank and 0 pads labels; with 'last' the last class is
    the blank and -1 pads.
    """
    time, batch, classes = data.shape
    labels = ops.cast(label, "int64")
    if blank_label == "first":
        blank = 0
        if not use_label_lengths:
            labels = ops.where(labels <= 0, -1, labels)
    else:
        blank = classes - 1
    if use_label_lengths:
        places = ops.reshape(ops.arange(0, labels.shape[1], 1, "int64"), (1, -1))
        ends = ops.reshape(ops.cast(label_lengths, "int64"), (-1, 1))
        labels = ops.where(places < ends, labels, -1)
    if use_data_lengths:
        lengths = ops.cast(data_lengths, "int64")
    else:
        lengths = ops.full((batch,), float(time), "int64")
    return ops.ctc_loss(data, labels, lengths, blank)


@register("_contrib_gradientmultiplier", "gradientmultiplier")
def gradient_multiplier(data, scalar=1.0):
    """Its input; the gradient is multiplied."""
    return data * float(scalar) + data.detach() * (1.0 - float(scalar))
