# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A wire between two network namespaces that loses packets: wire.py NAMESPACE ADDRESS NAMESPACE ADDRESS PERCENT."""

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def end(name, namespace, address):
    """A device there; what is sent to it is read here."""
    with open(f"/run/netns/{namespace}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return fd


a, b = end("lossy0", sys.argv[1], sys.argv[2]), end("lossy1", sys.argv[3], sys.argv[4])
lost, chance = random.Random(1), float(sys.argv[5]) / 100
print("ready", flush=True)
while True:
    for fd in select.select([a, b], [], [])[0]:
        packet = os.read(fd, 65536)
        # The first bytes of a connection must pass: a lost SYN costs a second.
        if len(packet) < 100 or lost.random() >= chance:
            os.write(b if fd == a else a, packet)
