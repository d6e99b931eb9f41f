"""redis/redis-py#2665: a cancelled command leaves its answer in the connection, and the next command gets it."""

from redis.asyncio import Redis

from stormdrain import probe


async def get(client, case):
    return await client.get("first")


async def get_another(client, case):
    answer = await client.get("second")
    assert answer == b"2", f"asked for the second key, and got {answer!r}"


@probe(operation=get, follow_up=get_another)
async def command(case):
    """The server answers after 100 ms. Bad: 4.5.3. Good: 4.5.5."""
    server = case.peer(
        speaks="redis", replies={"GET first": [b"$1\r\n1\r\n"], "GET second": [b"$1\r\n2\r\n"]}, reply_after=0.1
    )
    client = Redis(host=server.host, port=server.port)
    yield client
    await client.close()
