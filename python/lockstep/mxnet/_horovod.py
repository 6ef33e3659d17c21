# SPDX-License-Identifier: Apache-2.0
"""The few names of `horovod.mxnet` that training scripts use, on Lockstep's own collectives."""

from lockstep.mxnet import _job
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet import optimizer as opt
from lockstep.mxnet.gluon import Trainer
from lockstep.mxnet.gluon.parameter import DeferredInitializationError
from lockstep.mxnet.gluon.parameter_dict import ParameterDict

Average, Sum = "Average", "Sum"


def init(comm=None):
    """Joins the job that `lockstep launch`, mpirun or srun has started, or a process alone."""
    _job.current()


def shutdown():
    """A job ends with its processes."""


def is_initialized():
    return _job._state["job"] is not None


def rank():
    """This process's number."""
    return _job.current().rank


def size():
    """How many processes there are."""
    return _job.current().workers


def _local():
    import os

    for own, count in (("LOCKSTEP_LOCAL_RANK", "LOCKSTEP_LOCAL_SIZE"),
                       ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                       ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")):
        if own in os.environ:
            return int(os.environ[own]), int(os.environ.get(count, size()))
    return rank(), size()


def local_rank():
    """This process's number on its host."""
    return _local()[0]


def local_size():
    """How many processes are on its host."""
    return _local()[1]


def _sum(tensor):
    return tensor if size() == 1 else _job.current().all_reduce(tensor)


def allreduce(tensor, average=True, name=None, priority=0, op=None, prescale_factor=1.0,
              postscale_factor=1.0):
    """The mean, or the sum, of every process's array."""
    average = average if op is None else op == Average
    made = _sum(tensor._tensor.detach() * prescale_factor)
    factor = postscale_factor / size() if average else postscale_factor
    return tensor._out(made * factor if factor != 1.0 else made)


def allreduce_(tensor, average=True, name=None, priority=0, op=None, prescale_factor=1.0,
               postscale_factor=1.0):
    """As allreduce, in place."""
    made = allreduce(tensor, average, name, priority, op, prescale_factor, postscale_factor)
    tensor._tensor.assign(made._tensor)
    return tensor


def grouped_allreduce_(tensors, average=True, name=None, priority=0, op=None):
    """As allreduce_, of several."""
    return [allreduce_(tensor, average, name, priority, op) for tensor in tensors]


def allgather(tensor, name=None, priority=0):
    """Every process's array, one after the other."""
    if size() == 1:
        return tensor.copy()
    made = _job.current().all_gather(tensor._tensor.detach())
    return tensor._out(made.reshape((-1,) + tuple(tensor.shape[1:])))


def broadcast(tensor, root_rank, name=None, priority=0):
    """One process's array for all."""
    if size() == 1:
        return tensor.copy()
    return tensor._out(_job.current().broadcast(tensor._tensor.detach(), root_rank))


def broadcast_(tensor, root_rank, name=None, priority=0):
    """As broadcast, in place."""
    tensor._tensor.assign(broadcast(tensor, root_rank)._tensor)
    return tensor


def broadcast_parameters(params, root_rank=0, prefix=None):
    """One process's parameters for all; those whose shape is not known yet when they have one."""
    if size() == 1:
        return
    if isinstance(params, ParameterDict) or hasattr(params, "items"):
        items = sorted(params.items())
    else:
        raise ValueError(f"broadcast_parameters: expected parameters by name, got {type(params)}")
    for _, parameter in items:
        if isinstance(parameter, nd.NDArray):
            broadcast_(parameter, root_rank)
            continue
        try:
            arrays = parameter._arrays()
        except DeferredInitializationError:
            _broadcast_later(parameter, root_rank)
            continue
        for array in arrays:
            broadcast_(array, root_rank)


def _broadcast_later(parameter, root_rank):
    finish = parameter._finish_deferred_init

    def finish_and_broadcast():
        waiting = parameter._deferred is not None
        finish()
        if waiting:
            for array in parameter._arrays():
                broadcast_(array, root_rank)

    parameter._finish_deferred_init = finish_and_broadcast


class DistributedOptimizer(opt.Optimizer):
    """An optimiser that takes the mean of all processes' gradients first."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, **_):
        self._optimizer = optimizer
        self._optimizer.rescale_grad *= 1.0 / size()

    def __getattr__(self, name):
        return getattr(self._optimizer, name)

    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduce(self, index, grad):
        for one in grad if isinstance(index, (tuple, list)) else [grad]:
            allreduce_(one, average=False)

    def update(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(Trainer):
    """A trainer whose steps take the mean of all processes' gradients."""

    def __init__(self, params, optimizer, optimizer_params=None, compression=None,
                 gradient_predivide_factor=1.0, prefix=None, **_):
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
        super().__init__(params, optimizer, optimizer_params, kvstore=None)
        self._scale /= size()

    def _allreduce_grads(self):
        if size() == 1:
            return
        for parameter in self._params:
            if parameter.grad_req != "null":
                for gradient in parameter.list_grad():
                    allreduce_(gradient, average=False)
