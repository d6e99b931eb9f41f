"""Bogdanp/dramatiq#465: a process that an actor starts inherits a mask in which SIGTERM is blocked."""

import os
import sys

from stormdrain import ready_child, service

TASKS = """
import os, subprocess
import dramatiq
from dramatiq.brokers.stub import StubBroker
broker = StubBroker(middleware=[])
dramatiq.set_broker(broker)
@dramatiq.actor
def work():
    subprocess.Popen([os.environ["CHILD"]]).wait()
work.send()
"""


@service(exits={"SIGTERM": 0}, storms=["signal-child"], bound=5, requires=["setuptools<70"])
def workers(case):
    """Bad: 1.12.1. Good: 1.12.3. Both on Python 3.11."""
    child = case.child("tool", on_eof="stay")
    with open(os.path.join(case.path, "tasks.py"), "w") as file:
        file.write(TASKS)
    words = ["-m", "dramatiq", "--path", ".", "--processes", "1", "--threads", "1", "tasks"]
    return case.spawn([sys.executable, *words], ready=ready_child(child), env={"CHILD": child.path})
