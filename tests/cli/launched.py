# SPDX-License-Identifier: Apache-2.0
"""Words for jobs of lockstep launch, and what they said."""
import re

FEW = ["--data", "synthetic", "--steps", 3, "--global-batch", 16, "--threads", 1, "--quiet",
       "--no-report", "--json"]
LONG = ["--data", "synthetic", "--steps", 100000, "--global-batch", 32, "--threads", 1, "--quiet",
        "--no-report", "--checkpoint-every", 20, "--out", "run"]


def shell(text):
    return ["sh", "-c", text]


def last_line(errors):
    return errors.strip().splitlines()[-1]


def said_by(outcome):
    """What all processes of a job said, without who said it."""
    return sorted(re.sub(r"^\[[^]]*\] ", "", line)
                  for line in (outcome.out + outcome.err).splitlines())
