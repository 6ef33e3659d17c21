# SPDX-License-Identifier: Apache-2.0
"""python3 -m lockstep.mxnet script.py args: runs a script whose `import mxnet` finds this package.

`-m module` and `-c code` are understood as Python's own.
"""

import importlib.util
import os
import runpy
import sys

from lockstep.mxnet import _alias, _job

_USAGE = "usage: python3 -m lockstep.mxnet [-m module | -c code | script.py] [arguments]"


def _missing(arguments):
    """What the command line names and is not there."""
    first, *rest = arguments
    if first in ("-c", "-m") and not rest:
        return f"{first} needs {'a module' if first == '-m' else 'code'}; {_USAGE}"
    if first not in ("-c", "-m") and not os.access(first, os.R_OK):
        return f"cannot read '{first}': " + ("permission denied" if os.path.exists(first)
                                             else "no such file")
    return None


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def main(arguments):
    """Runs what the command line names."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    trouble = _missing(arguments)
    if trouble:
        print(f"lockstep.mxnet: {trouble}", file=sys.stderr)
        return 2
    _alias.install()
    # Before anything is computed: servers and schedulers of a job stay in here.
    _job.current()
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        return 0
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        if not _is_module(arguments[1]):
            print(f"lockstep.mxnet: there is no module '{arguments[1]}'", file=sys.stderr)
            return 1
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
