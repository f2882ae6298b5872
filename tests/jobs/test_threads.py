"""Functions mapped over items by several threads, against the built-in map."""

import threading
import time
from contextlib import suppress

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pbos import InputError
from pbos.jobs.threads import in_threads, one_blas_thread, thread_count


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


def blas_threads():
    """The number of threads of each BLAS library that is loaded."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_limit_on_blas_ends_with_the_last_of_several_blocks():
    """Two trainings that overlap: the first one to end took the limit from the other."""
    with threadpool_limits(limits=2, user_api="blas"):
        if 2 not in blas_threads():
            pytest.skip("this BLAS has one thread")
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert set(blas_threads()) == {1}
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert 2 in blas_threads()


def test_trainings_at_once_share_the_limit_on_blas():
    """On any threads, in any order, and also if one of them fails."""
    with threadpool_limits(limits=2, user_api="blas"):
        before, wrong = blas_threads(), []

        def train(number):
            with suppress(InputError), one_blas_thread():
                time.sleep(0.001 * (number % 4))
                if set(blas_threads()) != {1}:
                    wrong.append(number)
                if number % 5 == 0:
                    raise InputError("this training fails")

        threads = [threading.Thread(target=train, args=[number]) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert blas_threads() == before
