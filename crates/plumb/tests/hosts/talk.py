#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Both ends of a connection that speaks a storage protocol, as far as its headers go.

talk.py serve|call PROTOCOL ADDRESS: `serve` answers until the other end closes, `call` sends 20 commands and waits for each.
The first ten are sent at once: their headers lie anywhere in segments. PROTOCOL: iscsi, iscsi-digests, nvme, nfs."""
import socket
import struct
import sys
import time

role, protocol, address = sys.argv[1:]
HOST, PORT = address, {"iscsi": 3260, "iscsi-digests": 3260, "nvme": 4420, "nfs": 2049}[protocol]
DIGEST = b"\xde\xad\xbe\xef" if protocol == "iscsi-digests" else b""
COMMANDS = 20


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def iscsi(first, flags, tag, extra, data=b""):
    """A PDU of RFC 7143; `extra` from byte 20 on."""
    head = bytes([first, flags, 0, 0]) + struct.pack(">I", len(data)) + bytes(8) + struct.pack(">I", tag) + extra
    return head.ljust(48, b"\0") + DIGEST + (padded(data) + DIGEST if data else b"")


def command(n):
    """The n-th command: even ones read 4 KiB, odd ones write about 1,000 bytes for each before them."""
    if protocol.startswith("iscsi"):
        if n % 2:
            data = b"\x01" * (1024 * n)
            cdb = struct.pack(">BBIBHB", 0x2A, 0, n, 0, 2 * n, 0)
            return iscsi(0x01, 0xA0, n, struct.pack(">III", len(data), n, 0) + cdb, data)
        cdb = struct.pack(">BBIBHB", 0x28, 0, n * 8, 0, 8, 0)
        return iscsi(0x41, 0xC0, n, struct.pack(">III", 4096, n, 0) + cdb)
    if protocol == "nvme":
        write, length = n % 2, 1024 * n if n % 2 else 4096
        data = b"\x04" * length if write else b""
        entry = struct.pack("<BBHI", 2 - write, 0x40, n, 1) + bytes(16) + struct.pack("<QIBBBBQHH", 0, length, 0, 0, 0, 1, n * 8, length // 512 - 1, 0)
        return struct.pack("<BBBBI", 4, 0, 72, 72 if write else 0, 72 + len(data)) + entry.ljust(64, b"\0") + data
    call = struct.pack(">IIIIII", n, 0, 2, 100003, 3, 7 if n % 2 else 6) + b"\x00" * (1000 * n if n % 2 else 80)
    return struct.pack(">I", 0x80000000 | len(call)) + call


def answer(n):
    if protocol.startswith("iscsi"):
        if n % 2:
            return iscsi(0x21, 0x80, n, bytes(4))
        return iscsi(0x25, 0x80, n, bytes(4), b"\x21" * 2048) + iscsi(0x25, 0x81, n, bytes(4), b"\x25" * 2048)
    if protocol == "nvme":
        response = struct.pack("<BBBBI", 5, 0, 24, 0, 24) + struct.pack("<QHHHH", 0, 0, 0, n, 0)
        if n % 2:
            return response
        return struct.pack("<BBBBIHHIII", 7, 4, 24, 24, 24 + 4096, n, 0, 0, 4096, 0) + b"\x05" * 4096 + response
    reply = struct.pack(">III", n, 1, 0) + b"\x00" * (40 if n % 2 else 5000)
    return struct.pack(">I", 0x80000000 | len(reply)) + reply


def take(stream, whole):
    got = stream.recv(len(whole), socket.MSG_WAITALL)
    if got and got != whole:
        sys.exit(f"not what was sent: {got[:60]!r}")
    return bool(got)


if role == "serve":
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, PORT))
    listener.listen(1)
    stream, _ = listener.accept()
    for n in range(COMMANDS):
        if not take(stream, command(n)):
            sys.exit("the other end closed")
        time.sleep(0.002)
        stream.sendall(answer(n))
    stream.recv(1)
else:
    until = time.time() + 10
    while True:
        try:
            stream = socket.create_connection((HOST, PORT))
            break
        except OSError:
            if time.time() > until:
                raise
            time.sleep(0.02)
    stream.sendall(b"".join(map(command, range(10))))
    for n in range(10):
        take(stream, answer(n))
    for n in range(10, COMMANDS):
        stream.sendall(command(n))
        take(stream, answer(n))
