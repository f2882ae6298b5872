"""Functions mapped over items by several threads, against the built-in map."""

import threading
import time

import pytest

from pbos import InputError
from pbos.threads import in_threads, thread_count


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("n_items", [0, 1, 3, 500])
def test_results_come_in_order_and_each_item_is_taken_once(threads, n_items):
    taken = []

    def function(item):
        taken.append(item)
        time.sleep(0.001 * (item % 3 == 0))  # so that threads overtake each other
        return -item

    assert list(in_threads(function, range(n_items), threads)) == [-item for item in range(n_items)]
    assert sorted(taken) == list(range(n_items))


def test_as_many_threads_as_asked_for_work_at_a_time():
    together = threading.Barrier(4)
    assert list(in_threads(lambda item: together.wait(timeout=30) >= 0, range(4), threads=4)) == [True] * 4


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_error_of_the_first_bad_item_is_raised_and_no_thread_stays(threads):
    def function(item):
        if item in (7, 8, 9):
            time.sleep(0.05 * (item == 7))  # the others fail before it
            raise InputError(f"item {item} is bad")
        return item

    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(InputError, match="item 7 is bad"):
            list(in_threads(function, range(1000), threads))
    assert threading.active_count() == before


def test_threads_start_threads_of_their_own():
    nested = in_threads(lambda item: sum(in_threads(lambda inner: inner, range(item), 2)), range(20), 2)
    assert list(nested) == [sum(range(item)) for item in range(20)]


def test_no_threads_are_refused():
    assert thread_count(3) == 3
    assert thread_count(None) >= 1
    with pytest.raises(InputError, match="threads must be at least 1, got 0"):
        thread_count(0)
