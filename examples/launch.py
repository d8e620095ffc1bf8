"""Starts the processes of an example: those that torchrun has started, or some of its own, which end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

import torch
import torch.distributed as dist


def launch(main: Callable[[], None], processes: int) -> None:
    """Runs ``main`` as one of the processes of ``torchrun``; without that, in as many processes as are asked for.

    When one of them fails, or Ctrl-C is pressed, all end at once, and the exit status is not 0.
    """
    if "RANK" in os.environ:  # torchrun
        _run(main)
        return
    context = multiprocessing.get_context("spawn")
    started: list[BaseProcess] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what follows is done then, too
    failed = False
    resource_tracker.ensure_running()  # its start would let SIGINT through again
    try:
        # Ctrl-C reaches every process: blocked here, it waits until the new ones ignore it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # before the store, whose threads must not get it
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # the system chooses the port
        for rank in range(processes):
            started.append(context.Process(target=_started, args=(main, rank, processes, store.port)))
            started[-1].start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while not failed and any(process.is_alive() for process in started):
            time.sleep(0.05)
            failed = any(process.exitcode not in (None, 0) for process in started)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for process in started:
            if process.pid is not None:
                process.kill()  # one that waits for a message hears nothing else
                process.join()
    if failed or any(process.exitcode for process in started):
        sys.exit(1)


def _started(main: Callable[[], None], rank: int, processes: int, port: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that has started it ends it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        LOCAL_RANK=str(rank), TORCHELASTIC_USE_AGENT_STORE="True",  # the store is that of the process above
    )  # fmt: skip
    _run(main)


def _run(main: Callable[[], None]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    try:
        main()
        dist.barrier()
    finally:
        dist.destroy_process_group()
