# SPDX-License-Identifier: Apache-2.0
"""Batch norm whose statistics are those of all workers' batches."""

from lockstep import _core, autograd, ops
from lockstep.mxnet.ndarray.ops_nn import _update_running


def _by_channel(values, x):
    return ops.reshape(values, (1, -1) + (1,) * (x.ndim - 2))


class _Normalise(autograd.Function):
    """(x - mean) / deviation over the workers' batches; its gradient is summed over them too."""

    def __init__(self, job, epsilon):
        self._job, self._epsilon = job, epsilon
        self.mean = self.variance = None

    def _sums(self, x):
        return ops.sum(x, (0, *range(2, x.ndim)))

    def forward(self, x):
        """Two exchanges: the mean, then the squares of what differs from it."""
        wide = ops.cast(x, "float32")
        own = ops.full((1,), float(x.size // x.shape[1]), "float32")
        total = self._job.all_reduce(ops.concat([self._sums(wide), own], axis=0))
        self._count = total[-1].item()
        self.mean = total[:-1] / self._count
        centred = wide - _by_channel(self.mean, x)
        self.variance = self._job.all_reduce(self._sums(ops.square(centred))) / self._count
        self._scale = _by_channel(ops.rsqrt(self.variance + self._epsilon), x)
        self._normal = centred * self._scale
        return ops.cast(self._normal, x.dtype)

    def backward(self, dy):
        """scale (dy - mean of dy - x mean of dy x), x the normalised one."""
        wide = ops.cast(dy, "float32")
        channels = dy.shape[1]
        sums = self._job.all_reduce(
            ops.concat([self._sums(wide), self._sums(wide * self._normal)], axis=0)) / self._count
        shift, slope = _by_channel(sums[:channels], dy), _by_channel(sums[channels:], dy)
        return ops.cast((wide - shift - self._normal * slope) * self._scale, dy.dtype)


def shared_batch_norm(job, x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma):
    """Batch norm in train mode over the batches of all workers, which call it together."""
    function = _Normalise(job, float(eps))
    normal = _core._call_function(function, [x._tensor])[0]
    _update_running(running_mean, function.mean, float(momentum))
    _update_running(running_var, function.variance, float(momentum))
    made = normal if fix_gamma else normal * _by_channel(gamma._tensor, normal)
    return x._out(made + _by_channel(beta._tensor, normal))
