"""Ctrl-C, raised where it does no harm: not inside of Numba, an import, a finalizer or the end of a `with` block.

Python calls the handler of SIGINT between any two steps of the main thread, and what it raises comes out there. Numba,
extension modules and finalizers drop it or turn it into another error, and a `with` block that is left in its end
leaves files. So this handler raises in the innermost function that can be left, as soon as that goes on.

Little is imported here: before there is this handler, Ctrl-C ends the command line with a traceback.
"""

from __future__ import annotations

import signal
import sys
from _thread import get_ident

TYPE_CHECKING = False  # to import typing would take longer than all of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, ParamSpec, TypeVar

    Handler = Callable[[int, FrameType | None], Any]
    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

FOREIGN = frozenset(  # modules that are not left by an error of ours
    ("numba", "llvmlite", "tempfile", "signal", "importlib", "_frozen_importlib", "_frozen_importlib_external")
)
FINISHING = frozenset(("__exit__", "__del__", "staging_path"))  # functions that begin or end with a folder
LENGTHY = "uploaded"  # the end of a block that takes long and may be left: see atomic.py and hub.py
_waiting: Interrupts | None = None  # whose Ctrl-C is not raised yet


class Interrupts:
    """While a block runs, what the handler of SIGINT raises comes out where it does no harm.

    Without effect inside of such a block, if SIGINT is ignored, and in other threads, which never get a Ctrl-C. By
    default the handler is the present one, Python's own as a rule, also `again`, for a second Ctrl-C, and `afterwards`.
    """

    def __init__(self, handler: Handler | None = None, again: Any = None, afterwards: Any = None) -> None:
        self._handler, self._again, self._afterwards = handler, again, afterwards
        self._raised: type[BaseException] | None = None
        self._place: FrameType | None = None  # where to raise what waits

    def __enter__(self) -> None:
        """Begin the block."""
        self._outermost, self._thread = sys._getframe(1), get_ident()
        before, self._hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
        if callable(before) and not isinstance(getattr(before, "__self__", None), Interrupts):
            self._handler, self._afterwards = self._handler or before, self._afterwards or before
            try:
                signal.signal(signal.SIGINT, self._handle)
            except ValueError:  # another thread
                return
            sys.unraisablehook = self._on_unraisable

    def __exit__(self, *_: object) -> None:
        """End the block."""
        if sys.unraisablehook == self._on_unraisable:
            sys.unraisablehook = self._hook
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._afterwards)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._again is not None:
            signal.signal(signal.SIGINT, self._again)
        place = self._innermost_that_can_be_left(frame)
        if place is None or place is frame:
            self._raise(frame)
        else:
            self._raise_in(place)

    def _innermost_that_can_be_left(self, frame: FrameType | None) -> FrameType | None:
        place, outer = frame, frame
        while outer is not None and outer is not self._outermost and outer.f_code.co_name != LENGTHY:
            if module_of(outer).partition(".")[0] in FOREIGN or outer.f_code.co_name in FINISHING:
                place = outer.f_back
            outer = outer.f_back
        while place is not None and place is not self._outermost and module_of(place) in ("contextlib", __name__):
            place = place.f_back  # at the begin of a block
        return place

    def _raise_in(self, place: FrameType) -> None:
        """Raise when a function goes on: by a trap such as debuggers set to step out of what it calls."""
        global _waiting
        if self._place is not None:  # from another Ctrl-C
            self._place.f_trace = None
        self._place, _waiting = place, self
        place.f_trace, place.f_trace_opcodes = lambda *_: self.raise_now(), True
        sys.settrace(lambda *_: None)

    def raise_now(self) -> None:
        """Raise what waits."""
        global _waiting
        place, self._place, _waiting = self._place, None, None
        sys.settrace(None)
        if place is not None:
            place.f_trace = None
        self._raise(place)

    def _raise(self, frame: FrameType | None) -> None:
        assert self._handler is not None
        try:
            self._handler(signal.SIGINT, frame)
        except BaseException as error:
            self._raised = type(error)
            raise

    def _on_unraisable(self, ignored: Any) -> None:
        """Raise once more what was raised in a callback from C, where Python ignores errors."""
        place = self._innermost_that_can_be_left(sys._getframe(1))
        if ignored.exc_type is self._raised and get_ident() == self._thread and place is not None:
            self._raise_in(place)
        else:
            self._hook(ignored)


def module_of(frame: FrameType) -> str:
    """Return the name of the module that a frame runs."""
    return str(frame.f_globals.get("__name__"))


def raise_what_waits() -> None:
    """Raise the Ctrl-C that waits for the end of what this thread is doing, if there is one."""
    if _waiting is not None and _waiting._thread == get_ident():
        _waiting.raise_now()


def interruptible(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function, so that what Ctrl-C raises in it comes out where it does no harm."""
    from functools import wraps

    @wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with Interrupts():
            return function(*arguments, **options)

    return call
