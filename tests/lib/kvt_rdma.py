# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Other people's RDMA programs in pairs, on soft0, as this user or as an ordinary one."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from kvt_process import BUILD, DEVICE, HOST, Process, free_port, wait_until

NOBODY = 65534
USERS = ["root", "ordinary"] if os.getuid() == 0 else ["ordinary"]
START_S = 20
RUN_S = 240  # on a machine that does other things


class Installed:
    """softrdma-run and its libraries, installed where every user can read them."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="softrdma-test-"))
        self.root.chmod(0o755)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                        self.root], check=True, stdout=subprocess.DEVNULL)
        (self.run,) = self.root.rglob("bin/softrdma-run")

    def remove(self):
        shutil.rmtree(self.root)


def as_user(user):
    """What runs a command as @user, from here."""
    if user == "root" or os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def listens(port):
    """Does somebody listen on a TCP port? Asked without connecting to it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


class Programs:
    """Starts programs on soft0 and ends those that are left."""

    def __init__(self, installed, folder):
        self.installed = installed
        self.folder = folder
        self.count = 0
        self.running = []

    def start(self, args, user, options=()):
        self.count += 1
        process = Process([*as_user(user), str(self.installed.run), *options, *args],
                          self.folder / f"stderr-{self.count}")
        self.running.append(process)
        return process

    def one(self, *args, user=USERS[-1], options=(), seconds=RUN_S):
        """Run a program to its end: exit code, stdout, stderr."""
        process = self.start(args, user, options)
        out = output(process, seconds)
        return process.popen.returncode, out, process.stderr()

    def server(self, args, port, user, options=()):
        """Start one that listens on a port, and wait until it does."""
        process = self.start([*args, "-p", str(port)], user, options)
        wait_until(f"{args[0]} listens, or ends",
                   lambda: listens(port) or not process.running(), START_S)
        assert process.running(), process.stderr() + output(process, 5)
        return process

    def pair(self, *args, user=USERS[-1], options=(), seconds=RUN_S):
        """A server and a client of the same arguments. What both printed; both must succeed."""
        port = free_port()
        server = self.server(args, port, user, options)
        client = self.start([*args, "-p", str(port), HOST], user, options)
        said = output(client, seconds)
        heard = output(server, seconds)
        what = f"{' '.join(args)}\nclient: {said}{client.stderr()}\nserver: {heard}" \
               f"{server.stderr()}"
        assert client.popen.returncode == 0 and server.popen.returncode == 0, what
        return said, heard

    def end(self):
        for process in self.running:
            process.close()


def output(process, seconds):
    """All that a process prints, until it ends, which must be within the seconds."""
    lines = []
    while True:
        line = process.read_line(seconds)
        if line is None:
            break
        lines.append(line)
    process.wait(seconds)
    return "\n".join(lines) + "\n"


def rows(text):
    """The rows of perftest's table: lists of numbers."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        try:
            found.append([float(field) for field in fields])
        except ValueError:
            continue
    return [row for row in found if len(row) >= 4]


def netdev_of(device):
    """The network device of an RDMA device, after sysfs; None: there is none."""
    folder = pathlib.Path("/sys/class/infiniband") / device
    for path in sorted(folder.glob("ports/*/gid_attrs/ndevs/*"))[:4]:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError:
            pass  # an entry that is not used
    return next((path.name for path in sorted(folder.glob("device/net/*"))), None)


def address_of(device=DEVICE):
    """The first IPv4 address of its network device; None: it has none."""
    if device.startswith("soft"):
        return "127.0.0.1"
    if not (netdev := netdev_of(device)):
        return None
    done = subprocess.run(["ip", "-j", "-4", "addr", "show", "dev", netdev], capture_output=True,
                          text=True, timeout=20, check=True)
    return next((one["local"] for link in json.loads(done.stdout)
                 for one in link.get("addr_info", []) if one.get("local")), None)


def resources(device=DEVICE):
    """What a device of the kernel has: {"qp": 1, "mr": 0, "pd": 1, ...}, after `rdma res show`;
    None where that is not installed."""
    if not shutil.which("rdma"):
        return None
    done = subprocess.run(["rdma", "-j", "res", "show", device], capture_output=True, text=True,
                          timeout=20, check=True)
    (found,) = json.loads(done.stdout)
    return {name: found[name] for name in ("pd", "cq", "qp", "mr", "ctx", "srq", "cm_id")}
