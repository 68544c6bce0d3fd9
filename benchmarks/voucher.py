"""Checking and signing a voucher: one keccak over words, against eth-account on the same curve."""

from __future__ import annotations

from eth_account import Account
from eth_keys.backends import get_backend
from eth_keys.backends.coincurve import CoinCurveECCBackend

from aioum.core.payment import Domain, Voucher
from aioum.core.signing import LocalKey, recover
from aioum.core.types import Address, ChannelId
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.naive.signatures import recover_with_eth_account, sign_with_eth_account
from benchmarks.result import Case, Comparison

NAME = "voucher"
OPERATION = "one voucher"
PACKAGES = ("coincurve", "eth-account", "eth-keys")
NOTES = ()

# Throw-away.
_KEY = LocalKey(bytes(31) + b"\x07")
_DOMAIN = Domain(31_337, Address(bytes.fromhex("5fbdb2315678afecb367f032d93f642f64180aa3")))
_VOUCHER = Voucher(ChannelId(bytes(range(32))), 1_234_567)


def check(voucher: Voucher, signature: bytes) -> Address:
    """The way nodes check a voucher."""
    return recover(voucher.digest(_DOMAIN), signature)


def sign(voucher: Voucher) -> bytes:
    """The way clients sign one."""
    return _KEY.sign_digest(voucher.digest(_DOMAIN))


def run(plan: Plan) -> list[Case]:
    """Measure checking and signing."""
    if not isinstance(get_backend(), CoinCurveECCBackend):
        raise RuntimeError(
            "eth-account would run on a slower curve than ours: eth-keys does not use coincurve"
        )
    signature = sign(_VOUCHER)
    account = Account.from_key(_KEY.secret_bytes())
    checked = recover_with_eth_account(_VOUCHER, _DOMAIN, signature)
    if sign_with_eth_account(_VOUCHER, _DOMAIN, account) != signature or checked != check(
        _VOUCHER, signature
    ):
        raise RuntimeError("the alternatives do not agree")
    checks = [
        Alternative("aioum", repeated(check, _VOUCHER, signature)),
        Alternative("eth-account", repeated(recover_with_eth_account, _VOUCHER, _DOMAIN, signature)),
    ]
    signs = [
        Alternative("aioum", repeated(sign, _VOUCHER)),
        Alternative("eth-account", repeated(sign_with_eth_account, _VOUCHER, _DOMAIN, account)),
    ]
    comparisons = (Comparison(subject="aioum", baseline="eth-account"),)
    return [
        Case(name=name, samples=measure(alternatives, plan), comparisons=comparisons)
        for name, alternatives in (("check", checks), ("sign", signs))
    ]
