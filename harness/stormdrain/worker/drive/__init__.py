"""How each kind of subject is driven: asyncio, trio, services."""
