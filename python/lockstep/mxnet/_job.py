# SPDX-License-Identifier: Apache-2.0
"""This process's place among the workers."""

import lockstep

_state = {"job": None}


def current():
    """The job, joined at the first call: of `lockstep launch`, mpirun or srun, or a process alone.
    """
    if _state["job"] is None:
        _state["job"] = lockstep.join_job()
    return _state["job"]
