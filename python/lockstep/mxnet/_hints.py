# SPDX-License-Identifier: Apache-2.0
"""What to write instead of methods that articles show and MXNet never had."""

_TRAIN_MODE = "autograd.record() sets the mode: train_mode() and predict_mode() do it alone"
_CONTEXT = "write net.collect_params().reset_ctx(ctx)"

BLOCK = {
    "to": _CONTEXT, "cuda": _CONTEXT, "cpu": _CONTEXT, "train": _TRAIN_MODE, "eval": _TRAIN_MODE,
    "layers": "write net[i] and len(net) of a Sequential, or net._children",
    "parameters": "write net.collect_params().values()",
    "trainable_variables": "write net.collect_params().values()",
    "state_dict": "write net.save_parameters(path)",
    "load_state_dict": "write net.load_parameters(path)",
    "fit": "write gluon.contrib.estimator.Estimator(net, loss).fit(...), or a loop by hand",
    "compile": "write net.hybridize()",
    "evaluate": "write metric.update(labels, net(x)) for each batch",
}
PARAMETERS = {
    "copy": "what is computed is there when a call returns; mx.nd.waitall() waits for all, "
            "parameter.data().copy() is a copy of one",
    "initialise": "write initialize(...)",
}
PARAMETER = {
    "has_uninitialized": "write parameter.list_data(), which raises an error where there is none",
    "numpy": "write parameter.data().asnumpy()",
    "asnumpy": "write parameter.data().asnumpy()",
}
ARRAY = {
    "numpy": "write x.asnumpy()", "cuda": "write x.as_in_context(mx.gpu())",
    "cpu": "write x.as_in_context(mx.cpu())", "to": "write x.as_in_context(ctx)",
    "view": "write x.reshape(shape)", "shuffle": "write mx.nd.shuffle(x)",
    "float": "write x.astype('float32')", "long": "write x.astype('int64')",
    "unsqueeze": "write x.expand_dims(axis)", "permute": "write x.transpose(axes)",
    "requires_grad": "write x.attach_grad()",
    "requires_grad_": "write x.attach_grad()",
}
NUMPY_ARRAY = {"asscalar": "write x.item()"}
METRIC = {"value": "write name, value = metric.get()", "result": "write metric.get()[1]",
          "compute": "write metric.get()[1]"}
OPTIMIZER = {
    "step": "write trainer = gluon.Trainer(net.collect_params(), optimizer), then "
            "trainer.step(batch_size)",
    "zero_grad": "backward writes gradients anew unless grad_req is 'add'; then write "
                 "net.collect_params().zero_grad()",
    "apply_gradients": "write trainer.step(batch_size) of a gluon.Trainer",
}
TRAINER = {"zero_grad": OPTIMIZER["zero_grad"], "train": "write trainer.step(batch_size)"}
# Arguments by name, and modules' names.
IS_TRAIN = "blocks take no is_train: `with autograd.record():` or `autograd.train_mode():` is it"
NO_TRANSFORM = "DataLoader takes no transform: write DataLoader(dataset.transform_first(transform))"
NO_ACTIVATION = "takes no activation: its gates and cells have sigmoid and tanh"
IO = {"MXDataBatch": "write gluon.data.DataLoader and gluon.utils.split_and_load(batch, ctx), or "
                     "mx.io.DataBatch(data, label)"}
METRICS = {"LossMetric": "write mx.metric.Loss(); metric.update(0, [loss]); metric.get()"}


class _Missing:
    """A name that a class has not, which tells what to write instead."""

    def __init__(self, name, hint):
        self._name, self._hint = name, hint

    def __get__(self, instance, owner):
        raise AttributeError(f"'{owner.__name__}.{self._name}' does not exist in MXNet: "
                             f"{self._hint}")


def tell_missing(hints):
    """For classes whose attributes are read in every small call, which a __getattr__ slows down."""

    def mark(cls):
        for name, hint in hints.items():
            setattr(cls, name, _Missing(name, hint))
        return cls

    return mark


def lookup(hints):
    """A class's __getattr__: what is missing is told, with what to write instead."""

    def __getattr__(self, name):
        kind = type(self).__name__
        found = getattr(type(self), name, None)
        if hasattr(type(found), "__get__"):  # a property: what failed in it says so itself
            return found.__get__(self, type(self))
        hint = hints.get(name)
        if hint is None:
            raise AttributeError(f"'{kind}' object has no attribute '{name}'")
        raise AttributeError(f"'{kind}.{name}' does not exist in MXNet: {hint}")

    return __getattr__
