# SPDX-License-Identifier: Apache-2.0
"""Tensors inside of lists, tuples and dicts, as a flat list, and back."""

import itertools

import numpy as np

_TENSOR = object()

# Of a block's calls. What is forgotten is compiled again, under a new number.
_MOST_NUMBERS = 256
_next_number = itertools.count(1)


def flatten(value):
    """(tensors, template): what fill() makes `value` of again."""
    tensors = []
    return tensors, _template(value, tensors)


def _template(value, tensors):
    if hasattr(value, "__lockstep_tensor__") or hasattr(value, "__dlpack__"):
        tensors.append(value)
        return _TENSOR
    if isinstance(value, dict):
        return {key: _template(item, tensors) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_template(item, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_template(item, tensors) for item in value)
    return value


def fill(template, tensors):
    """The template with tensors in their places."""
    left = iter(tensors)
    return _fill(template, left)


def _fill(template, tensors):
    if template is _TENSOR:
        return next(tensors)
    if isinstance(template, dict):
        return {key: _fill(item, tensors) for key, item in template.items()}
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return type(template)(*(_fill(item, tensors) for item in template))
    if isinstance(template, (list, tuple)):
        return type(template)(_fill(item, tensors) for item in template)
    return template


def number_of(block, template):
    """Equal for templates that hold the same beside their tensors: values of Python's plain types
    by what they are, other objects by which they are."""
    numbers = block.__dict__.setdefault("_call_numbers", {})
    key = _key(template)
    if key not in numbers and len(numbers) >= _MOST_NUMBERS:
        numbers.clear()
    # The template stays, so that no other object gets the place of one that is in the key.
    return numbers.setdefault(key, (next(_next_number), template))[0]


def _key(value):
    if isinstance(value, dict):
        return (dict, tuple((_key(name), _key(item)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_key(item) for item in value))
    if isinstance(value, slice):
        return (slice, _key(value.start), _key(value.stop), _key(value.step))
    if isinstance(value, (bool, int, float, complex, str, bytes, range, np.generic)):
        return (type(value), repr(value))
    return (type(value), id(value))
