# SPDX-License-Identifier: Apache-2.0
"""Connections of every rank with every other one, for _sockets.py.

The caller brings `share`: a function that hands an object to all ranks and returns those of all, such as
torch.distributed.all_gather_object. Addresses and a secret go through it. A connection without the secret is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import time
from pathlib import Path

from ._errors import DeadlineError, PeerError

_GREETING = struct.Struct("<32sii")  # secret, rank, 0: control, 1: data
_BUFFER_BYTES = 4 << 20


def machine() -> str:
    """What processes that can reach each other over the loopback interface have in common."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return socket.gethostname()


def address_towards(host: str) -> str:
    """The address of this machine from which another one is reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent
        return probe.getsockname()[0]


def _own_address(towards: str | None) -> str:
    if towards:
        try:
            found = address_towards(towards)
            if not found.startswith("127."):
                return found
        except OSError:
            pass
    return socket.gethostbyname(socket.gethostname())


def _tune(sock: socket.socket) -> socket.socket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def _call(rank: int, other: int, address: tuple, secret: bytes, kind: int, end: float) -> socket.socket:
    try:
        sock = _tune(socket.create_connection(address, max(0.1, end - time.monotonic())))
        sock.sendall(_GREETING.pack(secret, rank, kind))
        return sock
    except OSError as problem:
        raise PeerError(f"rank {rank} cannot reach rank {other} at {address[0]}:{address[1]}: {problem}") from None


def _answer(listener: socket.socket, secret: bytes, pairs: list, missing: set, end: float) -> None:
    """Take the connections of `missing`, a set of (rank, kind)."""
    while missing:
        listener.settimeout(max(0.01, end - time.monotonic()))
        try:
            sock, _address = listener.accept()
        except (TimeoutError, socket.timeout):
            ranks = sorted({rank for rank, _kind in missing})
            raise DeadlineError(f"ranks {', '.join(map(str, ranks))} have not connected in time") from None
        sock.settimeout(max(0.01, end - time.monotonic()))
        try:
            greeting = _receive(sock, _GREETING.size)
        except OSError:
            greeting = b""
        told, other, kind = _GREETING.unpack(greeting) if len(greeting) == _GREETING.size else (b"", -1, -1)
        if not hmac.compare_digest(told, secret) or (other, kind) not in missing:
            sock.close()
            continue
        missing.discard((other, kind))
        pairs[other][kind] = _tune(sock)


def connect(rank: int, ranks: int, share, timeout: float, towards: str | None = None) -> tuple:
    """(control, data) sockets by rank, and how many ranks are on this machine. All ranks call it together."""
    machines = share(machine())
    alone = len(set(machines)) == 1
    own = "127.0.0.1" if alone else _own_address(towards)
    with socket.create_server((own if alone else "", 0), backlog=2 * ranks) as listener:
        told = share((own, listener.getsockname()[1], secrets.token_bytes(32)))
        secret = told[0][2]  # rank 0's
        end = time.monotonic() + timeout
        pairs = [None if other == rank else [None, None] for other in range(ranks)]
        try:
            for other in range(rank):
                host = "127.0.0.1" if machines[other] == machines[rank] else told[other][0]
                for kind in (0, 1):
                    pairs[other][kind] = _call(rank, other, (host, told[other][1]), secret, kind, end)
            _answer(listener, secret, pairs, {(other, kind) for other in range(rank + 1, ranks) for kind in (0, 1)}, end)
        except BaseException:
            for pair in filter(None, pairs):
                for sock in filter(None, pair):
                    sock.close()
            raise
    return pairs, machines.count(machines[rank])
