# SPDX-License-Identifier: Apache-2.0
"""Processes that compute beside this one: what Python does alone takes no turns with the step.

They are forks, so that functions and data sets need not be pickled. What they return is: small
things through a socket, large arrays in memory that both processes have mapped.
"""

import io
import mmap
import multiprocessing
import os
import pickle
import queue
import select
import signal
import socket
import struct
import time
import traceback

from lockstep import _core

_HEAD = struct.Struct("<QI?")  # bytes of the pickle, number of buffers, whether they are mapped
_INLINE = 1 << 16
_ALIGN = 64


def _tensor_of(array):
    return _core._share_buffer(array)


def _reduce_tensor(x):
    if x.dtype.name == "bfloat16" or x.size == 0:
        return x.__reduce__()
    return _tensor_of, (x.detach().contiguous().numpy(),)


class _Pickler(pickle.Pickler):
    """Gives the memory of tensors away as NumPy does with that of its arrays."""

    def reducer_override(self, item):
        return _reduce_tensor(item) if type(item) is _core.Tensor else NotImplemented


def _padded(size):
    return -(-size // _ALIGN) * _ALIGN


def _send(connection, item):
    buffers, file = [], io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(item)
    contents, parts = file.getbuffer(), [buffer.raw() for buffer in buffers]
    total = sum(_padded(len(part)) for part in parts)
    mapped = total > _INLINE
    head = _HEAD.pack(len(contents), len(parts), mapped)
    connection.sendall(head + struct.pack(f"<{len(parts)}Q", *map(len, parts)))
    connection.sendall(contents)
    if not mapped:
        for part in parts:
            connection.sendall(part)
        return
    memory = os.memfd_create("lockstep-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(memory, total)
        with mmap.mmap(memory, total) as whole:
            begin = 0
            for part in parts:
                whole[begin:begin + len(part)] = part
                begin += _padded(len(part))
        socket.send_fds(connection, [b"m"], [memory])
    finally:
        os.close(memory)


class _Receiver:
    """Reads of a socket until a moment."""

    def __init__(self, connection, timeout):
        self.connection, self.end = connection, time.monotonic() + timeout

    def _wait(self):
        left = self.end - time.monotonic()
        if left <= 0 or not select.select([self.connection], [], [], left)[0]:
            raise TimeoutError

    def exactly(self, count):
        contents = bytearray(count)
        view = memoryview(contents)
        while view:
            self._wait()
            got = self.connection.recv_into(view)
            if not got:
                raise EOFError
            view = view[got:]
        return contents

    def mapped(self, total):
        self._wait()
        contents, files, _, _ = socket.recv_fds(self.connection, 1, 1)
        if not contents or not files:
            raise EOFError
        try:
            return mmap.mmap(files[0], total)
        finally:
            os.close(files[0])

    def item(self):
        size, count, mapped = _HEAD.unpack(self.exactly(_HEAD.size))
        sizes = struct.unpack(f"<{count}Q", self.exactly(8 * count))
        contents = self.exactly(size)
        if not mapped:
            return pickle.loads(contents, buffers=[self.exactly(n) for n in sizes])
        whole = memoryview(self.mapped(sum(_padded(n) for n in sizes)))
        buffers, begin = [], 0
        for n in sizes:
            buffers.append(whole[begin:begin + n])
            begin += _padded(n)
        return pickle.loads(contents, buffers=buffers)


def _failure(error):
    """An exception as another process can raise it, and where it came from."""
    where = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: B902: whatever its __reduce__ may do
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, where


def _serve(function, connection, parent):
    """A process's life: arguments in, results out, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    while True:
        if not select.select([connection], [], [], 1.0)[0]:
            if os.getppid() != parent:
                return
            continue
        try:
            argument = _Receiver(connection, 60.0).item()
        except (EOFError, OSError, TimeoutError):
            return  # nobody asks any more
        try:
            reply = True, function(argument)
        except BaseException as error:  # noqa: B902: it is raised where it was asked for
            reply = False, _failure(error)
        try:
            _send(connection, reply)
        except OSError:
            return
        except Exception as error:  # noqa: B902: a result that cannot be pickled
            _send(connection, (False, _failure(error)))


class _Worker:
    def __init__(self, function, name):
        self.name = name
        self.connection, theirs = socket.socketpair()
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=_serve, args=(function, theirs, os.getpid()),
                                       name=name, daemon=True)
        self.process.start()
        theirs.close()

    def call(self, argument, timeout):
        if self.connection is None:
            raise RuntimeError(f"{self.name}: the process has ended")
        try:
            _send(self.connection, argument)
            fine, result = _Receiver(self.connection, timeout).item()
        except TimeoutError:
            self.close(0.0)
            raise TimeoutError(f"{self.name}: nothing came within {timeout:g} s; give timeout= "
                               "more, or look at the data set's __getitem__") from None
        except (EOFError, OSError, ValueError):  # of a socket that was closed
            self.close(5.0)
            raise RuntimeError(f"{self.name}: the process ended with code "
                               f"{self.process.exitcode}") from None
        if fine:
            return result
        error, where = result
        raise error from RuntimeError(f"in {self.name}:\n{where}")

    def stop(self):
        """Says that nobody asks any more, to the process and to who waits for it."""
        if self.connection is not None:
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self, patience):
        connection, self.connection = self.connection, None
        if connection is None:
            return
        connection.close()
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Processes:
    """`count` forks of this process that compute function(argument), one argument each at a time.

    Several threads may call at once. What the function raises is raised here; a process that ends
    is a RuntimeError, one that is late a TimeoutError.
    """

    def __init__(self, function, count, timeout=120.0, name="data"):
        self.count, self._timeout, self._idle = count, timeout, queue.SimpleQueue()
        self._owner = os.getpid()
        self._workers = [_Worker(function, f"{name} process {i}") for i in range(count)]
        for worker in self._workers:
            self._idle.put(worker)

    def __call__(self, argument):
        try:
            worker = self._idle.get(timeout=self._timeout)
        except queue.Empty:
            raise TimeoutError(f"all {self.count} data processes were busy for "
                               f"{self._timeout:g} s") from None
        try:
            return worker.call(argument, self._timeout)
        finally:
            self._idle.put(worker)

    def close(self):
        """Ends the processes; who is computing may end that."""
        # At the interpreter's end modules are gone, and the processes hear that their pipes are.
        if os is not None and os.getpid() == self._owner:
            for worker in self._workers:
                worker.stop()
            for worker in self._workers:
                worker.close(1.0)

    def __del__(self):
        try:
            self.close()
        except Exception:  # noqa: B902: at the interpreter's end parts of it are gone
            pass
