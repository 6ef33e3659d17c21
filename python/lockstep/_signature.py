# SPDX-License-Identifier: Apache-2.0
"""Signatures of ops, from their definitions."""

import inspect


def signature_of(op):
    """What inspect.signature shows."""
    kinds = inspect.Parameter
    parameters = []
    for name, presence, _, default, _ in op._parameters():
        if presence == "required":
            parameters.append(kinds(name, kinds.POSITIONAL_OR_KEYWORD))
        elif presence == "repeated":
            parameters.append(kinds(name, kinds.VAR_POSITIONAL))
        else:
            keyword = presence == "key" or any(p.kind == kinds.VAR_POSITIONAL for p in parameters)
            kind = kinds.KEYWORD_ONLY if keyword else kinds.POSITIONAL_OR_KEYWORD
            parameters.append(kinds(name, kind, default=default))
    # An optional input may stand before a required one; then they are named.
    seen_default = False
    for i, parameter in enumerate(parameters):
        if parameter.default is not kinds.empty:
            seen_default = True
        elif seen_default and parameter.kind == kinds.POSITIONAL_OR_KEYWORD:
            parameters[i] = parameter.replace(kind=kinds.KEYWORD_ONLY)
    parameters.sort(key=lambda p: p.kind)
    return inspect.Signature(parameters)
