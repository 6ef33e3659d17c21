# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the arguments of a call of the engine's, in one line.

>>> explain("", "dense", False, ["(units: int, bias: bool = True) -> Block"], ("a",), {})
"dense: units must be int, got 'a'"
"""

import collections.abc
import difflib
import importlib
import operator
import os
import re

_Parameter = collections.namedtuple("_Parameter", "name type required")

_LONGEST = 60  # characters of a value that a message shows


def shown(value):
    """A value as a message has it: short, in one line."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    return f"{type(value).__name__} of shape {tuple(value.shape)}" if hasattr(
        value, "shape") else f"a {type(value).__name__}"


def explain(scope, name, method, signatures, args, kwargs):
    """The message for a call that fits none of the signatures; `scope` is the class, if any."""
    title = _title(scope, name)
    if method:
        args = args[1:]
    overloads = [_parameters(text)[1 if method else 0:] for text in signatures]
    found = {_trouble(parameters, args, kwargs) for parameters in overloads}
    if len(found) == 1 and None not in found:
        return f"{title}: {found.pop()}"
    calls = " or ".join(f"({', '.join(p.name for p in parameters)})" for parameters in overloads)
    given = [shown(value) for value in args]
    given += [f"{key}={shown(value)}" for key, value in kwargs.items()]
    return f"{title}: takes {calls}, got ({', '.join(given)})"


def explain_cast(scope, name, message):
    """The same where a value inside of an argument is not what the engine takes."""
    types = re.search(r"type <class '([^']+)'> to C\+\+ type '(.+)'", message)
    if not types:
        return f"{_title(scope, name)}: a value is of a type that cannot be used here"
    wanted = _python_type(types[2])
    return f"{_title(scope, name)}: expected {wanted}, got a value of type {types[1]}"


def _title(scope, name):
    if not scope or name in ("__init__", "__call__", ""):
        return scope or name.lstrip("_")
    return f"{scope}.{name}"


def _python_type(cpp):
    numbers = {"double": "float", "float": "float", "bool": "bool", "long": "int", "int": "int",
               "unsigned long": "int", "std::string": "str"}
    if cpp in numbers or "basic_string" in cpp:
        return numbers.get(cpp, "str")
    return (re.findall(r"lockstep::(?:\w+::)*(\w+)", cpp) or ["another type"])[-1]


def _parameters(signature):
    """Of "(a: int, b: str = 'x') -> None"."""
    texts, depth, quote, start = [], 0, "", 1
    for at, letter in enumerate(signature):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>" and signature[at - 1] != "-":
            depth -= 1
        if (depth == 1 and letter == "," and not quote) or depth == 0:
            texts.append(signature[start:at].strip())
            start = at + 1
        if depth == 0:
            break
    return [_parameter(text) for text in texts if text not in ("", "*", "/")]


def _parameter(text):
    name, _, rest = text.partition(":")
    kind, equals, _ = rest.partition(" = ")
    return _Parameter(name.strip(), kind.strip(), not equals)


def _trouble(parameters, args, kwargs):
    """The first thing that is wrong, or None."""
    named = [p for p in parameters if not p.name.startswith("*")]
    names = [p.name for p in named]
    rest = {p.name.count("*") for p in parameters if p.name.startswith("*")}
    if len(args) > len(named) and 1 not in rest:
        return f"takes {_count(len(named))} ({', '.join(names)}), got {len(args)}"
    given = dict(zip(names, args))
    for key in kwargs:
        if key in given:
            return f"'{key}' is given twice"
        if key not in names and 2 not in rest:
            return _unknown(key, names)
    given.update(kwargs)
    for parameter in named:
        if parameter.required and parameter.name not in given:
            return f"'{parameter.name}' is missing"
    return _wrong_type(named, given) or _out_of_range(named, given)


def _count(number):
    return "no argument" if number == 0 else f"{number} argument" + "s" * (number != 1)


def _unknown(key, names):
    near = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    there = f"there are: {', '.join(names)}" if names else "there are none"
    return f"there is no argument '{key}' ({hint}{there})"


def _wrong_type(parameters, given):
    for name, kind, _ in parameters:
        if name in given and not _fits(kind, given[name]):
            return f"{name} must be {_plain(kind)}, got {shown(given[name])}"
    return None


def _out_of_range(parameters, given):
    far = [p.name for p in parameters if p.type == "int" and given.get(p.name) is not None
           and not 0 <= operator.index(given[p.name]) < 2**31]
    return f"{far[0]} is {given[far[0]]}, out of range" if len(far) == 1 else None


def _plain(kind):
    kind = re.sub(r"Optional\[(.*)\]", r"\1 or None", kind.replace("._core.", "."))
    return re.sub(r"\bList\b", "list", re.sub(r"\bTuple\b", "tuple", kind)).replace(" | ", " or ")


def _fits(kind, value):
    """Whether a value may be of the type that a signature names; what is not known here may."""
    inner = re.fullmatch(r"(\w+)\[(.*)\]", kind)
    if inner and inner[1] == "Optional":
        return value is None or _fits(inner[2], value)
    if inner and inner[1] in ("List", "list"):
        return _is_list(value) and all(_fits(inner[2], item) for item in value)
    if kind == "int":
        return _is_made(operator.index, value)
    if kind == "float":
        return not isinstance(value, str) and _is_made(float, value)
    if kind == "str":
        return isinstance(value, (str, bytes))
    if kind == "str | os.PathLike":
        return isinstance(value, (str, os.PathLike))
    if kind == "bool":
        return hasattr(value, "__bool__") or value is None
    if kind.startswith("lockstep._core."):
        return _is_a(kind, value)
    return True


def _is_made(convert, value):
    try:
        convert(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_list(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))


def _is_a(path, value):
    kind = importlib.import_module("lockstep._core")
    for part in path.split(".")[2:]:
        kind = getattr(kind, part, None)
    return value is None or not isinstance(kind, type) or isinstance(value, kind)
