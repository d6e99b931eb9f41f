"""A service that is no Python program: a shell script that notes down what it reads, written with care and without."""

import os

from stormdrain import ready_reply, service

CAREFUL = """
trap 'echo end >> journal; exit 0' TERM
while read line; do echo "$line" >> journal; echo "noted $line"; done
echo end >> journal
"""
CARELESS = """
sleep 600 &
trap 'exit 0' TERM
while read line; do echo "$line" >> journal; echo "noted $line"; done
"""


def is_closed(case):
    """The journal's last line says that it is complete."""
    with open(os.path.join(case.path, "journal")) as journal:
        return journal.read().splitlines()[-1] == "end"


def note(service):
    service.send("a line")
    service.in_flight("a-line")
    service.line("noted a line")


@service(
    exits={"SIGTERM": 0, "EOF": 0},
    artefacts=is_closed,
    prompt=1,
    parametrize={"careful": CAREFUL, "careless": CARELESS},
)
def journal(case):
    yield case.spawn(["sh", "-c", case.param], ready=ready_reply("hello", "noted hello"), client=note)
