"""omnilib/aiosqlite PR 317: a cancelled connect() leaves its thread behind, and the interpreter never exits."""

import aiosqlite

from stormdrain import probe


async def connect(path, case):
    case.hand_back(lambda connection: connection.close())
    return await aiosqlite.connect(path)


@probe(operation=connect)
async def connection(case):
    """Bad: 0.20.0. Good: 0.21.0."""
    return f"{case.path}/database"
