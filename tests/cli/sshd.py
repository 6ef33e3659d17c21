# SPDX-License-Identifier: Apache-2.0
"""A real sshd on loopback with keys of its own: two names for this machine look like two hosts."""
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
    """Runs while the object lives; `ssh` are the words that reach hosts node-a and node-b by it."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("host", "user", "stranger"):
            make_key(folder / name)
        shutil.copy(folder / "user.pub", folder / "authorized")
        os.chmod(folder / "authorized", 0o600)
        self.port = self._free_port()
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/authorized\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin yes\nMaxStartups 50\n")
        host_key = (folder / "host.pub").read_text().split()[:2]
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n")
        (folder / "config").write_text(self._client_config("user", "known"))
        (folder / "wrong_key").write_text(self._client_config("stranger", "known"))
        (folder / "unknown_host").write_text(self._client_config("user", "nobody"))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        self._start()

    def _client_config(self, key, known):
        return (f"Host node-a node-b\n  HostName 127.0.0.1\n  Port {self.port}\n"
                f"Host *\n  User {getpass.getuser()}\n  IdentityFile {self.folder}/{key}\n"
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

    def _start(self):
        log = open(self.folder / "log", "w")
        self.process = subprocess.Popen([find_sshd(), "-D", "-e", "-f", self.folder / "sshd_config"],
                                        stderr=log, stdout=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError("sshd does not answer")

    def stop(self):
        self.process.kill()
        self.process.wait()
