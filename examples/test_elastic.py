# SPDX-License-Identifier: Apache-2.0
"""examples/cpp/elastic as a job of three workers of which one is killed, beside the same alone:
test_elastic.py LOCKSTEP ELASTIC [STEPS]"""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "cli"))
from jobs import end, wait_until, workers_of  # noqa: E402

STEPS = "4000"


def threads_of(pid):
    """Their names."""
    names = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            names.append(task.read_text().strip())
        except OSError:
            continue
    return names


def busy_seconds(pid):
    """Of its processor time so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    lockstep, elastic = sys.argv[1:3]
    steps = sys.argv[3] if len(sys.argv) > 3 else STEPS
    alone = subprocess.run([elastic, "synthetic", steps], capture_output=True, text=True, timeout=600,
                           check=True).stdout
    job = subprocess.Popen([lockstep, "launch", "--workers", "3", "--", elastic, "synthetic", steps],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # Each watches its members, in a thread of that name, from its first step on.
        wait_until(lambda: sum("membership" in threads_of(pid)
                               for pid in workers_of(job).values()) == 3, 300)
        # A loss before the coordinator has heard that of all ends the job.
        victim = workers_of(job)[1]
        before = busy_seconds(victim)
        wait_until(lambda: job.poll() is not None or busy_seconds(victim) > before + 0.2, 300)
        os.kill(victim, signal.SIGKILL)
        out, errors = job.communicate(timeout=600)
    finally:
        if job.poll() is None:
            end(job)
    assert job.returncode == 0, errors
    assert "worker 1 is lost" in errors, errors
    assert out == alone and "params_sha256" in out, (out, alone)


if __name__ == "__main__":
    main()
