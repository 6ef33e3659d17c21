# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as Python's own kinds of exceptions and as the engine's.

>>> import lockstep
>>> try:
...     lockstep.ones((2, 3)) + lockstep.ones((2, 4))
... except ValueError as error:
...     print(error)
add: shapes [2, 3] and [2, 4] do not broadcast
"""


class Error(Exception):
    """What a user or the world did. Its subclasses have the names that the engine's errors have."""


class InvalidArgument(Error, ValueError):
    """A shape, dtype, name or number that cannot be meant."""


class NotFound(Error, LookupError, FileNotFoundError):
    """A file, or a name that nothing has."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class OutOfMemory(Error, MemoryError):
    """More memory was asked for than there is."""


class Corrupt(Error, ValueError):
    """A file whose contents are not what they should be."""


class IoError(Error, OSError):
    """A file that cannot be read or written."""


class Unsupported(Error, NotImplementedError):
    """What Lockstep does not do, such as an op on a device that has no kernel for it."""


class Diverged(Error, ArithmeticError):
    """Training left the numbers: the loss is NaN or infinite."""


class CommError(Error, ConnectionError):
    """What went wrong between the members of a job: `rank`, `host` and `operation` say where."""

    rank = -1
    host = ""
    operation = ""


class PeerLost(CommError):
    """The other end of a connection is gone."""


class Timeout(CommError, TimeoutError):
    """A peer did not do its part before the deadline."""


class StaleGeneration(CommError):
    """A message of another generation of the job's membership."""


class RequestFailed(CommError):
    """A server took a request and could not do what it asks."""


class JobEnded(CommError):
    """The job is over, and so is its coordinator."""


class Deposed(Error):
    """Another member coordinates the job now: this one must not decide anything."""


class Aborted(CommError):
    """Somebody called abort, here or on another rank."""


class Refused(Error):
    """One side would not have the other: a wrong secret, another version or configuration."""


class InternalError(RuntimeError):
    """What only a bug in Lockstep can do."""
