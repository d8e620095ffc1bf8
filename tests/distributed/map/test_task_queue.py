"""The state machine of ``map``: which chunks go out, which are repeated, which errors are final. No processes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorclass.distributed.map.task_queue import Task, TaskLimits, TaskQueue

FAST, SLOW = 1e-6, 1.0  #: seconds of a chunk


def limits(
    *, workers: int = 1, slots: int = 1, retries: int = 0, chunks: int | None = None, notes: bool = True
) -> TaskLimits:
    return TaskLimits(workers, slots, retries, 0.02, chunks, notes)


def taken(queue: TaskQueue) -> Task:
    task = queue.next_task()
    assert task is not None
    return task


def test_no_two_tasks_under_way_share_a_slot() -> None:
    queue = TaskQueue(10, limits(slots=2))
    first, second = taken(queue), taken(queue)
    assert {first.slot, second.slot} == {0, 1}
    assert queue.next_task() is None
    queue.returned(first, 1, SLOW, False)
    assert taken(queue).slot == first.slot


def test_fast_chunks_are_grouped_and_slow_ones_are_not() -> None:
    for seconds, sizes in ((FAST, [1, 16, 256]), (SLOW, [1, 1, 1])):
        queue = TaskQueue(10_000, limits())
        for size in sizes:
            task = taken(queue)
            assert task.last - task.first == size
            queue.returned(task, size, size * seconds, False)


def test_groups_leave_chunks_for_the_other_workers() -> None:
    queue = TaskQueue(9, limits(workers=4, slots=4))
    queue.returned(taken(queue), 1, FAST, False)
    assert [task.last - task.first for task in [taken(queue) for _ in range(4)]] == [2, 2, 1, 1]


def test_a_process_that_is_replaced_after_some_chunks_gets_no_more_in_a_task() -> None:
    queue = TaskQueue(100, limits(chunks=3))
    queue.returned(taken(queue), 1, FAST, False)
    assert taken(queue) == Task(1, 4, 0)


def test_nothing_new_is_sent_while_many_results_wait() -> None:
    queue = TaskQueue(100, limits(workers=1, slots=1))
    assert queue.next_task(waiting_results=3) is None
    assert queue.next_task(waiting_results=2) is not None


def test_a_chunk_that_fails_is_repeated_before_the_rest_of_its_task() -> None:
    queue = TaskQueue(17, limits(retries=1))
    queue.returned(taken(queue), 1, FAST, False)
    task = taken(queue)
    assert queue.returned(task, 3, FAST, True) is None
    again = taken(queue)
    assert (again.first, again.last) == (4, 5)
    assert queue.returned(again, 0, FAST, True) == 4
    assert queue.earlier_tries(4) == 1


def test_nothing_new_is_sent_behind_a_final_error() -> None:
    queue = TaskQueue(10, limits(slots=3))
    first, second = taken(queue), taken(queue)
    assert queue.returned(first, 0, SLOW, True) == 0
    assert queue.returned(second, 1, SLOW, False) is None
    assert queue.next_task() is None


def test_chunks_before_a_lost_one_are_repeated_because_their_results_are_lost() -> None:
    queue = TaskQueue(17, limits(retries=1))
    queue.returned(taken(queue), 1, FAST, False)
    task = taken(queue)
    assert (task.first, task.last) == (1, 17)
    assert queue.lost(task, 5, is_late=False) is None
    order = []
    for _ in range(3):
        again = taken(queue)
        order.append((again.first, again.last))
        queue.returned(again, again.last - again.first, SLOW, False)
    assert order == [(5, 6), (6, 17), (1, 5)]


def test_a_task_lost_before_it_began_is_repeated_some_times() -> None:
    queue = TaskQueue(1, limits(workers=2, retries=1))
    losses = 0
    while queue.lost(taken(queue), None, is_late=False) is None:
        losses += 1
    assert losses == 3 * 2 + 1 + 1  # the last one is the retry of the chunk


def test_a_late_task_is_blamed_even_if_it_did_not_begin() -> None:
    queue = TaskQueue(1, limits())
    task = taken(queue)
    assert queue.lost(task, None, is_late=True) == task


def test_without_notes_all_chunks_of_a_task_are_blamed() -> None:
    queue = TaskQueue(17, limits(notes=False))
    queue.returned(taken(queue), 1, FAST, False)
    task = taken(queue)
    assert queue.lost(task, None, is_late=False) == task


def test_without_notes_a_lost_task_is_split_to_find_the_chunk() -> None:
    queue = TaskQueue(101, limits(retries=1, notes=False))
    queue.returned(taken(queue), 1, FAST, False)
    queue.returned(taken(queue), 16, FAST, False)
    task = taken(queue)
    assert (task.first, task.last) == (17, 101)
    assert queue.lost(task, None, is_late=False) is None
    sizes = []
    while sum(sizes) < 84:
        smaller = taken(queue)
        sizes.append(smaller.last - smaller.first)
        queue.returned(smaller, sizes[-1], SLOW, False)
    assert sizes == [3] * 28


@pytest.mark.parametrize("notes", [True, False])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_each_chunk_ends_once_whatever_happens(notes: bool, data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 40), "chunks")
    slots = data.draw(st.integers(1, 4), "slots")
    retries = data.draw(st.integers(0, 3), "retries")
    queue = TaskQueue(total, limits(workers=slots, slots=slots, retries=retries, notes=notes))
    running: list[Task] = []
    done: list[int] = []
    failed: list[int] = []
    for _ in range(10_000):
        while (task := queue.next_task()) is not None:
            running.append(task)
        assert len({task.slot for task in running}) == len(running) <= slots
        if not running:
            break
        task = running.pop(data.draw(st.integers(0, len(running) - 1), "which"))
        event = data.draw(st.sampled_from(["done", "done", "done", "raised", "lost", "late"]), "event")
        if event in ("done", "raised"):
            count = task.last - task.first - (event == "raised")
            done += range(task.first, task.first + count)
            final = queue.returned(task, count, count * data.draw(st.sampled_from([FAST, SLOW])), event == "raised")
            failed += [] if final is None else [final]
        else:
            noted = data.draw(st.none() | st.integers(task.first, task.last - 1), "noted") if notes else None
            lost = queue.lost(task, noted, event == "late")
            failed += [] if lost is None else [lost.first]
    else:
        raise AssertionError("the call does not end")
    assert len(done) == len(set(done))
    assert not set(done) & set(failed)
    if not failed:
        assert sorted(done) == list(range(total))
    else:  # the caller raises the error of the first chunk, so results before it are complete
        assert all(queue.earlier_tries(chunk) == retries for chunk in failed)
        assert set(range(min(failed))) <= set(done)
