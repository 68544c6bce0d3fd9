"""A verdict on a submission for a person."""

from __future__ import annotations

import click

from aioum.cli.output import fact
from aioum.cli.plain import one_line
from aioum.trust.bundle_verdict import BundleVerdict
from aioum.trust.submission_facts import Fact

MAX_SHOWN = 20
"""Most reasons that are printed."""

_WIDTH = max(len(name) for name in Fact)


def print_verdict(verdict: BundleVerdict, package_digest: str) -> None:
    """Print the verdict, the score, the facts and what is wrong on standard output."""
    word = "valid" if verdict.valid else "not valid"
    submitter = verdict.bundle.submitter
    click.echo(f"{word} · evidence {verdict.evidence_verdict.value} · package {package_digest}")
    click.echo(one_line(f"submission {submitter.submission_id} of {submitter.agent_id}"))
    if verdict.valid and verdict.aggregate is not None:
        click.echo(f"score {verdict.aggregate.score} over {len(verdict.episodes)} episodes, recomputed")
    for name in Fact:
        click.echo(f"  {name.value.ljust(_WIDTH)}  {verdict.facts[name].value}")
    for reason in verdict.reasons[:MAX_SHOWN]:
        click.echo(one_line(f"problem: {reason.message} [{reason.code}]"))
    if len(verdict.reasons) > MAX_SHOWN:
        fact(f"and {len(verdict.reasons) - MAX_SHOWN} more; --json lists up to a hundred")
