# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils.check_consistency: a symbol computes the same on contexts and in types."""

import numpy as np

from lockstep.mxnet import ndarray as nd
from lockstep.mxnet._test_close import assert_almost_equal, default_atols, default_rtols

_PRECISION = ("float16", "float32", "float64")


def _type_of(executor):
    """The least precise of an executor's outputs."""
    names = [np.dtype(array.dtype).name for array in executor.outputs]
    floats = [name for name in names if name in _PRECISION]
    return min(floats, key=_PRECISION.index) if floats else "float64"


def _bind(sym, entry, grad_req):
    entry = dict(entry)
    return sym.simple_bind(entry.pop("ctx"), grad_req=grad_req,
                           type_dict=entry.pop("type_dict", None), **entry)


def _fill(executors, arg_params, aux_params, scale, use_uniform):
    """The same numbers in all executors, drawn where they are not given."""
    first = executors[0]
    given, states = dict(arg_params or {}), dict(aux_params or {})
    for name, array in first.arg_dict.items():
        if name not in given:
            given[name] = (np.random.uniform(-0.92 * scale, 0.92 * scale, array.shape) if use_uniform
                           else np.random.normal(0, scale, array.shape))
    for name, array in first.aux_dict.items():
        states.setdefault(name, np.zeros(array.shape))
    for executor in executors:
        for arrays, values in ((executor.arg_dict, given), (executor.aux_dict, states)):
            for name, array in arrays.items():
                array[:] = nd.array(values[name], dtype=array.dtype)


def _run(executor, is_train, out_grads):
    """(outputs, gradients by name) as NumPy's arrays."""
    executor.forward(is_train=is_train)
    outputs = [array.asnumpy() for array in executor.outputs]
    if not is_train:
        return outputs, {}
    executor.backward([nd.array(g, dtype=array.dtype)
                       for g, array in zip(out_grads, executor.outputs)])
    return outputs, {name: array.asnumpy() for name, array in executor.grad_dict.items()
                     if array is not None}


def check_consistency(sym, ctx_list, scale=1.0, grad_req="write", arg_params=None, aux_params=None,
                      rtol=None, atol=None, raise_on_err=True, ground_truth=None, equal_nan=False,
                      use_uniform=False, rand_type=np.float64):
    """Compares outputs and gradients of a symbol, or of several, bound as each of ctx_list says:
    {"ctx": mx.cpu(), "data": shape, "type_dict": {...}}. The most precise is the truth, and the less
    precise of two types says how near they are. Returns the truth's outputs and gradients by name."""
    symbols = sym if isinstance(sym, list) else [sym] * len(ctx_list)
    if len(symbols) != len(ctx_list) or len(ctx_list) < 2:
        raise ValueError(f"check_consistency: {len(symbols)} symbols for {len(ctx_list)} contexts")
    executors = [_bind(one, entry, grad_req) for one, entry in zip(symbols, ctx_list)]
    names = executors[0]._symbol.list_outputs()
    _fill(executors, arg_params, aux_params, scale, use_uniform)
    truth = None
    for is_train in ((False,) if grad_req == "null" else (False, True)):
        for executor in executors:
            executor.forward(is_train=is_train)
        grads = [np.random.normal(size=array.shape) for array in executors[0].outputs]
        best = max(range(len(executors)), key=lambda i: _PRECISION.index(_type_of(executors[i])))
        results = [_run(executor, is_train, grads) for executor in executors]
        outputs, gradients = results[best]
        truth = ground_truth or {**dict(zip(names, outputs)), **gradients}
        for executor, (made, found) in zip(executors, results):
            kind = np.dtype(_type_of(executor))
            _compare({**dict(zip(names, made)), **found}, truth, kind, rtol, atol, equal_nan,
                     raise_on_err)
    return truth


def _compare(found, truth, kind, rtol, atol, equal_nan, raise_on_err):
    rtol = _limit(rtol, kind, default_rtols())
    atol = _limit(atol, kind, default_atols())
    for name, value in found.items():
        try:
            assert_almost_equal(value, truth[name], rtol=rtol, atol=atol, equal_nan=equal_nan,
                                names=(name, "truth"))
        except AssertionError as error:
            if raise_on_err:
                raise
            print(f"check_consistency: {name}: {error}")


def _limit(given, kind, defaults):
    if given is None:
        return defaults[kind] if kind in defaults else defaults.get(kind.type, 1e-3)
    return given.get(kind, given.get(kind.type, 1e-3)) if isinstance(given, dict) else given
