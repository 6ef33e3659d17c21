# SPDX-License-Identifier: Apache-2.0
"""The processes of a job, found by their own pids and environment."""
import os
import re
import signal
import socket
import time


def parents():
    """Parent by pid, of all processes that are not dead."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(pid)] = int(parent)
    return found


def environment(pid):
    try:
        items = open(f"/proc/{pid}/environ", errors="replace").read().split("\0")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return {}
    return dict(item.split("=", 1) for item in items if "=" in item)


def descendants(process):
    """Of a process that we started, itself not among them."""
    table = parents()
    found, wanted = [], {process.pid}
    while wanted:
        wanted = {pid for pid, parent in table.items() if parent in wanted}
        found += wanted
    return found


def workers_of(process):
    """Process ids by rank, of a job whose workers are on this machine."""
    return members_of(process, "worker")


def servers_of(process):
    """The same, of servers by number."""
    return members_of(process, "server")


def members_of(process, role):
    found = {}
    for pid in descendants(process):
        its = environment(pid)
        if "LOCKSTEP_RANK" in its and its.get("LOCKSTEP_ROLE", "worker") == role:
            found[int(its["LOCKSTEP_RANK"])] = pid
    return found


def processes_with(name, value):
    """Those whose environment has it, wherever they come from: a test's own mark."""
    return [pid for pid in parents() if environment(pid).get(name) == value]


def name_of(pid):
    """As ps shows it; empty where there is no such process any more."""
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""


def state_of(pid):
    """One letter, as ps shows it."""
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]


def is_running(pid):
    return pid in parents()


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def checkpoints_of(folder):
    """Their steps."""
    return sorted(int(re.sub(r"\D", "", path.stem)) for path in folder.glob("checkpoints/*.ckpt"))


def steps_done(folder):
    try:
        return sum("learning_rate" in line for line in open(folder / "metrics.jsonl"))
    except FileNotFoundError:
        return 0


def reach(lockstep, process, step, seconds=240):
    """Until the run of a job has done so many steps."""
    wait_until(lambda: steps_done(lockstep.folder / "run") >= step or process.poll() is not None,
               seconds)
    assert process.poll() is None, process.communicate()


def has_event(lockstep, kind):
    path = lockstep.folder / "run" / "events.jsonl"
    return path.exists() and f'"event":"{kind}"' in path.read_text()


def free_ports(count):
    """Of this machine, that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def end(process):
    """A job that a test has started and nobody needs any more, with all of its processes."""
    for pid in [*descendants(process), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate(timeout=60)
