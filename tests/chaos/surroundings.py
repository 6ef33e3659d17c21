# SPDX-License-Identifier: Apache-2.0
"""What a job stands on, so that it can be taken away: a disk, a clock, a network."""
import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
from networks import ADDRESSES, TwoNetworks  # noqa: E402
from sshd import Sshd, find_sshd  # noqa: E402

DISK_BYTES = 96 << 20
MNT_DETACH = 2

# Everything that asks for the time of day hears it with an offset, which others can change.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *offset;
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *at = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) offset = at;
  close(file);
}
int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(which, now);
  if (status == 0 && which == CLOCK_REALTIME && offset) now->tv_sec += *offset;
  return status;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


def later(seconds, work):
    """What was done is undone, unless the job is over before."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer


class Clock:
    """Of the processes that have its environment."""

    def __init__(self, folder):
        self.library = pathlib.Path(folder) / "clock.so"
        self.file = pathlib.Path(folder) / "clock"
        self.file.write_bytes(struct.pack("q", 0))
        compiler = shutil.which("cc")
        done = compiler and subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", self.library, "-ldl"], input=CLOCK,
            text=True, capture_output=True)
        self.works = bool(done) and done.returncode == 0

    def environment(self):
        return {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.file)}

    def set(self, offset):
        with open(self.file, "r+b") as file:
            file.write(struct.pack("q", offset))


class Disk:
    """A file system of its own for a folder, in the mount namespace of this process."""

    def __init__(self, folder):
        self.folder, self.filler = folder, folder / "filler"
        folder.mkdir(parents=True)
        libc = ctypes.CDLL(None, use_errno=True)
        self.works = libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0,
                                f"size={DISK_BYTES}".encode()) == 0

    def fill(self):
        try:
            with open(self.filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            pass

    def clear(self):
        self.filler.unlink(missing_ok=True)

    def give_back(self):
        if self.works:
            ctypes.CDLL(None).umount2(bytes(self.folder), MNT_DETACH)


class Networks:
    """Two hosts, node-a with the launcher and node-b, and a link that can be broken."""

    def __init__(self, folder):
        self.two = TwoNetworks()
        sides = [(address, self.two.inside(side)) for side, address in enumerate(ADDRESSES)]
        folder.mkdir()
        self.sshd = Sshd(folder, sides)

    @staticmethod
    def can_be():
        return os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "unshare", "nsenter"))) and (
            find_sshd() is not None)

    def inside(self):
        return self.two.inside(0)

    def _queue(self, side, *words):
        """Whatever leaves that side goes through it."""
        self.two.on(side, "tc", "qdisc", "replace", "dev", f"side{side}", "root", *words)

    def disturb(self, how):
        if how == "slow":
            for side in (0, 1):
                self._queue(side, "tbf", "rate", "2mbit", "burst", "16kb", "latency", "400ms")
        if how in ("cut", "one way"):
            self._queue(1, "pfifo", "limit", "0")
        if how == "cut":
            self._queue(0, "pfifo", "limit", "0")

    def heal(self):
        for side in (0, 1):
            self._queue(side, "pfifo", "limit", "1000")

    def stop(self):
        self.sshd.stop()
        self.two.stop()
