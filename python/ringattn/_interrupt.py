# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during a run whose callbacks are in Python.

An exception that a signal raises at the very beginning of a callback is lost: ctypes can only print it. So for the time
of a run Ctrl-C is noted, the callbacks see it and stop the run, and the handler that was there before is called after.
"""

from __future__ import annotations

import signal
import threading


class HeldInterrupt:
    """with HeldInterrupt() as held: ...; held.noted is true after Ctrl-C. Nested ones and other threads do nothing."""

    def __init__(self):
        self.noted = False
        self.before = self.frame = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before) and not isinstance(getattr(before, "__self__", None), HeldInterrupt):
                self.before = before
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, _number, frame):
        self.noted, self.frame = True, frame

    def __exit__(self, *_exception):
        if self.before is None:
            return
        signal.signal(signal.SIGINT, self.before)
        if self.noted:
            self.before(signal.SIGINT, self.frame)
