"""Settings of what a node's clients may do about an answer, and of how it watches over held money."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt
from pydantic_settings import BaseSettings

DisputeWindow = Annotated[int, Field(ge=0, le=2_592_000)]


class DisputeSettings(BaseSettings):
    """Dispute terms and the loop that keeps them; `Settings` has them all."""

    dispute_window_seconds: DisputeWindow = Field(
        0,
        description="what sessions capture is held on-chain for so long, and clients may dispute it or ask "
        "for proofs; at least 3,600; 0: it is paid at once",
    )
    dispute_bond: str | StrictInt = Field(
        "0",
        description="what a dispute or a challenge costs a client that is not right: whole tokens as text, "
        "or base units; above 0 where there is a window",
    )
    arbitrator: str = Field(
        "",
        description="address that rules on disputes; empty: clients can ask for proofs, and dispute nothing "
        "else",
    )
    ruling_period_seconds: Annotated[int, Field(ge=86_400, le=2_592_000)] = Field(
        604_800, description="how long the arbitrator has to rule on a dispute"
    )
    dispute_interval_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        5.0, description="pause between looks for challenges and disputes"
    )
