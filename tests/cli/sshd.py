# SPDX-License-Identifier: Apache-2.0
"""A real sshd with keys of its own: two names for this machine look like two hosts."""
import getpass
import os
import shutil
import socket
import subprocess
import time


def find_sshd():
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


class Sshd:
    """Runs until it is stopped; `ssh` are the words that reach hosts node-a, node-b and so on by it.
    `sides` are their addresses, each with the words that put a process there."""

    def __init__(self, folder, sides=(("127.0.0.1", []), ("127.0.0.1", []))):
        self.folder, self.sides, self.processes = folder, sides, []
        for name in ("host", "user", "stranger"):
            make_key(folder / name)
        shutil.copy(folder / "user.pub", folder / "authorized")
        os.chmod(folder / "authorized", 0o600)
        self.port = self._free_port()
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/authorized\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin yes\nMaxStartups 50\n")
        host_key = (folder / "host.pub").read_text().split()[:2]
        (folder / "known").write_text("".join(
            f"[{address}]:{self.port} {' '.join(host_key)}\n" for address, _ in sides))
        (folder / "config").write_text(self._client_config("user", "known"))
        (folder / "wrong_key").write_text(self._client_config("stranger", "known"))
        (folder / "unknown_host").write_text(self._client_config("user", "nobody"))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        for address, inside in dict(sides).items():
            self._start(address, inside)

    def _client_config(self, key, known):
        names = "".join(f"Host {name}\n  HostName {address}\n"
                        for name, (address, _) in zip(("node-a", "node-b", "node-c"), self.sides))
        return (f"{names}Host *\n  Port {self.port}\n  User {getpass.getuser()}\n  IdentityFile {self.folder}/{key}\n"
                f"  IdentitiesOnly yes\n  IdentityAgent none\n"
                f"  UserKnownHostsFile {self.folder}/{known}\n"
                "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
                "  ControlMaster no\n  ControlPath none\n  LogLevel ERROR\n")

    def ssh(self, config="config"):
        return f"ssh -F {self.folder}/{config}"

    @staticmethod
    def _free_port():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    def _start(self, address, inside):
        log = open(self.folder / "log", "w")
        server = [find_sshd(), "-D", "-e", "-f", self.folder / "sshd_config", "-o",
                  f"ListenAddress={address}"]
        self.processes.append(subprocess.Popen([*inside, *server], stderr=log, stdout=log,
                                               stdin=subprocess.DEVNULL))
        end = time.monotonic() + 20
        while "Server listening" not in (self.folder / "log").read_text():
            assert self.processes[-1].poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "sshd does not listen"
            time.sleep(0.05)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
