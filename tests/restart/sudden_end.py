"""A timer of the system that kills this process: SIGKILL in so many microseconds, no code runs."""

from __future__ import annotations

import ctypes
import os
import signal

CLOCK_MONOTONIC = 1


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class _Times(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")
    )


class SuddenEnd:
    """Made once a process; ``arm`` sets it."""

    def __init__(self) -> None:
        self._system = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        event = _Event(signal=signal.SIGKILL, notify=0)
        made = self._system.timer_create(
            CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)
        )
        if made != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def arm(self, microseconds: float) -> None:
        """Kill this process then."""
        times = _Times(0, 0, 0, max(int(microseconds * 1000), 1))
        if self._system.timer_settime(self._timer, 0, ctypes.byref(times), None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
