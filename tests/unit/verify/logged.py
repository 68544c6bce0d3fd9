"""An honest session whose card names a log that has it."""

from dataclasses import replace
from typing import Any

from aioum.core.submission.framing import encode_base64
from aioum.log.entry import SessionEntry
from aioum.verify.logged import entry_of
from tests.unit.log.memberships import logged
from tests.unit.log.samples import KEY, ORIGIN
from tests.unit.verify.honest import Honest, card_json

LOG = {"origin": ORIGIN, "publicKey": encode_base64(KEY.public_key)}


def in_log(**changed: Any) -> Honest:
    """A session whose operator promises a log."""
    return Honest(card=card_json() | {"log": LOG, "maxLogDelaySeconds": 3600}, **changed)


def entry(honest: Honest, **changed: Any) -> SessionEntry:
    """What the log has of the session; `changed` makes a lie of it."""
    return replace(entry_of(honest.domain, honest.session()), **changed)


def log_member(honest: Honest, **changed: Any) -> dict[str, Any]:
    """The package's proof, genuine whatever the entry says."""
    return logged(entry(honest, **changed).to_bytes()).to_json()
