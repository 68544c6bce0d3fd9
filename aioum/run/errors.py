"""What reading and sealing runs refuses, by kind; the codes are at the functions that raise them."""

from __future__ import annotations

from typing import ClassVar

from aioum.core.errors import InvalidInput


class EventMalformed(InvalidInput):
    """An event or a run's header is not what PROTOCOL 8 says."""

    default_code: ClassVar[str] = "event-malformed"


class EnvelopeMalformed(InvalidInput):
    """A DSSE envelope is not written as the specification says."""

    default_code: ClassVar[str] = "dsse-malformed"


class CapsuleMalformed(InvalidInput):
    """A capsule file or its seal cannot be read; nothing can be said of the run."""

    default_code: ClassVar[str] = "capsule-malformed"


class SuiteUnknown(InvalidInput):
    """A header names hashes that this program does not compute; others are never taken instead."""

    default_code: ClassVar[str] = "suite-unknown"


class SealRefused(InvalidInput):
    """A run cannot be sealed like this."""

    default_code: ClassVar[str] = "seal-refused"
