"""`aioum rate`."""

from __future__ import annotations

import asyncio

import click

from aioum.cli.keys import KeySource, key_options
from aioum.cli.output import print_facts, print_json
from aioum.cli.references import SESSION
from aioum.cli.settings import Settings, common_options, examples


@click.command(
    epilog=examples(
        "aioum rate 3 --key-store key.json",
        "aioum rate 3 --score 80 --detail-uri https://files.example/review.html --yes",
        "aioum rate 3 --suggest --json",
    )
)
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.option(
    "--score", type=click.IntRange(0, 100), metavar="0…100", help="Your score; without it you are asked."
)
@click.option("--detail-uri", default="", metavar="URI", help="Where you say more; at most 2,048 bytes.")
@click.option(
    "--registry", "registry_hex", metavar="ADDRESS", help="The RatingRegistry; by default the deployment's."
)
@click.option("--suggest", is_flag=True, help="Print what your record suggests, and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask: rate as suggested, or with --score.")
@key_options
@common_options
def rate(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    score: int | None,
    detail_uri: str,
    registry_hex: str | None,
    suggest: bool,
    yes: bool,
) -> None:
    """Rate a session that is over, once.

    A score is suggested from what your record of the session says: failed and missing answers, slow ones by
    what the card allows, contradictions and provable lies. Each reason is shown with its points; 100 is best.
    """
    from aioum.cli import rating
    from aioum.core.errors import InvalidInput
    from aioum.core.hextext import address

    if suggest:
        suggested = asyncio.run(rating.suggest(settings, key_source, reference))
        if settings.as_json:
            print_json(rating.suggested_json(suggested))
        else:
            print_facts(
                [
                    ("suggested", f"{suggested.score} of 100"),
                    *((f"-{reason.points}", reason.text) for reason in suggested.reasons),
                ]
            )
        return
    try:
        registry = None if registry_hex is None else address(registry_hex)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    rated = asyncio.run(
        rating.rate(
            settings, key_source, reference, score=score, detail_uri=detail_uri, registry=registry, yes=yes
        )
    )
    if settings.as_json:
        print_json(rating.rated_json(rated))
        return
    print_facts([("rated", f"{rated.score} of 100")])
