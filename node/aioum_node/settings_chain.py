"""Settings of how a node asks the chain and pays for its transactions; units are in their names."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from aioum.chain.endpoints import PoolPolicy
from aioum.chain.fees import FeePolicy


class ChainSettings(BaseSettings):
    """The chain's endpoints and fees; `Settings` has them all."""

    rpc_rest_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        1.0, description="rest of an endpoint that failed once; twice as long with each further failure"
    )
    rpc_max_rest_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        60.0, description="longest rest of an endpoint"
    )
    rpc_head_patience_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        30.0, description="a newest block that no endpoint has any more for so long is given up"
    )
    rpc_probe_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        2.0, description="how long one of several endpoints may take to tell its newest block"
    )
    replace_after_seconds: Annotated[float, Field(gt=0, le=86_400)] = Field(
        60.0, description="a transaction that is in no block for so long is replaced by a dearer one"
    )
    max_fee_per_gas_wei: Annotated[int, Field(ge=1)] = Field(
        500_000_000_000,
        description="most that a transaction may pay per unit of gas; where that is not enough, it waits and "
        "fee-cap-reached is told",
    )
    settle_batch_items: Annotated[int, Field(ge=1, le=100)] = Field(
        20, description="sessions that may be settled in one transaction where they are ready together"
    )

    def pool_policy(self) -> PoolPolicy:
        """How patient the node is with its endpoints."""
        return PoolPolicy(
            rest_seconds=self.rpc_rest_seconds,
            max_rest_seconds=self.rpc_max_rest_seconds,
            head_patience_seconds=self.rpc_head_patience_seconds,
            probe_timeout_seconds=self.rpc_probe_timeout_seconds,
        )

    def fee_policy(self) -> FeePolicy:
        """How the node pays."""
        return FeePolicy(self.replace_after_seconds, self.max_fee_per_gas_wei)
