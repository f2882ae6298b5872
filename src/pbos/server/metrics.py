"""What the server counts about itself, in the text format of Prometheus."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from threading import Lock

from pbos import __version__

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))  # seconds


class Metrics:
    """Counts requests, errors, seconds and words; the event loop and its worker threads share one.

    >>> metrics = Metrics()
    >>> metrics.count_request("/embed", 200, 0.004)
    >>> 'pbos_requests_total{path="/embed",status="200"} 1' in metrics.render().splitlines()
    True
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._started = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._words = 0

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] += seconds  # type: ignore[assignment]  # a Counter holds any number
            self._buckets[path, next(edge for edge in BUCKETS if seconds <= edge)] += 1

    def count_words(self, n: int) -> None:
        """Count words that were given vectors."""
        with self._lock:
            self._words += n

    def render(self) -> str:
        """Return everything in the text format of Prometheus."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("pbos_requests_total", "counter", "Requests answered.")
        for (path, status), n in sorted(self._requests.items()):
            yield f'pbos_requests_total{{path="{path}",status="{status}"}} {n}'
        yield from _head("pbos_errors_total", "counter", "Requests answered with a status of 400 or more.")
        for (path, status), n in sorted(self._requests.items()):
            if status >= 400:
                yield f'pbos_errors_total{{path="{path}",status="{status}"}} {n}'
        yield from _head("pbos_request_seconds", "histogram", "How long requests took, in seconds.")
        for path, seconds in sorted(self._seconds.items()):
            sums = itertools.accumulate(self._buckets[path, edge] for edge in BUCKETS)
            for edge, n in zip(BUCKETS, sums, strict=True):
                name = "+Inf" if edge == BUCKETS[-1] else f"{edge:g}"
                yield f'pbos_request_seconds_bucket{{path="{path}",le="{name}"}} {n}'
            yield f'pbos_request_seconds_sum{{path="{path}"}} {seconds!r}'
            yield f'pbos_request_seconds_count{{path="{path}"}} {n}'
        yield from _head("pbos_words_embedded_total", "counter", "Words given a vector.")
        yield f"pbos_words_embedded_total {self._words}"
        yield from _head("pbos_info", "gauge", "The version of pbos.")
        yield f'pbos_info{{version="{__version__}"}} 1'
        yield from _head("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.")
        yield f"process_start_time_seconds {self._started:.3f}"


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
