# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a symbol and its parameters: `prefix-symbol.json`, `prefix-0001.params`."""

from collections import namedtuple

from lockstep.errors import Corrupt
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet import symbol as sym
from lockstep.mxnet import _files

BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])


def as_array(value):
    """An NDArray of what a file holds."""
    return nd.NDArray(value.dense() if isinstance(value, _files.SparseArray) else value)


def save_checkpoint(prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True):
    """Writes the symbol and the parameters of an epoch."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json")
    arrays = {f"arg:{name}": array for name, array in arg_params.items()}
    arrays.update({f"aux:{name}": array for name, array in aux_params.items()})
    _files.save_params(f"{prefix}-{epoch:04d}.params", arrays)


def split_params(arrays, path):
    """(arguments, states) of arrays whose names begin with arg: or aux:."""
    if not isinstance(arrays, dict):
        raise Corrupt(f"{path}: the arrays have no names")
    args, states = {}, {}
    for key, value in arrays.items():
        kind, _, name = key.partition(":")
        if kind not in ("arg", "aux") or not name:
            raise Corrupt(f"{path}: '{key}' begins with neither arg: nor aux:")
        (args if kind == "arg" else states)[name] = as_array(value)
    return args, states


def load_params(prefix, epoch):
    """(arg_params, aux_params) of an epoch."""
    path = f"{prefix}-{epoch:04d}.params"
    return split_params(_files.load_params(path), path)


def load_checkpoint(prefix, epoch):
    """(symbol, arg_params, aux_params) of an epoch."""
    symbol = sym.load(f"{prefix}-symbol.json")
    return (symbol,) + load_params(prefix, epoch)


def _create_kvstore(kvstore, num_device, arg_params):
    """(store or None, whether it updates the parameters)."""
    from lockstep.mxnet import kvstore as kvs

    if kvstore is None:
        return None, False
    if isinstance(kvstore, str):
        # On one device a store of this process has nothing to add up.
        if num_device == 1 and "dist" not in kvstore:
            return None, False
        kvstore = kvs.create(kvstore)
    return kvstore, "dist" in kvstore.type


class FeedForward:
    """The interface before Module's; it trains by one."""

    def __init__(self, symbol, ctx=None, num_epoch=None, epoch_size=None, optimizer="sgd",
                 initializer=None, numpy_batch_size=128, arg_params=None, aux_params=None,
                 allow_extra_params=False, begin_epoch=0, **kwargs):
        self.symbol, self.ctx, self.num_epoch = symbol, ctx, num_epoch
        self.optimizer, self.initializer, self.kwargs = optimizer, initializer, kwargs
        self.numpy_batch_size, self.begin_epoch = numpy_batch_size, begin_epoch
        self.arg_params, self.aux_params = arg_params, aux_params
        self._module = None

    def _iterator(self, X, y, train):
        from lockstep.mxnet import io

        if isinstance(X, io.DataIter):
            return X
        size = min(self.numpy_batch_size, len(X))
        return io.NDArrayIter(X, y, size, shuffle=train)

    def fit(self, X, y=None, eval_data=None, eval_metric="acc", epoch_end_callback=None,
            batch_end_callback=None, kvstore="local", logger=None, **_):
        """Trains on arrays or an iterator."""
        from lockstep.mxnet import init, module

        data = self._iterator(X, y, True)
        if isinstance(eval_data, tuple):
            eval_data = self._iterator(eval_data[0], eval_data[1], False)
        self._module = module.Module(
            self.symbol, [d[0] for d in data.provide_data], [d[0] for d in data.provide_label],
            context=self.ctx)
        self._module.fit(data, eval_data, eval_metric, epoch_end_callback, batch_end_callback,
                         kvstore, self.optimizer, self.kwargs or (("learning_rate", 0.01),),
                         initializer=self.initializer or init.Uniform(0.01),
                         arg_params=self.arg_params, aux_params=self.aux_params, allow_missing=True,
                         begin_epoch=self.begin_epoch, num_epoch=self.num_epoch)
        self.arg_params, self.aux_params = self._module.get_params()
        return self

    def predict(self, X, num_batch=None, return_data=False, reset=True):
        """The first output for arrays or an iterator, as NumPy arrays."""
        from lockstep.mxnet import module

        data = self._iterator(X, None, False)
        labels = [name for name in self.symbol.list_arguments() if name.endswith("label")]
        made = module.Module(self.symbol, [d[0] for d in data.provide_data], labels,
                             context=self.ctx)
        made.bind(data.provide_data, for_training=False)
        made.set_params(self.arg_params, self.aux_params or {}, allow_missing=True)
        out = made.predict(data, num_batch, reset=reset)
        return [o.asnumpy() for o in out] if isinstance(out, list) else out.asnumpy()

    def save(self, prefix, epoch=None, remove_amp_cast=True):
        """Writes a checkpoint."""
        save_checkpoint(prefix, self.num_epoch if epoch is None else epoch, self.symbol,
                        self.arg_params, self.aux_params or {})

    @staticmethod
    def load(prefix, epoch, ctx=None, **kwargs):
        """One of a checkpoint."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params,
                           begin_epoch=epoch, **kwargs)
