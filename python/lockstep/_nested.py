# SPDX-License-Identifier: Apache-2.0
"""Tensors inside of lists, tuples and dicts, as a flat list, and back."""

_TENSOR = object()


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
