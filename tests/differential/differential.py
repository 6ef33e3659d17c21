#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random cases in every way that Lockstep has and compares them with PyTorch, or with the
reference kernels where it is not installed. Ends with 1 and a case to replay at the first difference.
"""

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]

from draw import draw_case  # noqa: E402
from judge import Finding, check  # noqa: E402
from op_server import OpError, OpServer, ServerDied  # noqa: E402
from programs import Case, new_seed, plan_of, torch  # noqa: E402
from shrink import shrink  # noqa: E402

SHRINK_SECONDS = 20.0


class Tester:
    def __init__(self, ways=None):
        self.server = OpServer()
        self.chosen = ways
        self.ways = ways or self.server.ask({"command": "list"})["ways"]

    def living_server(self):
        if self.server.process.poll() is not None:
            self.server = OpServer()
        return self.server

    def find(self, case):
        """A Finding or None; raises OpError for a case that Lockstep refuses."""
        server = self.living_server()
        plan = plan_of(server, case)
        try:
            return check(server, case, plan, self.ways)
        except ServerDied as death:
            return Finding(death.way, "death", str(death))

    def fails(self, case, kind):
        try:
            finding = self.find(case)
            return finding is not None and finding.kind == kind
        except OpError:
            return False

    def report(self, case, finding, where):
        """Prints the case and the smallest one like it, at once: parts print at the same time."""
        lines = [f"{where}: {finding}", f"  {case.text()}"]
        if self.fails(case, finding.kind):
            fails = functools.partial(self.fails, kind=finding.kind)
            small = shrink(self.living_server, case, fails, SHRINK_SECONDS)
            lines.append(f"  smaller: {self.find(small)}")
            lines.append(f"  make differential CASE='{small.text()}'")
        else:
            lines.append("  a second time it is right: what was run before it matters")
        print("\n".join(lines), flush=True)


def numbers(options):
    """The numbers of the cases of this part, as long as there is time."""
    end = time.monotonic() + options.seconds
    index = options.part
    while index < options.cases and (not options.seconds or time.monotonic() < end):
        yield index
        index += options.parts


def run_cases(tester, options):
    done, refused, findings = 0, 0, 0
    for index in numbers(options):
        where = f"SEED={options.seed} case {index}"
        try:
            case = draw_case(options.seed, index, tester.living_server(), options.kind)
            finding = tester.find(case)
        except OpError as error:
            refused += 1
            if options.verbose:
                print(f"{where}: refused: {error}")
            continue
        done += 1
        if finding:
            findings += 1
            tester.report(case, finding, where)
            if not options.keep_going:
                break
    print(f"part {options.part}: {done} cases, {refused} refused, {findings} findings", flush=True)
    return findings


def unseen_ops(tester):
    """Ops of the catalogue that no case ran."""
    seen = set(tester.living_server().ask({"command": "seen"})["ops"])
    return sorted(set(tester.server.ask({"command": "list"})["ops"]) - seen)


def run_parts(options):
    """This program once for each part, at the same time."""
    command = [sys.executable, __file__, f"--seed={options.seed}", f"--seconds={options.seconds}"]
    command += [f"--cases={options.cases}", f"--parts={options.jobs}"]
    command += [f"--kind={options.kind}"]
    command += ["--keep-going"] * options.keep_going + ["--verbose"] * options.verbose
    parts = [
        subprocess.Popen([*command, f"--part={i}"]) for i in range(options.jobs)
    ]
    return max(part.wait() for part in parts)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="0: as long as there are cases")
    parser.add_argument("--cases", type=int, default=1 << 40, help="how many at most")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None, help="this case of the seed alone")
    parser.add_argument("--case", default="", help="a case that was printed")
    parser.add_argument("--kind", default="", help="op, conv, pool or net alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--parts", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--keep-going", action="store_true", help="report every difference")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.seed = new_seed() if options.seed is None else options.seed
    if options.only is not None:
        options.part, options.cases = options.only, options.only + 1
    if options.case or options.only is not None:
        options.jobs = 1
    return options


def main():
    options = parse_options()
    if options.parts == 1:
        peer = "PyTorch" if torch else "the reference kernels"
        level = os.environ.get("LOCKSTEP_ISA", "the processor's own level")
        print(f"SEED={options.seed}, beside {peer}, {level}", flush=True)
    if options.jobs > 1:
        return run_parts(options)
    if torch:
        torch.set_num_threads(1)
    tester = Tester()
    if options.case:
        finding = tester.find(Case.parse(options.case))
        print(finding or "no difference")
        return 1 if finding else 0
    findings = run_cases(tester, options)
    if options.part == 0 and options.only is None:
        print("ops that no case ran:", " ".join(unseen_ops(tester)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
