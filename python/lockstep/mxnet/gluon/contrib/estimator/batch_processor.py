# SPDX-License-Identifier: Apache-2.0
"""What an estimator does with a batch."""

from lockstep.mxnet import autograd
from lockstep.mxnet.gluon.utils import split_and_load

__all__ = ["BatchProcessor"]


class BatchProcessor:
    """Trains on a batch, or looks at one; a subclass does it in another way."""

    def _get_data_and_label(self, batch, ctx, batch_axis=0):
        return tuple(split_and_load(part, ctx_list=ctx, batch_axis=batch_axis) for part in batch[:2])

    def evaluate_batch(self, estimator, val_batch, batch_axis=0):
        """(data, label, predictions, losses) of a batch, a list with one for each context."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(z, y) for z, y in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(self, estimator, train_batch, batch_axis=0):
        """The same with gradients; GradientUpdateHandler makes the step."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(z, y) for z, y in zip(pred, label)]
        for part in loss:
            part.backward()
        return data, label, pred, loss
