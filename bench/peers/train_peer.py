# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `lockstep bench train`: training on several cores.

train_peer.py --model M --batch B --threads N       one process with N threads
train_peer.py --model M --batch B --processes N     DistributedDataParallel on gloo: N processes of
                                                    one thread, each with its part of the batch

Answers `window SECONDS` lines until standard input ends.
"""

import argparse
import datetime
import json
import os
import socket
import subprocess
import sys
import time

import torch_threads

WARM_UP_STEPS = 3
ONE_WITH_LOSS = -1  # instead of a number of steps


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0, help="of DistributedDataParallel")
    parser.add_argument("--port", type=int, default=0, help="of DistributedDataParallel")
    return parser.parse_args()


OPTIONS = parse()
torch_threads.use(OPTIONS.threads)

try:
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(json.dumps({"error": f"{sys.executable}: {error}"}), flush=True)
    sys.exit(1)

from step import Step  # noqa: E402


def say(answer):
    print(json.dumps(answer), flush=True)


def serve(step, window):
    first = step.run().item()
    for _ in range(WARM_UP_STEPS):
        step.run()
    say({"ready": OPTIONS.model, "loss": first})
    for line in sys.stdin:
        rate = window(float(line.split()[1]))
        say({"samples_per_s": rate, "loss": step.run().item()})


def start(rank):
    command = [sys.executable, *sys.argv, "--port", str(OPTIONS.port), "--rank", str(rank)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Processes:
    """The same steps in every process: rank 0 says how many."""

    def __init__(self):
        self.seconds_per_step = None
        self.step = None

    def join(self):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(OPTIONS.port))
        distributed.init_process_group(
            "gloo",
            rank=OPTIONS.rank,
            world_size=OPTIONS.processes,
            timeout=datetime.timedelta(hours=12),
        )
        self.step = Step(
            OPTIONS.model,
            OPTIONS.channels_last,
            seed=1 + OPTIONS.rank,
            batch=OPTIONS.batch // OPTIONS.processes,
            wrap=DistributedDataParallel,
        )

    def agree(self, steps=0):
        count = torch.tensor([steps])
        distributed.broadcast(count, 0)
        return count.item()

    def run(self):
        """One step of all processes, asked for by rank 0; the mean of their losses."""
        self.agree(ONE_WITH_LOSS)
        return self.mean_loss()

    def mean_loss(self):
        loss = self.step.run().detach()
        distributed.all_reduce(loss)
        return loss / OPTIONS.processes

    def follow(self):
        try:
            while (steps := self.agree()) != 0:
                if steps == ONE_WITH_LOSS:
                    self.mean_loss()
                for _ in range(steps):
                    self.step.run()
        except RuntimeError:
            pass  # rank 0 has gone

    def timed(self, steps):
        """Samples a second."""
        self.agree(steps)
        start = time.perf_counter()
        for _ in range(steps):
            self.step.run()
        spent = time.perf_counter() - start
        self.seconds_per_step = spent / steps
        return steps * OPTIONS.batch / spent

    def window(self, seconds):
        if self.seconds_per_step is None:
            self.timed(1)  # to know how many fill a window
        return self.timed(max(1, round(seconds / self.seconds_per_step)))

    def lead(self):
        others = [start(rank) for rank in range(1, OPTIONS.processes)]
        self.join()
        serve(self, self.window)
        self.agree(0)
        for other in others:
            other.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    torch.set_num_threads(OPTIONS.threads)
    if OPTIONS.processes == 1:
        step = Step(OPTIONS.model, OPTIONS.channels_last, batch=OPTIONS.batch)
        serve(step, step.window)
    elif OPTIONS.rank == 0:
        OPTIONS.port = free_port()
        Processes().lead()
    else:
        processes = Processes()
        processes.join()
        processes.follow()


if __name__ == "__main__":
    main()
