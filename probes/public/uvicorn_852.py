"""Kludex/uvicorn#852: with several workers, SIGTERM to the supervisor alone ends nothing."""

import os
import sys

from stormdrain import ready_port, service

APP = """
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})
"""


@service(exits={"SIGTERM": 0, "SIGINT": 0}, storms=["signal"], requires=["setuptools<70"])
def supervisor(case):
    """Bad: 0.14.0. Good: 0.15.0. Both on Python 3.11."""
    with open(os.path.join(case.path, "page.py"), "w") as file:
        file.write(APP)
    port = case.port()
    words = ["-m", "uvicorn", "page:app", "--workers", "2", "--port", str(port)]
    return case.spawn([sys.executable, *words], ready=ready_port(port))
