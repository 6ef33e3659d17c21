# SPDX-License-Identifier: Apache-2.0
"""The jobs that this process is in are left in order when the interpreter ends."""

import atexit
import os
import sys
import weakref

from lockstep.errors import CommError

_joined = weakref.WeakSet()
_process = os.getpid()


def joined(job):
    """Is told of every job that this process has joined."""
    global _process
    _process = os.getpid()
    _joined.add(job)


@atexit.register
def _leave():
    # A script's variables may outlive the interpreter's end, and then nobody would say goodbye. Who
    # ends by an error says whom it missed, if anybody, and no goodbye: its work is not done.
    if os.getpid() != _process:
        return
    error = getattr(sys, "last_value", None)
    for job in list(_joined):
        if error is None:
            job._leave()
        elif isinstance(error, CommError) and error.rank >= 0:
            job._complain(str(error), error.rank)
