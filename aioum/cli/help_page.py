"""`docs/cli.md` out of the commands themselves: `python -m aioum.cli.help_page > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from aioum.cli.main import cli
from aioum.cli.verify_evidence import verify_evidence

WIDTH_CHARACTERS = 100

_INTRODUCTION = """# Commands

What `--help` says, command by command. A test holds this page against the commands; after a change there,
write it anew:

```sh
.venv/bin/python -m aioum.cli.help_page > docs/cli.md
```

Keys come from a key store with its password, from a key file, or, on a local devnet alone, from one of the
accounts that everybody knows. No option takes a secret itself. Results go to standard output, everything else
to standard error. In a pipe, tables are plain text; `--json` prints one JSON document, with amounts in base
units as text.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused or failed: `error: … [code]` and often `hint: …` on standard error |
| 2 | wrong usage |
| 130 | interrupted |
"""


def help_page() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION]
    for root, command in (("aioum", cli), ("verify-evidence", verify_evidence)):
        for name, ctx in _contexts(root, command, None):
            depth = "##" if ctx.parent is None or isinstance(ctx.command, click.Group) else "###"
            parts.append(f"{depth} {name}\n\n```text\n{ctx.command.get_help(ctx)}\n```\n")
    return "\n".join(parts)


def _contexts(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Context]]:
    ctx = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH_CHARACTERS)
    ctx.help_option_names = ["-h", "--help"]
    yield ctx.command_path, ctx
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            found = command.get_command(ctx, child)
            if found is not None:
                yield from _contexts(child, found, ctx)


if __name__ == "__main__":
    click.echo(help_page(), nl=False)
