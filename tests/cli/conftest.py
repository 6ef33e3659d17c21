# SPDX-License-Identifier: Apache-2.0
"""The program as a user runs it: a process, its exit status, what it prints."""
import json
import os
import resource
import signal
import subprocess

import pytest

PROGRAM = os.environ.get("LOCKSTEP", "build/bin/lockstep")
# Users' programs (tests/roles/), and what the first says as each of two workers and a server.
PROGRAMS = os.environ.get("LOCKSTEP_PROGRAMS", os.path.dirname(os.path.abspath(PROGRAM)))
SHOW_ROLE, LOSE_MEMBER, PUSH_PULL, BAD_REQUESTS = (
    os.path.join(PROGRAMS, name)
    for name in ("show_role", "lose_member", "push_pull", "bad_requests"))
EVERYBODY = "generation 1: worker 0 worker 1 server 0"
ROLES = [f"server 0 of 1, sum 1, {EVERYBODY}", f"worker 0 of 2, sum 3, {EVERYBODY}",
         f"worker 1 of 2, sum 3, {EVERYBODY}"]


class Outcome:
    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    @property
    def json(self):
        """The last line of standard output."""
        assert self.status == 0, self.err
        return json.loads(self.out.strip().splitlines()[-1])

    @property
    def complaint(self):
        """The one line that says what was wrong; progress may stand before it."""
        assert self.err.endswith("\n")
        lines = [line for line in self.err.splitlines() if line.startswith("lockstep: ")]
        assert len(lines) == 1, self.err
        assert self.err.splitlines()[-1] == lines[0]
        return lines[0]


class Lockstep:
    def __init__(self, folder):
        self.folder = folder

    def run(self, *words, status=None, timeout=300, **how):
        process = subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, text=True,
                                 capture_output=True, timeout=timeout, **how)
        outcome = Outcome(process)
        if status is not None:
            assert outcome.status == status, outcome.err + outcome.out
        return outcome

    def start(self, *words, inside=(), env=None):
        return subprocess.Popen([*inside, PROGRAM, *map(str, words)], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def train(self, recipe, *words, **how):
        return self.run("train", recipe, "--data", "synthetic", "--quiet", "--no-report", "--json",
                        *words, **how)

    def run_without_space(self, *words):
        """No file may grow: what a full disk does to standard output."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with open(os.path.join(self.folder, "out"), "w") as out:
            return subprocess.run([PROGRAM, *words], stdout=out, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=limit, restore_signals=False, timeout=60)


@pytest.fixture(autouse=True)
def list_of_jobs(tmp_path_factory, monkeypatch):
    """Tests leave nothing in the list of this user's own jobs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def lockstep(tmp_path):
    return Lockstep(tmp_path)
