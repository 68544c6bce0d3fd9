"""What one process at a time may do with a shared store: leases with fencing tokens.

A lease is held for a time by the database's clock and renewed. One that lapsed can be taken by another
process, with a higher token. Whoever writes as a holder has `require` look at the token in the same
transaction: so one that was overtaken, and does not know it yet, writes nothing.
"""

from __future__ import annotations

from datetime import timedelta

from aioum.core.errors import Refused
from aioum_node.leases import Lease
from aioum_node.store.postgres.driver import Connection, Connections
from aioum_node.store.postgres.processes import Membership

# The same process keeps its token as long as nobody could have come between.
_TAKE = """
    INSERT INTO leases AS l (name, process, token, held_until)
    VALUES ($1, $2, 1, clock_timestamp() + $3)
    ON CONFLICT (name) DO UPDATE SET process = excluded.process, held_until = excluded.held_until,
        token = l.token + (l.held_until <= clock_timestamp())::integer
    WHERE l.process = excluded.process OR l.held_until <= clock_timestamp()
    RETURNING token
"""


class PostgresLeases:
    """Leases of one process.

    Args:
        connections: to the store's schema.
        membership: who this process is.
        held_seconds: how long a lease is held without being renewed.
    """

    def __init__(self, connections: Connections, membership: Membership, held_seconds: float) -> None:
        self._connections = connections
        self._membership = membership
        self.held_seconds = held_seconds

    async def take(self, name: str) -> Lease | None:
        """Take or renew a lease; None where another process holds it.

        Raises:
            AioumError: `store-failed`.
        """
        async with self._connections.transaction() as connection:
            process = self._membership.process
            held = timedelta(seconds=self.held_seconds)
            token = await connection.fetchval(_TAKE, name, process, held)
        return None if token is None else Lease(name, process, token)

    async def release(self, lease: Lease) -> None:
        """Give a lease back; another process can take it at once.

        Raises:
            AioumError: `store-failed`.
        """
        async with self._connections.transaction() as connection:
            # The row stays: it knows how far tokens came.
            await connection.execute(
                "UPDATE leases SET held_until = '-infinity' WHERE name = $1 AND process = $2 AND token = $3",
                lease.name,
                lease.process,
                lease.token,
            )


async def require(connection: Connection, lease: Lease) -> None:
    """Whether nobody took the lease since; nobody can until this transaction ends.

    Raises:
        Refused: `lease-lost`.
    """
    held = await connection.fetchval(
        "SELECT true FROM leases WHERE name = $1 AND process = $2 AND token = $3 FOR SHARE",
        lease.name,
        lease.process,
        lease.token,
    )
    if held is None:
        raise Refused(f"another process took over {lease.name}", code="lease-lost")
