# SPDX-License-Identifier: Apache-2.0
"""Times of what a script names: tasks, frames, events, counters and markers, in the trace format
that chrome://tracing reads. The engine's own ops are timed by `lockstep profile`."""

import json
import os
import threading
import time
import warnings

from lockstep.mxnet import _files


class _State:
    def __init__(self):
        self.config = {"filename": "profile.json", "aggregate_stats": False}
        self.running, self.paused = False, False
        self.events, self.lock = [], threading.Lock()

    def add(self, event):
        if self.running and not self.paused:
            with self.lock:
                self.events.append(dict(event, pid=os.getpid(), tid=threading.get_ident()))


_state = _State()


def _now():
    return time.perf_counter() * 1e6


def set_config(**kwargs):
    """filename, aggregate_stats; what else is given is kept and not used."""
    _state.config.update(kwargs)


def profiler_set_config(mode="symbolic", filename="profile.json"):
    """The older name of set_config."""
    warnings.warn("profiler.profiler_set_config() is deprecated: set_config() is meant")
    set_config(filename=filename)


def set_state(state="stop", profile_process="worker"):
    """'run' begins, 'stop' ends and, unless dump() is called, nothing is written."""
    if state not in ("run", "stop"):
        raise ValueError(f"set_state: {state!r}, expected 'run' or 'stop'")
    _state.running = state == "run"


def profiler_set_state(state="stop"):
    """The older name of set_state."""
    warnings.warn("profiler.profiler_set_state() is deprecated: set_state() is meant")
    set_state(state)


def pause(profile_process="worker"):
    """Notes nothing until resume()."""
    _state.paused = True


def resume(profile_process="worker"):
    """Notes again."""
    _state.paused = False


def dump(finished=True, profile_process="worker"):
    """Writes what was noted to the file of set_config."""
    with _state.lock:
        text = json.dumps({"traceEvents": _state.events, "displayTimeUnit": "ms"})
        if finished:
            _state.events = []
    _files.write_atomically(_state.config["filename"], text.encode())


dump_profile = dump


def _totals():
    totals = {}
    for event in _state.events:
        if event["ph"] == "X":
            entry = totals.setdefault((event["cat"], event["name"]), [])
            entry.append(event["dur"] / 1000.0)
    return totals


def dumps(reset=False, format="table", sort_by="total", ascending=False):  # noqa: A002
    """A table, or JSON, of how often and how long."""
    if format not in ("table", "json"):
        raise ValueError(f"dumps: the format is {format!r}, expected 'table' or 'json'")
    keys = {"total": sum, "avg": lambda v: sum(v) / len(v), "min": min, "max": max, "count": len}
    if sort_by not in keys:
        raise ValueError(f"dumps: sort_by is {sort_by!r}, expected one of {sorted(keys)}")
    with _state.lock:
        items = sorted(_totals().items(), key=lambda item: keys[sort_by](item[1]),
                       reverse=not ascending)
        if reset:
            _state.events = []
    if format == "json":
        return json.dumps({"Time": {kind: {
            name: {"Count": len(v), "Total": sum(v), "Min": min(v), "Max": max(v),
                   "Avg": sum(v) / len(v)} for (k, name), v in items if k == kind}
            for kind in sorted({k for (k, _), _ in items})}, "Unit": {"Time": "ms"}})
    lines = [f"{'Name':<32}{'Count':>8}{'Total(ms)':>14}{'Min(ms)':>12}{'Max(ms)':>12}{'Avg(ms)':>12}"]
    for (_, name), v in items:
        lines.append(f"{name:<32}{len(v):>8}{sum(v):>14.4f}{min(v):>12.4f}{max(v):>12.4f}"
                     f"{sum(v) / len(v):>12.4f}")
    return "\nProfile Statistics:\n" + "\n".join(lines) + "\n"


class Domain:
    """A name that others belong to."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def new_task(self, name):
        return Task(self, name)

    def new_frame(self, name):
        return Frame(self, name)

    def new_counter(self, name, value=None):
        return Counter(self, name, value)

    def new_marker(self, name):
        return Marker(self, name)


class _Span:
    def __init__(self, domain, name):
        self.domain, self.name, self._begin = domain, name, None

    def start(self):
        """It begins."""
        self._begin = _now()

    def stop(self):
        """It ends."""
        if self._begin is not None:
            _state.add({"ph": "X", "name": self.name, "cat": str(self.domain), "ts": self._begin,
                        "dur": _now() - self._begin})
            self._begin = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def __str__(self):
        return self.name


class Task(_Span):
    """Something that takes time."""


class Frame(_Span):
    """One of many things alike."""


class Event(_Span):
    """Something that takes time, of no domain."""

    def __init__(self, name):
        super().__init__("event", name)


class Counter:
    """A number that changes."""

    def __init__(self, domain, name, value=None):
        self.domain, self.name, self.value = domain, name, 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value):
        """Its value from now on."""
        self.value = value
        _state.add({"ph": "C", "name": self.name, "cat": str(self.domain), "ts": _now(),
                    "args": {self.name: value}})

    def increment(self, delta=1):
        self.set_value(self.value + delta)

    def decrement(self, delta=1):
        self.set_value(self.value - delta)

    def __iadd__(self, delta):
        self.increment(delta)
        return self

    def __isub__(self, delta):
        self.decrement(delta)
        return self

    def __str__(self):
        return self.name


class Marker:
    """A moment."""

    def __init__(self, domain, name):
        self.domain, self.name = domain, name

    def mark(self, scope="process"):
        """Now."""
        _state.add({"ph": "i", "name": self.name, "cat": str(self.domain), "ts": _now(),
                    "s": scope[0]})


class scope:  # noqa: N801 - MXNet's name
    """A name for what is computed inside."""

    def __init__(self, name="<unk>:", append_mode=False):
        self._span = Task("scope", name)

    def __enter__(self):
        self._span.start()
        return self

    def __exit__(self, *_):
        self._span.stop()


def set_kvstore_handle(handle):
    """Servers are not timed from here."""


def state():
    """'run' or 'stop'."""
    return "run" if _state.running else "stop"
