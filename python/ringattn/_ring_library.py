# SPDX-License-Identifier: Apache-2.0
"""The C library's tier of ranks, declared for ctypes. Structs mirror include/ringattn/ringattn.h and transport.h."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint, c_void_p

from ._errors import ArgumentError
from ._library import Options, Problem, Tensor, check, lib

STRATEGIES = {"ring": 0, "allgather": 1, "broadcast": 2}
ORDERS = {"contiguous": 0, "zigzag": 1, "striped": 2}
SIMULATED, PROCESSES = 0, 2
NOTICE_NONE, NOTICE_FAILED, NOTICE_LEFT = range(3)
CANCELLED, PEER = 6, 9


class Piece(Structure):
    """ra_piece"""

    _fields_ = [("first", c_int64), ("end", c_int64), ("rank", c_int)]


class RingOptions(Structure):
    """ra_ring_options"""

    _fields_ = [
        ("size", c_size_t),
        ("ranks", c_int),
        ("strategy", c_int),
        ("order", c_int),
        ("transport", c_int),
        ("q_dtype", c_int),
        ("k_dtype", c_int),
        ("v_dtype", c_int),
        ("lent", c_int),
        ("q_pieces", POINTER(Piece)),
        ("kv_pieces", POINTER(Piece)),
        ("q_piece_count", c_int64),
        ("kv_piece_count", c_int64),
        ("memory", c_int64),
        ("timeout", c_double),
        ("o_dtype", c_int),
        ("lse", c_int),
        ("watch", c_void_p),
        ("watch_user", c_void_p),
        ("rank", c_int),
        ("backward", c_int),
        ("gradients", c_uint),
        ("d_lse", c_int),
        ("d_output_dtype", c_int),
        ("d_q_dtype", c_int),
        ("d_k_dtype", c_int),
        ("d_v_dtype", c_int),
        ("gradients_kept", c_uint),
    ]


class RankInfo(Structure):
    """ra_rank_info"""

    _fields_ = [
        ("size", c_size_t),
        ("q_rows", c_int64),
        ("kv_rows", c_int64),
        ("steps", c_int64),
        ("hops", c_int64),
        ("bytes_sent", c_int64),
        ("bytes_received", c_int64),
        ("pairs_visible", c_double),
        ("pairs_worked", c_double),
        ("peak_bytes", c_int64),
        ("lent_bytes", c_int64),
    ]


class RankStats(Structure):
    """ra_rank_stats"""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int),
        ("threads", c_int),
        ("kernel", c_int),
        ("q_rows", c_int64),
        ("kv_rows", c_int64),
        ("steps", c_int64),
        ("hops", c_int64),
        ("bytes_sent", c_int64),
        ("bytes_received", c_int64),
        ("pairs_visible", c_double),
        ("pairs_worked", c_double),
        ("seconds_compute", c_double),
        ("seconds_wait", c_double),
        ("seconds_io", c_double),
        ("seconds_total", c_double),
        ("planned_peak_bytes", c_int64),
        ("peak_bytes", c_int64),
        ("rss_peak_bytes", c_int64),
        ("lent_bytes", c_int64),
    ]


class Segment(Structure):
    """ra_segment: on 64-bit Linux it is laid out as struct iovec is"""

    _fields_ = [("at", c_void_p), ("bytes", c_int64)]


class Notice(Structure):
    """ra_notice"""

    _fields_ = [("kind", c_int32), ("rank", c_int32), ("status", c_int32), ("text", c_char * 244)]


class TransportState(Structure):
    """ra_transport_state"""

    _fields_ = [
        ("unfinished", c_int64),
        ("waiting_for", c_int),
        ("silent", c_double),
        ("notice", Notice),
        ("quietest", c_int),
        ("quiet", c_double),
    ]


Start = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_int64)
Progress = CFUNCTYPE(c_int, c_void_p, POINTER(TransportState))
Notify = CFUNCTYPE(None, c_void_p, POINTER(Notice))
Abandon = CFUNCTYPE(c_int, c_void_p)
Close = CFUNCTYPE(None, c_void_p)


class Transport(Structure):
    """ra_transport"""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("rank", c_int),
        ("ranks", c_int),
        ("shared", c_void_p),
        ("state", c_void_p),
        ("receive", Start),
        ("send", Start),
        ("progress", Progress),
        ("notify", Notify),
        ("abandon", Abandon),
        ("close", Close),
    ]


def _declare(name: str, result, *arguments):
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


_view = POINTER(Tensor)
_declare("ra_ring_options_init", c_int, POINTER(RingOptions), c_size_t)
_declare("ra_rank_info_init", c_int, POINTER(RankInfo), c_size_t)
_declare("ra_rank_stats_init", c_int, POINTER(RankStats), c_size_t)
_declare(
    "ra_ring_plan_create", c_int, POINTER(Problem), POINTER(Options), POINTER(RingOptions), POINTER(c_void_p)
)
_declare("ra_ring_plan_free", None, c_void_p)
_declare("ra_ring_plan_rank", c_int, c_void_p, c_int, POINTER(RankInfo))
_declare("ra_ring_plan_queries", c_int, c_void_p, c_int, c_int64, POINTER(Piece))
_declare("ra_comm_sim", c_int, c_int, POINTER(c_void_p))
_declare("ra_comm_custom", c_int, POINTER(Transport), POINTER(c_void_p))
_declare("ra_comm_rank", c_int, c_void_p)
_declare("ra_comm_ranks", c_int, c_void_p)
_declare("ra_comm_free", None, c_void_p)
ring_forward = _declare("ra_ring_forward", c_int, c_void_p, c_void_p, *[_view] * 5, POINTER(RankStats))
ring_backward = _declare("ra_ring_backward", c_int, c_void_p, c_void_p, *[_view] * 10, POINTER(RankStats))
# Variadic: arguments are given with their types at the call.
_transport_fail = lib.ra_transport_fail
_transport_fail.restype = c_int


def transport_fail(status: int, message: str) -> int:
    """For transports: the message of this thread; returns the status."""
    return _transport_fail(c_int(status), c_char_p(b"%s"), c_char_p(message.encode("utf-8", "replace")))


def code_of(table: dict, kind: str, name) -> int:
    """The number of a strategy or an order."""
    code = table.get(name)
    if code is None:
        raise ArgumentError(f'{kind} "{name}" is unknown: expected one of {", ".join(table)}')
    return code


def initialised(struct, function: str):
    """A struct with the library's defaults."""
    check(getattr(lib, function)(byref(struct), ctypes.sizeof(struct)))
    return struct
