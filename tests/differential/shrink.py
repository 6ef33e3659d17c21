# SPDX-License-Identifier: Apache-2.0
"""Makes a case that fails smaller, as long as it fails."""

import copy
import time

from programs import Case, infer
from values import Input


def simpler(case):
    """The same program on plainer data."""
    for name, plain in (("special", ""), ("shift", 0.0)):
        for i, x in enumerate(case.inputs):
            if getattr(x, name) != plain:
                smaller = copy.deepcopy(case)
                setattr(smaller.inputs[i], name, plain)
                yield smaller
    if case.second:
        smaller = copy.deepcopy(case)
        smaller.second = False
        yield smaller
    if case.dtype != "float32":
        smaller = copy.deepcopy(case)
        smaller.dtype = "float32"
        yield smaller


def fewer_outputs(case):
    if len(case.outputs) > 1:
        for value in case.outputs:
            yield Case(case.dtype, case.inputs, case.nodes, [value], case.second)


def cut(case, inferred):
    """Every node becomes an input, and what is not needed any more goes."""
    counts = [len(results) for results in inferred]
    for at in range(len(case.nodes)):
        if counts[at] != 1 and at + 1 < len(case.nodes):
            continue
        first = len(case.inputs) + sum(counts[:at])
        if at + 1 == len(case.nodes):
            if at == 0:
                return
            value = len(case.inputs) + sum(counts[: at - 1])
            yield pruned(Case(case.dtype, case.inputs, case.nodes[:-1], [value], case.second), counts)
            continue
        shape = inferred[at][0]["shape"]
        fresh = len(case.inputs)
        up = lambda v: v if v < fresh else fresh if v == first else v + 1  # noqa: E731
        nodes = [dict(n, **{"in": [up(v) for v in n["in"]]}) for n in case.nodes]
        outputs = [up(v) for v in case.outputs if v != first]
        if outputs:
            inputs = case.inputs + [Input(shape, -1.0, 1.0, seed=at)]
            yield pruned(Case(case.dtype, inputs, nodes, outputs, case.second), counts)


def pruned(case, counts):
    """Without nodes and inputs that no output needs."""
    starts = [len(case.inputs) + sum(counts[:n]) for n in range(len(case.nodes))]
    needed = set(case.outputs)
    kept = []
    for n in reversed(range(len(case.nodes))):
        if any(v in needed for v in range(starts[n], starts[n] + counts[n])):
            needed.update(case.nodes[n]["in"])
            kept.insert(0, n)
    place = {}
    for i in range(len(case.inputs)):
        if i in needed:
            place[i] = len(place)
    inputs = [case.inputs[i] for i in place]
    for n in kept:
        for i in range(counts[n]):
            place[starts[n] + i] = len(place)
    nodes = [dict(case.nodes[n], **{"in": [place[v] for v in case.nodes[n]["in"]]}) for n in kept]
    return Case(case.dtype, inputs, nodes, [place[v] for v in case.outputs], case.second)


def lists_of_sizes(case):
    for x in case.inputs:
        yield x.shape
    for node in case.nodes:
        for name, value in node["attrs"].items():
            if isinstance(value, list):
                yield value


def smaller_sizes(case):
    """A number everywhere it stands, then one place alone."""
    sizes = sorted({n for sizes in lists_of_sizes(case) for n in sizes if n > 1}, reverse=True)
    for size in sizes:
        for less in sorted({1, size // 2, size - 1}):
            smaller = copy.deepcopy(case)
            for numbers in lists_of_sizes(smaller):
                numbers[:] = [less if n == size else n for n in numbers]
            yield smaller
    for which, numbers in enumerate(lists_of_sizes(case)):
        for at, size in enumerate(numbers):
            for less in sorted({0, 1, size // 2, size - 1}):
                if less >= size or less < (which < len(case.inputs)):
                    continue  # an input without elements shows nothing
                smaller = copy.deepcopy(case)
                list(lists_of_sizes(smaller))[which][at] = less
                yield smaller


def candidates(server, case):
    yield from fewer_outputs(case)
    yield from cut(case, infer(server, case))
    yield from smaller_sizes(case)
    yield from simpler(case)


def shrink(server_of, case, fails, seconds):
    """`fails(case)` says whether it still does; `server_of()` is a server that lives."""
    deadline = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < deadline:
        found = False
        for smaller in candidates(server_of(), case):
            if time.monotonic() > deadline:
                break
            if fails(smaller):
                case, found = smaller, True
                break
    return case
