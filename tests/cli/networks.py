# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a link between them: two hosts, as far as the network goes."""
import os
import shutil
import subprocess

import pytest

ADDRESSES = ("10.78.0.1", "10.78.0.2")


class TwoNetworks:
    """They have no names, and vanish with the last process in them."""

    def __init__(self):
        if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
            pytest.skip("needs root, ip, unshare and nsenter")
        self.holders = [subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"],
                                         stdout=subprocess.PIPE) for _ in ADDRESSES]
        for holder in self.holders:
            holder.stdout.readline()  # it is inside
        self.on(0, "ip", "link", "add", "side0", "type", "veth", "peer", "name", "side1", "netns",
                str(self.holders[1].pid))
        for side, address in enumerate(ADDRESSES):
            self.on(side, "ip", "address", "add", f"{address}/24", "dev", f"side{side}")
            self.on(side, "ip", "link", "set", "lo", "up")
            self.on(side, "ip", "link", "set", f"side{side}", "up")

    def inside(self, side):
        return ["nsenter", f"--net=/proc/{self.holders[side].pid}/ns/net"]

    def on(self, side, *words):
        subprocess.run([*self.inside(side), *words], check=True)

    def cut(self):
        """As of a cable that is pulled out."""
        self.on(1, "ip", "link", "set", "side1", "down")

    def stop(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
