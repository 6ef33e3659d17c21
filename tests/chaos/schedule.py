# SPDX-License-Identifier: Apache-2.0
"""What a seed does to a job: how it is started, and which signals come when, to whom."""
import random
import signal

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
STEPS = 200
TRAIN = ["train", "mnist-mlp", "--data", "synthetic", "--steps", str(STEPS), "--global-batch", "32",
         "--threads", "1", "--checkpoint-every", "20", "--eval-every", "60", "--quiet",
         "--no-report", "--json"]


class Event:
    """One signal. `step`: when the run has got so far; else `after` seconds from the event before."""

    def __init__(self, draw, ways):
        self.step = draw.choice([None, None, draw.randrange(STEPS + 1)])
        self.after = round(draw.choice([draw.uniform(0, 0.3), draw.uniform(0, 2)]), 3)
        self.number = draw.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT] * 3
                                  + [signal.SIGHUP])
        self.target = draw.choice(ways)
        self.index = draw.randrange(4)

    def __str__(self):
        when = f"at step {self.step}" if self.step is not None else f"after {self.after} s"
        return f"{self.number.name} to {self.target} {self.index} {when}"


class Schedule:
    def __init__(self, seed, has_ssh):
        draw = random.Random(seed)
        self.seed = seed
        self.kind = draw.choice(["train", "train", "launch", "launch", "ssh"])
        self.workers = draw.choice([1, 2, 2, 3]) if self.kind == "launch" else draw.choice([2, 3])
        self.transport = draw.choice(["auto", "auto", "tcp", "zmq", "ucx"])
        self.resume_on = draw.choice([1, 2])
        if self.kind == "ssh" and not has_ssh:
            self.kind = "launch"
        ways = ["worker"] * 6 + ["launcher"] * 3 + ["agent", "reaper", "everybody", "group"]
        ways += ["ssh"] * (self.kind == "ssh")
        self.events = [Event(draw, ways) for _ in range(draw.choice([1, 1, 2, 2, 3, 4]))]

    def __str__(self):
        events = "; ".join(map(str, self.events))
        return f"seed {self.seed}: {self.kind}, {self.workers} workers, {self.transport}: {events}"

    @property
    def stops(self):
        return {event.number for event in self.events if event.number in STOPS}

    def is_gentle(self):
        """Nobody is killed or stopped, and nobody is asked twice."""
        return len(self.events) == 1 and self.events[0].number in STOPS

    def allowed(self, launcher_killed):
        """The exit statuses that docs/cli.md allows, as a shell shows them."""
        if launcher_killed:
            return {137}
        allowed = {0} | {128 + number for number in self.stops}
        return allowed if self.is_gentle() else allowed | {1}


class LossOfWorker:
    """A worker is killed or stopped while the run is under way, maybe for a moment."""
    target = "worker"

    def __init__(self, draw):
        self.step = draw.randrange(3, STEPS // 2)
        self.after = 0
        self.number = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        self.index = draw.randrange(12)

    def __str__(self):
        return f"{self.number.name} to worker {self.index} at step {self.step}"


class ChangeOfWorkers:
    """A command that changes the workers of a job that is under way."""
    target = "worker"

    def __init__(self, draw):
        self.step = draw.randrange(3, STEPS // 2)
        self.after = 0
        self.words = draw.choice([["scale", "run", str(draw.randrange(1, 6))],
                                  ["leave", "run", "--worker", str(draw.randrange(4))],
                                  ["join", "run", "--threads", "1"]])

    def __str__(self):
        return f"{' '.join(self.words)} at step {self.step}"


class Leave(LossOfWorker):
    """SIGTERM to a worker alone."""

    def __init__(self, draw):
        super().__init__(draw)
        self.number = signal.SIGTERM


class LossOfServer(LossOfWorker):
    """One that has a backup."""
    target = "server"

    def __init__(self, draw):
        super().__init__(draw)
        self.number = signal.SIGKILL

    def __str__(self):
        return f"{self.number.name} to server {self.index} at step {self.step}"


class ElasticSchedule:
    """Workers are lost, fail, leave and come; whoever is hit, the job has to end well: where all are
    lost it begins again."""
    kind = "train"
    stops = frozenset()

    def __init__(self, seed):
        draw = random.Random(f"elastic {seed}")
        self.seed = seed
        self.workers = draw.choice([2, 3, 4])
        self.transport = draw.choice(["auto", "auto", "tcp", "zmq"])
        self.resume_on = draw.choice([1, 2])
        self.more = ["--heartbeat", 1, "--min-workers", draw.choice([1, self.workers]),
                     "--max-restarts", 100]
        servers = draw.choice([0, 0, 1, 2, 3])
        replicas = draw.choice([1, 2]) if servers > 1 else 1
        self.more += (["--kvstore", "ps_sync", "--servers", servers, "--replicas", replicas] if servers
                      else ["--deal", draw.choice(["even", "speed"])])
        losses = [LossOfWorker(draw) for _ in range(draw.randrange(1, self.workers))]
        losses += [LossOfServer(draw) for _ in range(replicas - 1)]
        changes = [draw.choice([ChangeOfWorkers, ChangeOfWorkers, Leave])(draw)
                   for _ in range(draw.choice([0, 1, 1, 2]))]
        self.events = sorted(losses + changes, key=lambda one: one.step)
        self.environment = {}
        if draw.random() < 0.4:
            how = draw.choice(["exit", "throw"])
            rank, step = draw.randrange(self.workers), draw.randrange(3, STEPS // 2)
            self.environment = {"LOCKSTEP_FAIL_AT": f"{rank}:{step}:{how}"}

    def __str__(self):
        events = "; ".join(map(str, self.events))
        fails = "".join(f"; {name}={value}" for name, value in self.environment.items())
        return (f"seed {self.seed}: {self.workers} workers, {self.transport}, "
                f"{' '.join(map(str, self.more))}: {events}{fails}")

    def allowed(self, launcher_killed):
        return {0}
