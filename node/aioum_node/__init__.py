"""The operator's side of aioum: a node that serves, meters, records and settles paid tools."""

__all__: list[str] = []
