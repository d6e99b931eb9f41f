"""What can be said of a service that hangs: in a sentence, and in full.

From the stacks of its threads, the await chains of its tasks and the system calls in
which its threads wait. The sentence follows the usual way in: the main task waits for a
task group, that for a task in it, that for a worker thread, and that for a descriptor.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Hang, Site
from .. import procfs
from .service_inject import Place, Told, in_kernel, site

_GROUPS = ("TaskGroup.__aexit__", "NurseryManager.__aexit__", "Nursery._nested_child_finished")
_THREADS = ("run_sync_in_worker_thread", "to_thread_run_sync", "run_in_executor", "to_thread")


def describe(why: str, pid: int, told: Sequence[Told]) -> Hang:
    """Tasks, threads and the process tree, a line each."""
    tasks = [_task(one) for process in told for one in process.tasks]
    threads = [_thread(process.pid, one) for process in told for one in process.threads]
    stat = procfs.stat(pid)
    processes = [f"{pid} {stat.state if stat else 'gone'} {procfs.command(pid)}{_standing(pid)}"]
    processes += ["  " + line for line in procfs.tree(pid)]
    return Hang(why, tuple(tasks), tuple(threads), tuple(processes))


def in_words(told: Sequence[Told]) -> str:
    """Where it waits, in a sentence; empty where it told nothing."""
    for process in told:
        main = next((task for task in process.tasks if task[2]), None)
        if main is None:
            continue
        sentence = f"it waits at {_target(main[3])}"
        if _in(main[3], _GROUPS):
            sentence = f"its task group waits at {_target(main[3])}"
            others = [task for task in process.tasks if task is not main]
            held = next((task for task in others if _in(task[3], _THREADS)), None) or (others[0] if others else None)
            if held is not None:
                sentence += f" for {_first(held)} at {_target(held[3])}"
                if _in(held[3], _THREADS):
                    sentence += ", which waits for a worker thread"
        elif _in(main[3], _THREADS):
            sentence += ", for a worker thread"
        return sentence + _workers(process)
    for process in told:
        stack = next((stack for name, _, stack in process.threads if name == "MainThread"), [])
        if stack:
            return f"its main thread is at {_target(list(reversed(stack)))}" + _workers(process)
    return ""


def _workers(process: Told) -> str:
    """What its other threads wait for, where that is a descriptor."""
    found = []
    for name, thread, _ in process.threads:
        call = in_kernel(process.pid, thread) if thread and thread != process.pid else ""
        if call.startswith(("read(", "recvfrom(", "accept4(")):
            found.append(f"{name} is in {call}")
    return f"; thread {', '.join(found[:3])}" if found else ""


def _in(chain: Sequence[Place], names: tuple[str, ...]) -> bool:
    """Whether one of the innermost functions of a chain is one of these."""
    return any(function.endswith(names) for _, _, function in chain[-4:])


def _first(task: tuple[str, str, bool, list[Place]]) -> str:
    """What a task is: the outermost function of the target in it, else its coroutine."""
    return next((one.function for one in map(site, task[3]) if one.target), task[1])


def _target(chain: Sequence[Place]) -> Site | str:
    """The innermost line of a chain that is the target's, else the innermost."""
    sites = [site(place) for place in chain]
    for one in reversed(sites):
        if one.target:
            return one
    return sites[-1] if sites else "an unknown place"


def waits_at(told: Sequence[Told]) -> Site | None:
    """The line of the target at which the main task, else the main thread, waits."""
    for process in told:
        chains = [task[3] for task in process.tasks if task[2]]
        chains += [list(reversed(stack)) for name, _, stack in process.threads if name == "MainThread"]
        for chain in chains:
            found = _target(chain)
            if isinstance(found, Site):
                return found
    return None


def _task(task: tuple[str, str, bool, list[Place]]) -> str:
    name, function, main, chain = task
    where = " > ".join(str(site(place)) for place in chain) or "not started"
    return f"{'main task ' if main else ''}{name} ({function}): {where}"


def _thread(pid: int, thread: tuple[str, int, list[Place]]) -> str:
    name, number, stack = thread
    call = in_kernel(pid, number) if number else ""
    where = " < ".join(str(site(place)) for place in stack[:12])
    return f"{name}: {f'in {call} < ' if call else ''}{where}"


def _standing(pid: int) -> str:
    call = in_kernel(pid, pid)
    return f" (in {call})" if call else ""
