"""Functions mapped over items by several threads, against the built-in map."""

import threading
import time

import pytest

from pbos import InputError
from pbos.jobs.threads import in_threads, thread_count


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("n_items", [0, 1, 3, 200])
def test_results_come_in_the_order_of_the_items(threads, n_items):
    def function(item):
        time.sleep(0.001 * (item % 3 == 0))  # so that threads overtake each other
        return -item

    assert in_threads(function, range(n_items), threads) == list(map(function, range(n_items)))


def test_the_requested_number_of_threads_runs_at_a_time():
    together = threading.Barrier(4)
    assert in_threads(lambda item: together.wait(timeout=30) >= 0, range(4), threads=4) == [True] * 4


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_error_of_the_first_bad_item_is_raised_and_no_thread_is_left(threads):
    def function(item):
        if item in (7, 8, 9):
            time.sleep(0.05 * (item == 7))  # the others fail before it
            raise InputError(f"item {item} is bad")
        return item

    before = set(threading.enumerate())
    with pytest.raises(InputError, match="item 7 is bad"):
        in_threads(function, range(100), threads)
    assert set(threading.enumerate()) <= before


def test_number_of_threads():
    assert thread_count(3) == 3
    assert thread_count(None) >= 1
    with pytest.raises(InputError, match="threads must be at least 1, got 0"):
        thread_count(0)
