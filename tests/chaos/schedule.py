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
    steps, train = STEPS, TRAIN

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


# What is trained while workers are lost, and how far.
JOBS = {"mnist-mlp": (STEPS, ["--global-batch", "32", "--checkpoint-every", "20", "--eval-every", "60"]),
        "mnist-lenet": (60, ["--global-batch", "16", "--checkpoint-every", "10", "--eval-every", "30"]),
        "char-gpt": (16, ["--global-batch", "8", "--checkpoint-every", "4", "--eval-every", "8"])}


class Fault:
    """Something that happens to a job: at a step, or `after` seconds from the fault before it, so
    that it meets what that one has caused."""
    target = "worker"

    def __init__(self, draw, steps):
        is_follower = draw.random() < 0.3
        self.step = None if is_follower else draw.randrange(2, max(3, steps // 2))
        self.after = round(draw.uniform(0, 1.5), 3) if is_follower else 0
        self.index = draw.randrange(12)

    def when(self):
        return f"at step {self.step}" if self.step is not None else f"{self.after} s later"


class Signal(Fault):
    number = signal.SIGKILL

    def __str__(self):
        return f"{self.number.name} to {self.target} {self.index} {self.when()}"


class LossOfWorker(Signal):
    """A worker is killed or stopped while the run is under way."""

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.number = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])


class Pause(Signal):
    """It is stopped for a moment, or for so long that the others go on without it."""
    number = signal.SIGSTOP

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.seconds = round(draw.choice([draw.uniform(0.05, 0.8), draw.uniform(1.2, 4)]), 2)

    def __str__(self):
        return f"{super().__str__()}, for {self.seconds} s"


class Leave(Signal):
    """SIGTERM to a worker alone."""
    number = signal.SIGTERM


class LossOfServer(Signal):
    """One that has a backup."""
    target = "server"


class ChangeOfWorkers(Fault):
    """A command that changes the workers of a job that is under way."""

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.words = draw.choice([["scale", "run", str(draw.randrange(1, 7))],
                                  ["leave", "run", "--worker", str(draw.randrange(4))],
                                  ["join", "run", "--threads", "1"]])

    def __str__(self):
        return f"{' '.join(self.words)} {self.when()}"


class DiskFull(Fault):
    """The run's file system has no room for a while."""

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.seconds = round(draw.uniform(0.2, 2), 2)

    def __str__(self):
        return f"no room on the disk {self.when()}, for {self.seconds} s"


class ClockJump(Fault):
    """The machine's clock is set, forward or back."""

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.offset = draw.choice([-86400, -60, -2, 2, 60, 86400 * 365])

    def __str__(self):
        return f"the clock jumps by {self.offset} s {self.when()}"


class NetworkFault(Fault):
    """Between two hosts, for a while: nothing passes, nothing passes one way, or little passes."""

    def __init__(self, draw, steps):
        super().__init__(draw, steps)
        self.how = draw.choice(["cut", "one way", "slow"])
        self.seconds = round(draw.choice([draw.uniform(0.1, 1), draw.uniform(3, 8)]), 2)

    def __str__(self):
        return f"network {self.how} {self.when()}, for {self.seconds} s"


class ElasticSchedule:
    """One to six faults of a job that survives them: workers are lost, fail, pause, leave and come;
    whoever is hit, the job has to end well: where all are lost it begins again. On two hosts the
    network between them fails, too."""
    stops = frozenset()

    def __init__(self, seed, has_networks=False):
        draw = random.Random(f"elastic {seed}")
        self.seed = seed
        self.recipe = draw.choice(["mnist-mlp"] * 4 + ["mnist-lenet"] * 2 + ["char-gpt"])
        self.steps, self.own_words = JOBS[self.recipe]
        self.workers = draw.randrange(2, 7)
        self.transport = draw.choice(["auto", "auto", "tcp", "zmq"])
        self.resume_on = draw.choice([1, 2])
        self.kind = draw.choice(["train"] * 5 + ["networks"])
        if not has_networks:
            self.kind = "train"
        self.more = ["--heartbeat", 1, "--min-workers", draw.choice([1, self.workers]), "--max-restarts", 100]
        servers = draw.choice([0, 0, 1, 2, 3]) if self.kind == "train" else 0
        replicas = draw.choice([1, 2]) if servers > 1 else 1
        self.more += (["--kvstore", "ps_sync", "--servers", servers, "--replicas", replicas] if servers
                      else [])
        self.more += ["--deal", draw.choice(["even", "speed"])]
        self.events = self.faults(draw, replicas)
        self.environment = {}
        if draw.random() < 0.3:
            how = draw.choice(["exit", "throw"])
            rank, step = draw.randrange(self.workers), draw.randrange(3, self.steps // 2)
            self.environment = {"LOCKSTEP_FAIL_AT": f"{rank}:{step}:{how}"}

    def faults(self, draw, replicas):
        ways = [LossOfWorker] * 6 + [Pause] * 3 + [ChangeOfWorkers] * 3 + [Leave] * 2
        ways += [DiskFull, ClockJump] + [NetworkFault] * 12 * (self.kind == "networks")
        chosen = [draw.choice(ways)(draw, self.steps) for _ in range(draw.randrange(1, 7))]
        if replicas > 1:
            chosen[-1] = LossOfServer(draw, self.steps)
        chosen[0].step = chosen[0].step or 2
        # Those that follow another stay behind it.
        steps = sorted(one.step for one in chosen if one.step is not None)
        for one in chosen:
            if one.step is not None:
                one.step = steps.pop(0)
        return chosen

    @property
    def train(self):
        return ["train", self.recipe, "--data", "synthetic", "--steps", str(self.steps), "--threads",
                "1", "--quiet", "--no-report", "--json", *self.own_words]

    def has(self, kind):
        return any(isinstance(event, kind) for event in self.events)

    def __str__(self):
        events = "; ".join(map(str, self.events))
        fails = "".join(f"; {name}={value}" for name, value in self.environment.items())
        return (f"seed {self.seed}: {self.recipe} on {self.workers} workers, {self.kind}, "
                f"{self.transport}, {' '.join(map(str, self.more))}: {events}{fails}")

    def allowed(self, launcher_killed):
        """Where the last checkpoint had no room, the job says so; what is there can be gone on with."""
        return {0, 1} if self.has(DiskFull) else {0}
