# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: values and gradients of symbols, compared with what is expected of them."""

import numpy as np

from lockstep.mxnet import ndarray as nd
from lockstep.mxnet import symbol
from lockstep.mxnet._test_close import (as_numpy, assert_almost_equal, default_numeric_eps,
                                        get_tolerance)
from lockstep.mxnet.context import current_context


def _placed(names, values, dtype, what):
    """Arrays by name, of a list in the names' order or a dict."""
    if values is None:
        return None
    if not isinstance(values, dict):
        values = dict(zip(names, values))
    elif set(values) != set(names):
        raise ValueError(f"{what}: the symbol has {sorted(names)}, got {sorted(values)}")

    def made(value):
        if isinstance(value, nd.NDArray):
            return value.copy()
        value = np.asarray(value)
        return nd.array(value, dtype=value.dtype if dtype == "asnumpy" else dtype)

    return {name: made(values[name]) for name in names if name in values}


def _with_tail(sym):
    """The symbol times random weights, as a loss."""
    projection = symbol.Variable("__random_proj")
    return symbol.make_loss(sym * projection)


def numeric_grad(executor, location, aux_states=None, eps=1e-4, use_forward_train=True,
                 dtype=np.float32):
    """Differences of an executor's sum of outputs, by argument."""
    found = {}

    def value():
        for name, aux in (aux_states or {}).items():
            executor.aux_dict[name][:] = aux
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy()

    for name, contents in location.items():
        contents = np.array(contents, order="C")
        gradient = np.zeros(contents.shape, dtype=dtype)
        if contents.dtype.kind != "f":
            found[name] = gradient
            continue
        for i in range(contents.size):
            ends = []
            for sign in (0.5, -0.5):
                moved = contents.copy()
                moved.ravel()[i] += sign * eps
                executor.arg_dict[name][:] = nd.array(moved, dtype=dtype)
                ends.append(value())
            gradient.ravel()[i] = (ends[0] - ends[1]).sum() / eps
        executor.arg_dict[name][:] = nd.array(contents, dtype=dtype)
        found[name] = gradient
    return found


def _requests(sym, grad_nodes):
    if grad_nodes is None:
        grad_nodes = sym.list_arguments()
    return dict(grad_nodes) if isinstance(grad_nodes, dict) else {k: "write" for k in grad_nodes}


def _compare_gradient(name, request, expected, got, before, rtol, atol, equal_nan=False):
    """By request: the gradient, what was added to an array, or an array that was left alone."""
    got = as_numpy(got)
    if request == "add":
        got = got - before
    elif request == "null":
        expected = before
    elif request != "write":
        raise ValueError(f"grad_req of '{name}': expected write, add or null, got {request!r}")
    assert_almost_equal(expected, got, rtol, atol, (f"EXPECTED_{name}", f"BACKWARD_{name}"),
                        equal_nan=equal_nan)


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=None, rtol=None, atol=None,
                           grad_nodes=None, use_forward_train=True, ctx=None,
                           grad_stype_dict=None, dtype=np.float32):
    """Compares a symbol's gradients with differences of its values."""
    ctx = ctx or current_context()
    location = _placed(sym.list_arguments(), location, dtype, "location")
    aux = _placed(sym.list_auxiliary_states(), aux_states, dtype, "aux_states")
    requests = _requests(sym, grad_nodes)
    _, shapes, _ = sym.infer_shape(**{name: value.shape for name, value in location.items()})
    # Weights that are not small: differences lose bits otherwise.
    location["__random_proj"] = nd.array(np.random.rand(*shapes[0]) + 0.1, dtype=dtype)
    before = {name: np.random.normal(0, 0.01, size=location[name].shape)
              for name in (*requests, "__random_proj")}
    executor = _with_tail(sym).bind(
        ctx, args=dict(location), aux_states=aux, grad_req={**requests, "__random_proj": "write"},
        args_grad={name: nd.array(value, dtype=dtype) for name, value in before.items()})
    kept_aux = None if aux is None else {name: value.asnumpy() for name, value in aux.items()}
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    gradients = {name: executor.grad_dict[name].asnumpy() for name in requests}
    contents = {name: location[name].asnumpy() for name in requests}
    numeric = numeric_grad(executor, contents, kept_aux, eps, use_forward_train, dtype)
    for name, request in requests.items():
        _compare_gradient(name, request, numeric[name], gradients[name], before[name], rtol, atol)


def check_symbolic_forward(sym, location, expected, rtol=None, atol=None, aux_states=None,
                           ctx=None, equal_nan=False, dtype=np.float32):
    """Compares a symbol's values with those expected."""
    location = _placed(sym.list_arguments(), location, dtype, "location")
    aux = _placed(sym.list_auxiliary_states(), aux_states, dtype, "aux_states")
    names = sym.list_outputs()
    if isinstance(expected, dict):
        expected = [expected[name] for name in names]
    executor = sym.bind(ctx or current_context(), args=location, aux_states=aux, grad_req="null")
    executor.forward(is_train=False)
    for name, want, got in zip(names, expected, executor.outputs):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"),
                            equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(sym, location, out_grads, expected, rtol=None, atol=None,
                            aux_states=None, grad_req="write", ctx=None, grad_stypes=None,
                            equal_nan=False, dtype=np.float32):
    """Compares a symbol's gradients with those expected."""
    names = sym.list_arguments()
    location = _placed(names, location, dtype, "location")
    aux = _placed(sym.list_auxiliary_states(), aux_states, dtype, "aux_states")
    if not isinstance(expected, dict):
        expected = dict(zip(names, expected))
    if isinstance(grad_req, str):
        grad_req = {name: grad_req for name in names}
    elif not isinstance(grad_req, dict):
        grad_req = dict(zip(names, grad_req))
    # Not zeros: what is written over, added to or left alone shows.
    before = {name: np.random.normal(size=as_numpy(value).shape)
              for name, value in sorted(expected.items())}
    gradients = {name: nd.array(value, dtype=as_numpy(expected[name]).dtype if dtype == "asnumpy"
                                else dtype) for name, value in before.items()}
    executor = sym.bind(ctx or current_context(), args=location, args_grad=gradients,
                        aux_states=aux, grad_req=grad_req)
    executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = [out_grads[name] for name in sym.list_outputs()]
    if out_grads is not None:
        out_grads = list(_placed([str(i) for i in range(len(out_grads))], list(out_grads), dtype,
                                 "out_grads").values())
    executor.backward(out_grads)
    for name, want in expected.items():
        _compare_gradient(name, grad_req[name], want, gradients[name], before[name], rtol, atol,
                          equal_nan)
    return gradients


def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """A symbol's values, as NumPy arrays."""
    executor = sym.bind(ctx or current_context(),
                        args={name: nd.array(value) for name, value in inputs.items()})
    executor.forward(is_train=is_train)
    outputs = [output.asnumpy() for output in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def same_symbol_structure(sym1, sym2):
    """Whether two symbols have the same ops in the same order."""
    one, other = (s.get_internals().list_outputs() for s in (sym1, sym2))
    return len(one) == len(other)
