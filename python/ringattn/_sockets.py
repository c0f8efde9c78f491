# SPDX-License-Identifier: Apache-2.0
"""A transport of the library (include/ringattn/transport.h) over TCP sockets. Connections are made in _connect.py.

Between each two ranks there are two connections, so that a large message never delays what is said out of turn:

    control   READY(tag) from the receiver of a message, signs of life, questions, notices, good-byes
    data      a message: its header and its bytes. It is sent when its receiver is READY, so that nothing is stored

Bytes go from and to the segments of the library, by sendmsg and recvmsg of the C library: a segment is an iovec.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import time
from collections import deque
from ctypes import byref, c_int, c_size_t, c_ssize_t, c_void_p

import numpy as np

from ._ring_library import CANCELLED, NOTICE_LEFT, PEER, Abandon, Close, Notice, Notify, Progress, Segment, Start
from ._ring_library import Transport, TransportState, transport_fail

LIFE_SECONDS = 0.1  # between two signs of life
NOTICE_SECONDS = 1.0  # for notices and good-byes to leave
# The engine looks every 0.2 ms while it computes, and without a pause while it waits. A look so soon after the last one
# sleeps until something comes, for a moment: spinning would take the processor from those that are waited for.
_SOON_SECONDS, _MOMENT_SECONDS = 1.5e-4, 1e-3
_TAG_MOST = 32767
_IOVECS = 1024  # at most, in one call of the operating system
_TURN_BYTES = 8 << 20  # at most, from one rank in one turn: other ranks have theirs
_ARGUMENT = 1

_WORD = struct.Struct("<iiq")  # kind, tag, bytes
_LIFE, _QUESTION, _READY, _NOTICE, _BYE, _DATA = range(6)

_libc = ctypes.CDLL(None, use_errno=True)


class _MessageHeader(ctypes.Structure):
    """struct msghdr"""

    _fields_ = [
        ("name", c_void_p),
        ("name_bytes", ctypes.c_uint32),
        ("iovecs", c_void_p),
        ("iovec_count", c_size_t),
        ("control", c_void_p),
        ("control_bytes", c_size_t),
        ("flags", c_int),
    ]


for _function in (_libc.sendmsg, _libc.recvmsg):
    _function.restype = c_ssize_t
    _function.argtypes = [c_int, c_void_p, c_int]

_SEND_FLAGS = 0x40 | 0x4000  # MSG_DONTWAIT | MSG_NOSIGNAL
_RECEIVE_FLAGS = 0x40
_LATER = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class _Gone(Exception):
    """The other end of a connection has ended."""


def _table(at: int, count: int) -> np.ndarray:
    """Addresses and bytes of segments, [count, 2], on their memory."""
    if not count:
        return np.empty((0, 2), np.int64)
    return np.frombuffer((Segment * count).from_address(at), np.int64).reshape(count, 2)


class _Stretch:
    """Segments, and how far they have been sent or filled. With a tag, a header is sent in front of them."""

    def __init__(self, at: int, count: int, tag: int | None = None):
        own = 0 if tag is None else 1
        self.segments = (Segment * (count + own))()
        ctypes.memmove(byref(self.segments, own * ctypes.sizeof(Segment)), at, count * ctypes.sizeof(Segment))
        table = _table(ctypes.addressof(self.segments), count + own)
        self.addresses, self.sizes = table[:, 0], table[:, 1]
        if own:
            self.head = ctypes.create_string_buffer(_WORD.pack(_DATA, tag, int(self.sizes.sum())), _WORD.size)
            table[0] = ctypes.addressof(self.head), _WORD.size
        self.ends = np.cumsum(self.sizes)
        self.bytes = int(self.ends[-1]) if len(self.ends) else 0
        self.done = 0
        self.message = _MessageHeader()

    def move(self, function, descriptor: int, flags: int, most: int) -> int:
        """Move what can be moved at once; returns the bytes."""
        before = self.done
        while self.done < self.bytes and self.done - before < most:
            index = int(np.searchsorted(self.ends, self.done, "right"))
            skipped = self.done - (int(self.ends[index]) - int(self.sizes[index]))
            self.addresses[index] += skipped
            self.sizes[index] -= skipped
            self.message.iovecs = ctypes.addressof(self.segments) + index * ctypes.sizeof(Segment)
            self.message.iovec_count = min(len(self.ends) - index, _IOVECS)
            count = function(descriptor, byref(self.message), flags)
            code = ctypes.get_errno()
            self.addresses[index] -= skipped
            self.sizes[index] += skipped
            if count == 0:
                raise _Gone("the connection has ended")
            if count < 0:
                if code in _LATER:
                    break
                raise _Gone(os.strerror(code))
            self.done += count
        return self.done - before


class _Peer:
    """What a rank knows of another one."""

    def __init__(self, control, data):
        self.control, self.data = control, data
        self.said = bytearray()  # control words that have not left yet
        self.heard_bytes = bytearray()  # of a control word that has not come as a whole
        self.waiting_sends = {}  # tag: stretches that wait for READY
        self.ready = {}  # tag: how often READY came without a message to send
        self.sends = deque()  # stretches that may go
        self.receives = {}  # tag: stretches in the order in which they were started
        self.header = bytearray()  # of the message that arrives
        self.arriving = None  # its stretch
        self.unfinished = 0
        self.heard = 0.0  # when; 0: never
        self.asked = 0.0  # when it was asked for a sign of life and has not been heard since; 0: it was not
        self.owed = False  # it has asked
        self.left = None  # "" if it said good-bye, else what ended its control connection
        self.drained = False  # nothing more will come over the data connection


class SocketTransport:
    """A rank's transport. `peers` has the (control, data) sockets by rank, None for this rank."""

    def __init__(self, rank: int, peers: list):
        self.rank, self.ranks = rank, len(peers)
        self.peers = [None if pair is None else _Peer(*pair) for pair in peers]
        self.others = [(number, peer) for number, peer in enumerate(self.peers) if peer]
        self.own_sends, self.own_receives = {}, {}
        self.unfinished = 0
        self.last_life, self.looked_at, self.owed = 0.0, 0, 0
        self.last_look = 0.0
        self.notice = None
        self.closed = self.abandoned = False
        self.interrupt = None  # a HeldInterrupt, while there is one
        self.poll = select.epoll()
        self.by_descriptor = {}
        for number, peer in self.others:
            for sock, is_data in ((peer.control, False), (peer.data, True)):
                sock.setblocking(False)
                self.poll.register(sock.fileno(), select.EPOLLIN)
                self.by_descriptor[sock.fileno()] = (number, peer, is_data)
        self.struct = self._struct()

    def _struct(self) -> Transport:
        return Transport(
            ctypes.sizeof(Transport),
            b"sockets",
            self.rank,
            self.ranks,
            None,
            None,
            Start(lambda _state, peer, tag, at, count: self._guard(self._receive, peer, tag, at, count)),
            Start(lambda _state, peer, tag, at, count: self._guard(self._send, peer, tag, at, count)),
            Progress(lambda _state, found: self._guard(self._progress, found)),
            Notify(lambda _state, notice: self._guard(self.notify, notice[0])),
            Abandon(lambda _state: self._abandon()),
            Close(lambda _state: self.close()),
        )

    def _guard(self, function, *arguments) -> int:
        """Exceptions never reach C."""
        try:
            return function(*arguments) or 0
        except BaseException as problem:
            return transport_fail(PEER, f"rank {self.rank}: {type(problem).__name__}: {problem}")

    # ---- Starting a message ------------------------------------------------------------------------------------------

    def _check(self, verb: str, peer: int, tag: int, at, count: int) -> str | None:
        if not 0 <= peer < self.ranks:
            return f"{verb} rank {peer}: must be 0..{self.ranks - 1}"
        if not 0 <= tag <= _TAG_MOST:
            return f"{verb} rank {peer}: tag {tag}: must be 0..{_TAG_MOST}"
        if count < 0 or (count and not at):
            return f"{verb} rank {peer}: {count} segments at {at}"
        table = _table(at, count)
        addresses, sizes = table[:, 0], table[:, 1]
        wrong = (sizes < 0) | ((sizes > 0) & (addresses == 0)) | (np.cumsum(sizes, dtype=float) >= 2.0**63)
        if wrong.any():
            index = int(wrong.argmax())
            return f"{verb} rank {peer}: segment {index} has {sizes[index]} bytes at {addresses[index]:#x}"
        return None

    def _count(self, number: int, by: int) -> None:
        self.unfinished += by
        peer = self.peers[number]
        if peer:
            peer.unfinished += by
            if by > 0 and peer.unfinished == by:
                peer.asked = 0.0

    def _receive(self, number: int, tag: int, at, count: int) -> int:
        problem = self._check("receive from", number, tag, at, count)
        if problem:
            return transport_fail(_ARGUMENT, problem)
        stretch = _Stretch(at or 0, count)
        self._count(number, 1)
        if number == self.rank:
            self.own_receives.setdefault(tag, deque()).append(stretch)
            return self._move_own(tag)
        peer = self.peers[number]
        peer.receives.setdefault(tag, deque()).append(stretch)
        self._say(peer, _READY, tag)
        return 0

    def _send(self, number: int, tag: int, at, count: int) -> int:
        problem = self._check("send to", number, tag, at, count)
        if problem:
            return transport_fail(_ARGUMENT, problem)
        self._count(number, 1)
        if number == self.rank:
            self.own_sends.setdefault(tag, deque()).append(_Stretch(at or 0, count))
            return self._move_own(tag)
        peer = self.peers[number]
        stretch = _Stretch(at or 0, count, tag)
        if peer.ready.get(tag):
            peer.ready[tag] -= 1
            peer.sends.append(stretch)
            self._write(peer)
        else:
            peer.waiting_sends.setdefault(tag, deque()).append(stretch)
        return 0

    def _move_own(self, tag: int) -> int:
        """A message of a rank to itself."""
        sends, receives = self.own_sends.get(tag), self.own_receives.get(tag)
        while sends and receives:
            source, target = sends.popleft(), receives.popleft()
            if source.bytes != target.bytes:
                return self._wrong_size(self.rank, source.bytes, target.bytes, tag)
            data = b"".join(ctypes.string_at(int(at), int(size)) for at, size in zip(source.addresses, source.sizes))
            for at, size, end in zip(target.addresses, target.sizes, target.ends):
                ctypes.memmove(int(at), data[int(end - size) : int(end)], int(size))
            self._count(self.rank, -2)
        return 0

    def _wrong_size(self, number: int, sent: int, expected: int, tag: int) -> int:
        return transport_fail(PEER, f"rank {number} sent {sent} bytes where {expected} were expected (tag {tag})")

    # ---- Moving bytes ------------------------------------------------------------------------------------------------

    def _say(self, peer: _Peer, kind: int, tag: int = 0, more: bytes = b"") -> None:
        if peer.left is None:
            peer.said += _WORD.pack(kind, tag, len(more)) + more
            self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        try:
            while peer.said:
                del peer.said[: peer.control.send(peer.said)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            peer.said.clear()  # what it said before it ended is read first

    def _write(self, peer: _Peer) -> None:
        """Send what may go."""
        try:
            while peer.sends:
                stretch = peer.sends[0]
                stretch.move(_libc.sendmsg, peer.data.fileno(), _SEND_FLAGS, stretch.bytes)
                if stretch.done < stretch.bytes:
                    return
                peer.sends.popleft()
                self._count_of(peer, -1)
        except _Gone:
            peer.sends.clear()  # why, the control connection says

    def _count_of(self, peer: _Peer, by: int) -> None:
        self.unfinished += by
        peer.unfinished += by

    def _end(self, sock) -> None:
        if sock.fileno() in self.by_descriptor:
            self.poll.unregister(sock.fileno())
            del self.by_descriptor[sock.fileno()]

    def _read_control(self, number: int, peer: _Peer) -> None:
        try:
            data = peer.control.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            data, how = b"", problem.strerror
        else:
            how = "its connection has ended"
        if not data:
            self._end(peer.control)
            if peer.left is None:
                peer.left = how
            return
        self._heard(peer)
        peer.heard_bytes += data
        at = 0
        while len(peer.heard_bytes) - at >= _WORD.size:
            kind, tag, size = _WORD.unpack_from(peer.heard_bytes, at)
            if len(peer.heard_bytes) - at < _WORD.size + size:
                break
            self._understand(peer, kind, tag, bytes(peer.heard_bytes[at + _WORD.size : at + _WORD.size + size]))
            at += _WORD.size + size
        del peer.heard_bytes[:at]

    def _heard(self, peer: _Peer) -> None:
        peer.heard, peer.asked = time.monotonic(), 0.0

    def _understand(self, peer: _Peer, kind: int, tag: int, more: bytes) -> None:
        if kind == _READY:
            waiting = peer.waiting_sends.get(tag)
            if waiting:
                peer.sends.append(waiting.popleft())
            else:
                peer.ready[tag] = peer.ready.get(tag, 0) + 1
        elif kind == _QUESTION:
            self.owed += not peer.owed
            peer.owed = True
        elif kind == _NOTICE and self.notice is None:
            self.notice = Notice.from_buffer_copy(more)
        elif kind == _BYE:
            peer.left = ""

    def _read_data(self, number: int, peer: _Peer) -> int:
        """Receive what has come; returns a status."""
        try:
            moved = 0
            while moved < _TURN_BYTES:
                if peer.arriving is None:
                    status = self._read_header(number, peer)
                    if status or peer.arriving is None:
                        return status
                stretch, tag = peer.arriving
                moved += stretch.move(_libc.recvmsg, peer.data.fileno(), _RECEIVE_FLAGS, _TURN_BYTES)
                if stretch.done < stretch.bytes:
                    break
                peer.arriving = None
                self._count_of(peer, -1)
                self._heard(peer)
            if moved:
                self._heard(peer)
        except _Gone:
            self._end(peer.data)
            peer.drained = True
        return 0

    def _read_header(self, number: int, peer: _Peer) -> int:
        try:
            data = peer.data.recv(_WORD.size - len(peer.header))
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as problem:
            raise _Gone(problem.strerror) from None
        if not data:
            raise _Gone("its connection has ended")
        peer.header += data
        if len(peer.header) < _WORD.size:
            return 0
        _, tag, size = _WORD.unpack(peer.header)
        peer.header.clear()
        stretch = peer.receives[tag].popleft()
        if stretch.bytes != size:
            return self._wrong_size(number, size, stretch.bytes, tag)
        peer.arriving = (stretch, tag)
        return 0

    def _move(self) -> int:
        writing = False
        for _number, peer in self.others:
            if peer.said:
                self._flush(peer)
            if peer.sends:
                self._write(peer)
            writing = writing or peer.said or peer.sends
        status = 0
        waits = self.unfinished and not writing and time.monotonic() - self.last_look < _SOON_SECONDS
        for descriptor, _events in self.poll.poll(_MOMENT_SECONDS if waits else 0):
            found = self.by_descriptor.get(descriptor)
            if found is None or status:
                continue
            number, peer, is_data = found
            if is_data:
                status = self._read_data(number, peer)
            else:
                self._read_control(number, peer)
                if peer.sends:
                    self._write(peer)
        return status

    # ---- Signs of life -----------------------------------------------------------------------------------------------

    def _show_life(self, now: float) -> None:
        """As src/transport/mpi/words.c: one sign to the next rank and at most one question in LIFE_SECONDS."""
        if self.owed:
            self.owed = 0
            for _number, peer in self.others:
                if peer.owed:
                    peer.owed = False
                    self._say(peer, _LIFE)
        if self.ranks == 1 or now - self.last_life < LIFE_SECONDS:
            return
        self.last_life = now
        after = self.peers[(self.rank + 1) % self.ranks]
        if not after.said:  # a rank that does not listen is owed one sign, not thousands
            self._say(after, _LIFE)
        self.looked_at = self.looked_at % (self.ranks - 1) + 1
        peer = self.peers[(self.rank - self.looked_at) % self.ranks]
        if peer.unfinished and not peer.asked:
            peer.asked = now
            self._say(peer, _QUESTION)

    def _find_gone(self) -> int:
        """A rank that left, of which everything was read and something is still expected."""
        for number, peer in self.others:
            if not peer.unfinished or peer.left is None or not peer.drained:
                continue
            if peer.left:
                return transport_fail(PEER, f"rank {self.rank}: the process of rank {number} has ended: {peer.left}")
            text = f"rank {number} has closed its communicator"
            self.notice = Notice(NOTICE_LEFT, number, 0, text.encode())
            break
        return 0

    def _progress(self, found) -> int:
        if self.interrupt is not None and self.interrupt.noted:
            return transport_fail(CANCELLED, f"rank {self.rank}: stopped by Ctrl-C")
        status = self._move()
        if status:
            return status
        now = time.monotonic()
        self._show_life(now)
        if self.unfinished and self.notice is None:
            status = self._find_gone()
            if status:
                return status
        state = found[0]
        ctypes.memset(byref(state), 0, ctypes.sizeof(TransportState))
        state.unfinished = self.unfinished
        state.waiting_for = state.quietest = -1
        if self.notice is not None:
            state.notice = self.notice
        if self.ranks > 1:
            before = (self.rank - 1) % self.ranks
            if self.peers[before].heard:
                state.quietest, state.quiet = before, now - self.peers[before].heard
        if self.unfinished:
            self._find_silent(state, now)
        self.last_look = time.monotonic()
        return 0

    def _find_silent(self, state: TransportState, now: float) -> None:
        number, silent = -1, 0.0
        for other, peer in self.others:
            if peer.unfinished:
                seconds = now - peer.asked if peer.asked else 0.0
                if number < 0 or seconds > silent:
                    number, silent = other, seconds
        state.waiting_for, state.silent = (self.rank if number < 0 else number), silent

    # ---- The end -----------------------------------------------------------------------------------------------------

    def _until_said(self) -> None:
        end = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < end and any(peer.said and peer.left is None for _number, peer in self.others):
            for _number, peer in self.others:
                self._flush(peer)
            time.sleep(0.001)

    def notify(self, notice: Notice) -> None:
        """Tell all others."""
        for _number, peer in self.others:
            self._say(peer, _NOTICE, 0, bytes(notice))
        self._until_said()

    def _abandon(self) -> int:
        """Nothing is sent or received from here on: the connections of messages are closed."""
        self.abandoned = True
        for _number, peer in self.others:
            self._end(peer.data)
            peer.data.close()
            peer.sends.clear()
            peer.waiting_sends.clear()
            peer.receives.clear()
            peer.arriving = None
            peer.unfinished = 0
        self.unfinished = 0
        return 1

    def close(self) -> None:
        """Say good-bye and close the connections."""
        if self.closed:
            return
        self.closed = True
        for _number, peer in self.others:
            self._say(peer, _BYE)
        self._until_said()
        for _number, peer in self.others:
            peer.control.close()
            peer.data.close()
        self.poll.close()
