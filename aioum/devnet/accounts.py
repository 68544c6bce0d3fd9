"""The devnet's accounts. Everybody knows their keys."""

from __future__ import annotations

from functools import cache

from aioum.core.signing import LocalKey
from aioum.devnet.config import AccountsSection, default_config


def well_known_keys(accounts: AccountsSection | None = None) -> tuple[LocalKey, ...]:
    """Keys of the devnet's accounts, in order; by default those of the configuration that ships with
    aioum.
    """
    chosen = accounts or default_config().accounts
    return _keys(chosen.mnemonic, chosen.count)


@cache
def _keys(mnemonic: str, count: int) -> tuple[LocalKey, ...]:
    from eth_account import Account

    # Unaudited, says eth-account: nothing but keys that are public already comes out of it here.
    Account.enable_unaudited_hdwallet_features()
    derived = (
        Account.from_mnemonic(mnemonic, account_path=f"m/44'/60'/0'/0/{position}")
        for position in range(count)
    )
    return tuple(LocalKey(bytes(account.key)) for account in derived)
