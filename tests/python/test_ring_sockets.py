# SPDX-License-Identifier: Apache-2.0
"""What a transport has to do, told to the one over sockets: the scenarios of tests/transport/scenarios.c.

All ranks are in this thread and take turns, which a transport whose functions never wait allows.
"""
import ctypes
import itertools
import socket
import time

import numpy as np
import pytest

from ringattn._library import lib
from ringattn._ring_library import Notice, Segment, TransportState
from ringattn._sockets import SocketTransport

OK, ARGUMENT, PEER = 0, 1, 9
FAILED, LEFT = 1, 2


@pytest.fixture
def mesh():
    made = []

    def make(ranks):
        sockets = [[None if a == b else [None, None] for b in range(ranks)] for a in range(ranks)]
        for a, b, kind in itertools.product(range(ranks), range(ranks), (0, 1)):
            if a < b:
                sockets[a][b][kind], sockets[b][a][kind] = socket.socketpair()
        made.extend(SocketTransport(rank, peers) for rank, peers in enumerate(sockets))
        return made

    yield make
    for transport in made:
        transport.close()


class Parcel:
    """Bytes in memory that is cut into pieces."""

    def __init__(self, size, cuts=0, seed=None):
        self.memory = np.zeros(size, np.uint8)
        if seed is not None:
            self.memory[:] = np.random.default_rng(seed).integers(0, 256, size)
        ends = sorted({0, size, *(np.random.default_rng(cuts).integers(0, size + 1, cuts).tolist())})
        pieces = list(zip(ends, ends[1:])) or [(0, 0)]
        self.segments = (Segment * len(pieces))()
        for segment, (first, end) in zip(self.segments, pieces):
            segment.at, segment.bytes = self.memory.ctypes.data + first, end - first

    def start(self, function, peer, tag=0):
        assert function(None, peer, tag, ctypes.addressof(self.segments), len(self.segments)) == OK
        return self


def receive(transport, peer, parcel, tag=0):
    return parcel.start(transport.struct.receive, peer, tag)


def send(transport, peer, parcel, tag=0):
    return parcel.start(transport.struct.send, peer, tag)


def look(transport):
    state = TransportState()
    status = transport.struct.progress(None, ctypes.pointer(state))
    return status, state


def finish(*transports):
    """Turns until nothing is unfinished."""
    end = time.monotonic() + 60
    while True:
        found = [look(transport) for transport in transports]
        assert all(status == OK for status, _ in found), lib.ra_last_message()
        if not any(state.unfinished for _, state in found):
            return
        assert time.monotonic() < end


def until(transport, condition, *others):
    end = time.monotonic() + 60
    while True:
        for other in others:
            look(other)
        status, state = look(transport)
        if condition(status, state):
            return status, state
        assert time.monotonic() < end


@pytest.mark.parametrize("size", [0, 1, 7, 4096, (1 << 20) + 3])
def test_every_size_and_cut(mesh, size):
    ranks = mesh(3)
    for cuts in (0, 1, 30):
        got = [receive(t, (t.rank - 1) % 3, Parcel(size, 30 - cuts)) for t in ranks]
        sent = [send(t, (t.rank + 1) % 3, Parcel(size, cuts, seed=t.rank)) for t in ranks]
        finish(*ranks)
        for rank in range(3):
            assert (got[rank].memory == sent[(rank - 1) % 3].memory).all()


def test_more_segments_than_one_call_takes(mesh):
    one, two = mesh(2)
    got = receive(two, 0, Parcel(300_000, 5000))
    sent = send(one, 1, Parcel(300_000, 7000, seed=1))
    assert len(sent.segments) > 4000
    finish(one, two)
    assert (got.memory == sent.memory).all()


def test_all_to_all_and_to_oneself(mesh):
    ranks = mesh(4)
    got = [[receive(t, a, Parcel(1000 * a + 37 * t.rank, 2), 3) for a in range(4)] for t in ranks]
    sent = [[send(t, b, Parcel(1000 * t.rank + 37 * b, 5, seed=4 * t.rank + b), 3) for b in range(4)] for t in ranks]
    finish(*ranks)
    for a, b in itertools.product(range(4), range(4)):
        assert (got[b][a].memory == sent[a][b].memory).all()


def test_a_later_tag_does_not_wait_for_an_earlier_one(mesh):
    one, two = mesh(2)
    sent = [send(one, 1, Parcel(6 << 20, 1, seed=tag), tag) for tag in range(4)]
    for tag in (3, 1, 0, 2):
        got = receive(two, 0, Parcel(6 << 20, 3), tag)
        until(two, lambda status, state: state.unfinished == 0, one)
        assert (got.memory == sent[tag].memory).all()
    finish(one, two)


def test_one_tag_in_order(mesh):
    one, two = mesh(2)
    sent = [send(one, 1, Parcel(300, 2, seed=n), n % 2) for n in range(16)]
    got = [receive(two, 0, Parcel(300, 4), n % 2) for n in range(16)]
    finish(one, two)
    assert all((a.memory == b.memory).all() for a, b in zip(got, sent))


def test_unfinished_are_counted(mesh):
    one, two = mesh(2)
    assert look(one)[1].unfinished == 0 and look(one)[1].waiting_for == -1
    for count in range(1, 4):
        receive(one, 1, Parcel(100), count)
        state = look(one)[1]
        assert state.unfinished == count and state.waiting_for == 1
    for count in range(1, 4):
        send(two, 0, Parcel(100), count)
    finish(one, two)


@pytest.mark.parametrize("sent,expected", [(10, 7), (7, 10), (0, 5), (5, 0), (1 << 20, 999)])
def test_wrong_size(mesh, sent, expected):
    one, two = mesh(2)
    send(one, 1, Parcel(sent, 1), 5)
    receive(two, 0, Parcel(expected, 1), 5)
    status, _ = until(two, lambda status, state: status, one)
    assert status == PEER
    assert lib.ra_last_message().decode() == f"rank 0 sent {sent} bytes where {expected} were expected (tag 5)"


def test_nonsense_is_refused(mesh):
    one, _ = mesh(2)
    good = Parcel(1)
    negative, nowhere, huge = (Segment * 1)(Segment(good.segments[0].at, -1)), (Segment * 1)(Segment(None, 1)), None
    huge = (Segment * 2)(Segment(good.segments[0].at, 2**63 - 1), Segment(good.segments[0].at, 1))
    for function, peer, tag, segments, count in (
        (one.struct.receive, -1, 0, good.segments, 1),
        (one.struct.send, 2, 0, good.segments, 1),
        (one.struct.send, 0, -1, good.segments, 1),
        (one.struct.send, 0, 40000, good.segments, 1),
        (one.struct.receive, 0, 0, None, 1),
        (one.struct.receive, 0, 0, negative, 1),
        (one.struct.receive, 0, 0, nowhere, 1),
        (one.struct.send, 0, 0, huge, 2),
        (one.struct.send, 0, 0, good.segments, -1),
    ):
        at = None if segments is None else ctypes.addressof(segments)
        assert function(None, peer, tag, at, count) == ARGUMENT
    assert look(one)[1].unfinished == 0


def test_a_failure_reaches_everyone_once(mesh):
    ranks = mesh(3)
    for text in (b"the disk is on fire", b"and the roof"):
        ranks[0].struct.notify(None, ctypes.pointer(Notice(FAILED, 0, 4, text)))
    for other in ranks[1:]:
        _, state = until(other, lambda status, state: state.notice.kind)
        assert (state.notice.kind, state.notice.rank, state.notice.text) == (FAILED, 0, b"the disk is on fire")
    assert look(ranks[0])[1].notice.kind == 0


def test_leaving_reaches_who_waits(mesh):
    ranks = mesh(3)
    ranks[2].close()
    for _ in range(100):
        assert look(ranks[1])[1].notice.kind == 0
    receive(ranks[0], 2, Parcel(10))
    _, state = until(ranks[0], lambda status, state: state.notice.kind)
    assert (state.notice.kind, state.notice.rank) == (LEFT, 2)
    assert b"has closed its communicator" in state.notice.text


def test_a_message_before_leaving(mesh):
    one, two = mesh(2)
    got = receive(two, 0, Parcel(1 << 16, 1))
    sent = send(one, 1, Parcel(1 << 16, 3, seed=1))
    finish(one)
    one.close()
    finish(two)
    assert (got.memory == sent.memory).all()


@pytest.mark.parametrize("waits", ["receive", "send"])
def test_a_process_that_ends_is_noticed(mesh, waits):
    one, two = mesh(2)
    (receive if waits == "receive" else send)(two, 0, Parcel(100))
    look(two)
    for sock in (one.peers[1].control, one.peers[1].data):
        sock.close()
    status, _ = until(two, lambda status, state: status)
    assert status == PEER and "process of rank 0 has ended" in lib.ra_last_message().decode()


def test_silence_is_measured_and_ends_with_a_sign_of_life(mesh):
    one, two = mesh(2)
    receive(one, 1, Parcel(10))
    until(one, lambda status, state: state.waiting_for == 1 and state.silent > 0.25)
    _, state = until(one, lambda status, state: state.silent < 0.25, two)
    assert state.unfinished == 1
    send(two, 0, Parcel(10))
    finish(one, two)


def test_given_up_memory_is_left_alone(mesh):
    one, two = mesh(2)
    got = receive(two, 0, Parcel(8 << 20))
    sent = send(one, 1, Parcel(8 << 20, seed=1))
    until(two, lambda status, state: got.memory[0] == sent.memory[0], one)
    assert two.struct.abandon(None) == 1
    before = got.memory.copy()
    for _ in range(100):
        look(one)
    assert (got.memory == before).all()
