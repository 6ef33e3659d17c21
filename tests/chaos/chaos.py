#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under random signals, from a seed: each ends within its deadlines with a status that is
documented and leaves nothing behind, and what goes on from its checkpoints has the bits of a run
that nobody disturbed.

  chaos.py --seeds 200       seeds 1 to 200; --first says where to begin
  chaos.py --seed 17         this one again
  chaos.py --elastic         workers are lost, and their jobs have to end well
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from processes import MARK, Family
from schedule import (ChangeOfWorkers, ClockJump, DiskFull, ElasticSchedule, NetworkFault, Pause,
                      Schedule)
from surroundings import Clock, Disk, Networks, later
from jobs import steps_done
from sshd import Sshd, find_sshd

WAIT, GRACE = 8, 4
# ssh takes its time on a busy machine.
TIMEOUT = {"train": WAIT, "launch": 10, "ssh": 30, "networks": 30}
MARGIN = 40  # for the run itself, and for a machine with other things to do
ENOUGH = 8  # schedules, to say whether they did anything
CLONE_NEWNS, CLONE_NEWIPC, MS_PRIVATE = 0x20000, 0x8000000, (1 << 18) | 0x4000


class Wrong(Exception):
    """What a job did that it must not do."""


def own_shared_memory():
    """A /dev/shm and SysV memory that nobody else uses, where we may have them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0:
        return False
    libc.mount(b"none", b"/", None, MS_PRIVATE, None)
    return libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=2g") == 0


class Chaos:
    def __init__(self, program, folder, sshd=None, margin=MARGIN, is_alone=False, networks=None):
        self.program, self.folder, self.sshd = program, pathlib.Path(folder), sshd
        self.margin, self.is_alone, self.networks = margin, is_alone, networks
        self.clock = Clock(folder)
        self.shas = {}  # of undisturbed runs, by what they train
        self.disturbed = 0  # schedules of which a signal came before the end

    def words(self, *words):
        return [self.program, *map(str, words)]

    def reference(self, schedule):
        what = tuple(schedule.train)
        if what not in self.shas:
            done = subprocess.run(self.words(*what, "--out", f"whole-{len(self.shas)}"),
                                  cwd=self.folder, text=True, capture_output=True, timeout=600)
            if done.returncode != 0:
                raise Wrong(f"the undisturbed run failed: {done.stderr}")
            self.shas[what] = json.loads(done.stdout.strip().splitlines()[-1])["params_sha256"]
        return self.shas[what]

    def command(self, schedule, mark):
        train = [*schedule.train, "--out", "run", "--wait", WAIT, *getattr(schedule, "more", [])]
        if schedule.kind == "train":
            return self.words(*train, "--workers", schedule.workers, "--transport",
                              schedule.transport, "--grace", GRACE)
        how = ["launch", "--grace", GRACE, "--timeout", TIMEOUT[schedule.kind], "--transport", schedule.transport]
        if schedule.kind == "networks":
            how += ["--hosts", f"node-a:{(schedule.workers + 1) // 2},node-b:{schedule.workers // 2}",
                    "--ssh", self.networks.sshd.ssh(), "--env", f"{MARK}={mark}", "--env", "TMPDIR"]
            how += ["--env", "LD_PRELOAD", "--env", "CHAOS_CLOCK"] * schedule.has(ClockJump)
            return [*self.networks.inside(), *self.words(*how, "--", self.program, *train)]
        if schedule.kind == "ssh":
            how += ["--hosts", f"node-a:1,node-b:{schedule.workers - 1}", "--ssh", self.sshd.ssh(),
                    "--env", f"{MARK}={mark}", "--env", "TMPDIR"]
        else:
            how += ["--workers", schedule.workers]
        return self.words(*how, "--", self.program, *train)

    def run(self, schedule):
        sha = self.reference(schedule)
        work = self.folder / f"seed-{schedule.seed}"
        shutil.rmtree(work, ignore_errors=True)
        (work / "tmp").mkdir(parents=True)
        mark = uuid.uuid4().hex
        memory = self.memory()
        disk = Disk(work / "run") if self.is_alone and self.fills_disk(schedule) else None
        try:
            job = self.disturb(schedule, work, mark, disk)
            self.disturbed += job.disturbed
            self.check_end(schedule, job, work, sha)
            self.check_nothing_left(schedule, job, work)
            # Where everybody was killed at once, the next job clears up.
            if not job.all_killed:
                self.check_memory(memory)
            self.check_resume(schedule, work, sha, 2 if job.all_killed else schedule.resume_on)
            self.check_memory(memory)
        except Wrong as wrong:
            said = "".join(f"\n  {name}: {(work / name).read_text(errors='replace')[-2000:]}"
                           for name in ("out", "err", "commands") if (work / name).exists())
            raise Wrong(f"{wrong}{said}") from None
        finally:
            if disk:
                disk.give_back()
        shutil.rmtree(work, ignore_errors=True)

    @staticmethod
    def fills_disk(schedule):
        return isinstance(schedule, ElasticSchedule) and schedule.has(DiskFull)

    # Signals.

    def disturb(self, schedule, work, mark, disk):
        environment = dict(os.environ, TMPDIR=str(work / "tmp"), **{MARK: mark},
                           **getattr(schedule, "environment", {}))
        if isinstance(schedule, ElasticSchedule) and schedule.has(ClockJump) and self.clock.works:
            self.clock.set(0)
            environment.update(self.clock.environment())
        with open(work / "out", "w") as out, open(work / "err", "w") as err:
            process = subprocess.Popen(self.command(schedule, mark), cwd=work, stdout=out, stderr=err,
                                       stdin=subprocess.DEVNULL, env=environment,
                                       start_new_session=True)
        family = Family(process.pid, mark, self.sshd_pids(schedule))
        process.family, process.seen, process.launcher_killed = family, set(), False
        process.work, process.environment, process.guests = work, environment, []
        process.disk, process.undone = disk, []
        process.all_killed = process.disturbed = False
        stopped = set()
        try:
            for event in schedule.events:
                self.await_moment(event, process, work)
                self.send(event, process, stopped)
            self.release_launcher(process, stopped)
            process.wait(timeout=self.deadline(schedule))
        except subprocess.TimeoutExpired:
            left = self.describe(family.all() | {process.pid})
            raise Wrong(f"still there {self.deadline(schedule)} s after the last signal: "
                        f"{left}") from None
        finally:
            for timer in process.undone:
                timer.cancel()
                timer.function()
            if process.poll() is None:
                self.clean_up(family)
                process.wait()
            for guest in process.guests:
                try:
                    guest.wait(timeout=self.deadline(schedule))
                except subprocess.TimeoutExpired:
                    guest.kill()
                    guest.wait()
                    raise Wrong(f"{guest.args} is still there after the job") from None
        return process

    def deadline(self, schedule):
        """After the last signal: who is missed, who is not heard, the grace period, what is
        killed."""
        return WAIT + 2 * TIMEOUT[schedule.kind] + GRACE + self.margin

    def await_moment(self, event, process, work):
        """Times count from when there is somebody to signal."""
        end = time.monotonic() + 10
        while not process.family.find(event.target) and process.poll() is None:
            if time.monotonic() > end:
                return
            time.sleep(0.005)
        end = time.monotonic() + (event.after if event.step is None else 10)
        while time.monotonic() < end and process.poll() is None:
            process.seen |= process.family.all()
            if event.step is not None and steps_done(work / "run") >= event.step:
                return
            time.sleep(min(0.02, max(0, end - time.monotonic())))

    def send(self, event, process, stopped):
        if process.poll() is not None:
            return
        if isinstance(event, ChangeOfWorkers):
            return self.change(event, process)
        if isinstance(event, (DiskFull, ClockJump, NetworkFault)):
            return self.take_away(event, process)
        found = process.family.find(event.target)
        process.disturbed = process.disturbed or bool(found)
        if event.target not in ("everybody", "group") and found:
            found = [found[event.index % len(found)]]
        if event.target == "group":  # Ctrl-C in a terminal
            found = [pid for pid in found if self.group_of(pid) == process.pid]
        if event.target == "everybody" and event.number == signal.SIGKILL:
            process.all_killed = True
        for pid in found:
            if pid == process.pid and event.number == signal.SIGKILL:
                process.launcher_killed = True
            if event.number == signal.SIGSTOP:
                stopped.add(pid)
            if isinstance(event, Pause):
                process.undone.append(later(event.seconds, lambda pid=pid: self.wake(process, pid)))
            try:
                os.kill(pid, event.number)
            except ProcessLookupError:
                pass

    def take_away(self, event, process):
        """What a job stands on, for a while."""
        process.disturbed = True
        if isinstance(event, ClockJump):
            return self.clock.set(event.offset)
        if isinstance(event, DiskFull) and process.disk:
            process.disk.fill()
            process.undone.append(later(event.seconds, process.disk.clear))
        if isinstance(event, NetworkFault):
            self.networks.disturb(event.how)
            process.undone.append(later(event.seconds, self.networks.heal))

    @staticmethod
    def wake(process, pid):
        if pid in process.family.all():
            os.kill(pid, signal.SIGCONT)

    def change(self, event, process):
        """Whether the job can do it at that moment is not said: it may be at its end, or waiting."""
        process.disturbed = True
        with open(process.work / "commands", "a") as said:
            process.guests.append(subprocess.Popen(
                self.words(*event.words), cwd=process.work, stdout=said, stderr=said,
                stdin=subprocess.DEVNULL, env=process.environment))

    @staticmethod
    def group_of(pid):
        try:
            return os.getpgid(pid)
        except ProcessLookupError:
            return 0

    @staticmethod
    def release_launcher(process, stopped):
        """Nothing but SIGCONT and SIGKILL reaches a stopped process, and nobody watches a
        launcher. All others find their end by themselves."""
        if process.pid in stopped and process.poll() is None:
            time.sleep(0.3)
            os.kill(process.pid, signal.SIGCONT)

    def sshd_pids(self, schedule):
        server = {"ssh": self.sshd, "networks": self.networks and self.networks.sshd}.get(schedule.kind)
        return {process.pid for process in server.processes} if server else ()

    def clean_up(self, family):
        for pid in family.all() | {family.launcher}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # What is looked at.

    def check_end(self, schedule, job, work, sha):
        status = job.returncode if job.returncode >= 0 else 128 - job.returncode
        allowed = schedule.allowed(job.launcher_killed)
        if status not in allowed:
            raise Wrong(f"ended with status {status}, expected one of {sorted(allowed)}")
        if status == 0:
            out = (work / "out").read_text().strip()
            if not out or json.loads(out.splitlines()[-1])["params_sha256"] != sha:
                raise Wrong("ended with status 0, and other parameters than the undisturbed run")
            if isinstance(schedule, ElasticSchedule) and not schedule.has(DiskFull):
                self.check_each_step_once(schedule, work)

    @staticmethod
    def check_each_step_once(schedule, work):
        rows = [json.loads(line) for line in open(work / "run" / "metrics.jsonl")]
        steps = [row["step"] for row in rows if "learning_rate" in row]
        if steps != list(range(1, schedule.steps + 1)):
            raise Wrong(f"the steps that were made are {steps}, expected 1 to {schedule.steps}")

    def check_memory(self, before):
        if files := self.memory() - before:
            raise Wrong(f"/dev/shm: {sorted(files)}")

    def check_nothing_left(self, schedule, job, work):
        end = time.monotonic() + 2 * TIMEOUT[schedule.kind] + 10
        left = job.family.all()
        while left and time.monotonic() < end:
            time.sleep(0.05)
            left = job.family.all()
        if left:
            text = self.describe(left)
            self.clean_up(job.family)
            raise Wrong(f"processes are left: {text}")
        if files := list((work / "tmp").rglob("*")):
            raise Wrong(f"temporary files are left: {files}")

    def check_resume(self, schedule, work, sha, workers):
        is_run = (work / "run" / "config.json").exists()
        if not is_run:
            shutil.rmtree(work / "run", ignore_errors=True)
        done = subprocess.run(self.words(*schedule.train, "--out", "run", *(["--resume"] if is_run else []),
                                         "--workers", workers),
                              cwd=work, text=True, capture_output=True, timeout=300)
        if done.returncode != 0:
            raise Wrong(f"the run does not go on: {done.stderr}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        if result["params_sha256"] != sha or result["steps"] != schedule.steps:
            raise Wrong("the resumed run has other parameters than the undisturbed one")
        if half := list((work / "run").rglob("*.tmp*")):
            raise Wrong(f"half-written files are left: {half}")

    def memory(self):
        """Names in /dev/shm; where others use it too, those that are ours by name."""
        names = set(os.listdir("/dev/shm"))
        if self.is_alone:
            segments = open("/proc/sysvipc/shm").read().splitlines()[1:]
            return names | {f"SysV {line.split()[1]}" for line in segments}
        return {name for name in names if name.startswith("lockstep-")}

    @staticmethod
    def describe(pids):
        texts = []
        for pid in pids:
            try:
                words = open(f"/proc/{pid}/cmdline").read().replace("\0", " ").strip()
                state = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
                texts.append(f"{pid} ({state}) {words[:80]}")
            except OSError:
                continue
        return "; ".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("LOCKSTEP", "build/bin/lockstep"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--elastic", action="store_true",
                        help="lose workers of jobs that have to end well")
    parser.add_argument("--margin", type=float, default=MARGIN,
                        help="seconds that a job has beyond its own deadlines")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else range(options.first,
                                                                  options.first + options.seeds)
    is_alone = own_shared_memory()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        sshd = None
        if find_sshd():
            (pathlib.Path(folder) / "ssh").mkdir()
            sshd = Sshd(pathlib.Path(folder) / "ssh")
        networks = None
        if options.elastic and Networks.can_be():
            networks = Networks(pathlib.Path(folder) / "networks")
        chaos = Chaos(os.path.abspath(options.program), folder, sshd, options.margin, is_alone, networks)
        bad = []
        try:
            for seed in seeds:
                schedule = (ElasticSchedule(seed, networks is not None) if options.elastic
                            else Schedule(seed, sshd is not None))
                print(schedule, flush=True)
                begin = time.monotonic()
                try:
                    chaos.run(schedule)
                    print(f"  good ({time.monotonic() - begin:.1f} s)", flush=True)
                except Wrong as wrong:
                    bad.append(seed)
                    which = "chaos-elastic" if options.elastic else "chaos"
                    print(f"  WRONG: {wrong}\n  again: make {which} SEED={seed}", flush=True)
        finally:
            for server in filter(None, (sshd, networks)):
                server.stop()
    print(f"{len(seeds) - len(bad)} of {len(seeds)} schedules good, {chaos.disturbed} of "
          "them disturbed before their end" + (f"; bad: {bad}" if bad else ""))
    if len(seeds) >= ENOUGH and 2 * chaos.disturbed < len(seeds):
        print("too few were disturbed: nothing was tried")
        return 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
