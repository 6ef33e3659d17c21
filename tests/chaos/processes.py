# SPDX-License-Identifier: Apache-2.0
"""Who belongs to a job, wherever it runs: by a mark in the environment, and by ancestors."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
from jobs import environment, name_of, parents  # noqa: E402

MARK = "LOCKSTEP_CHAOS"


def below(roots, table):
    found, wanted = set(), set(roots)
    while wanted:
        wanted = {pid for pid, parent in table.items() if parent in wanted} - found
        found |= wanted
    return found


class Family:
    """The processes of one job; `sshd` is the server whose children are its hosts' processes."""

    def __init__(self, launcher, mark, sshd=()):
        self.launcher, self.mark, self.sshd = launcher, mark, sshd

    def all(self):
        table = parents()
        marked = {pid for pid in table if environment(pid).get(MARK) == self.mark}
        return marked | below({self.launcher}, table) | below(self.sshd, table)

    def members(self, role):
        found = []
        for pid in self.all():
            its = environment(pid)
            if its.get("LOCKSTEP_RANK") and its.get("LOCKSTEP_ROLE", "worker") == role:
                found.append((int(its["LOCKSTEP_RANK"]), pid))
        return [pid for _, pid in sorted(found)]

    def named(self, name):
        return sorted(pid for pid in self.all() if name_of(pid) == name)

    def find(self, target):
        if target == "launcher":
            return [self.launcher]
        if target in ("worker", "server"):
            return self.members(target)
        if target in ("agent", "reaper"):
            return self.named("lockstep-" + target)
        if target == "ssh":
            return self.named("ssh")
        # Of ssh's server only what the job started there: the rest is not the job's.
        return sorted(pid for pid in self.all() | {self.launcher} if name_of(pid) != "sshd")
