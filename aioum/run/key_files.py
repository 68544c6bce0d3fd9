"""Sealing keys as PEM files: PKCS #8 for the secret one, SubjectPublicKeyInfo for the public one.

Both are what OpenSSL and others read. The algorithm is in the file, so nobody has to say it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import mldsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from aioum.core.errors import ConfigError
from aioum.run.keys import (
    ED25519,
    ML_DSA_44,
    ML_DSA_65,
    SEED_BYTES,
    Ed25519Key,
    MlDsaKey,
    SigningKey,
)
from aioum.run.policy import TrustedKey

MAX_KEY_FILE_BYTES: Final = 16_384

_PRIVATE: Final[dict[str, Any]] = {
    ED25519: Ed25519PrivateKey,
    ML_DSA_44: mldsa.MLDSA44PrivateKey,
    ML_DSA_65: mldsa.MLDSA65PrivateKey,
}
_PUBLIC: Final[dict[str, Any]] = {
    ED25519: Ed25519PublicKey,
    ML_DSA_44: mldsa.MLDSA44PublicKey,
    ML_DSA_65: mldsa.MLDSA65PublicKey,
}


def create_key_file(
    path: Path,
    alg: str,
    *,
    password: str | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> SigningKey:
    """Make a key, and keep it in a new file that its owner alone can read.

    Args:
        path: an existing file is never replaced.
        alg: one of `aioum.run.keys.ALGORITHMS`.
        password: the file is encrypted with it; None: it is not encrypted.
        random_bytes: gives as many random bytes as it is asked for.

    Raises:
        ConfigError: `run-key-file-exists`, `run-key-file-unusable`.
        InvalidInput: `run-key-invalid`.
    """
    seed = random_bytes(SEED_BYTES)
    key = _key(alg, seed)
    secret = (
        Ed25519PrivateKey.from_private_bytes(seed) if alg == ED25519 else _PRIVATE[alg].from_seed_bytes(seed)
    )
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    pem = secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ConfigError(
            f"{path} exists already", code="run-key-file-exists", hint="choose another name"
        ) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    return key


def read_key_file(path: Path, ask_password: Callable[[], str] | None = None) -> SigningKey:
    """Read a key that `create_key_file` or OpenSSL wrote.

    Args:
        path: the file.
        ask_password: is called where the file is encrypted.

    Raises:
        ConfigError: `run-key-file-exposed`, others can read it; `run-key-file-unusable`, also for a wrong
            password; `run-key-file-encrypted`, there is nobody to ask.
    """
    pem, mode = _read(path)
    if os.name == "posix" and mode & 0o077:
        raise ConfigError(
            f"the key file {path} can be read by others",
            code="run-key-file-exposed",
            hint=f"chmod 600 {path}",
        )
    password = None
    if b"ENCRYPTED PRIVATE KEY" in pem:
        if ask_password is None:
            raise ConfigError(
                f"{path} is encrypted, and no password was given", code="run-key-file-encrypted"
            )
        password = ask_password().encode()
    try:
        secret: Any = serialization.load_pem_private_key(pem, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # What stands there is secret: the library's error about it is not passed on.
        raise _unusable(path, "no key, or another password") from None
    for alg, kind in _PRIVATE.items():
        if isinstance(secret, kind):
            return _key(alg, secret.private_bytes_raw())
    raise _unusable(path, f"a key of another kind than {', '.join(_PRIVATE)}")


def write_public_key(path: Path, key: SigningKey) -> None:
    """Write the public half, for those who verify, in place of an older file. Raises ConfigError."""
    public = _public(key.alg, key.public_key)
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        path.write_bytes(pem)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def read_public_key(path: Path) -> TrustedKey:
    """Read a public key that `write_public_key` or OpenSSL wrote.

    Raises:
        ConfigError: `run-key-file-unusable`.
    """
    pem, _ = _read(path)
    try:
        public: Any = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "no public key") from error
    for alg, kind in _PUBLIC.items():
        if isinstance(public, kind):
            return TrustedKey(alg, public.public_bytes_raw())
    raise _unusable(path, f"a key of another kind than {', '.join(_PUBLIC)}")


def _key(alg: str, seed: bytes) -> SigningKey:
    return Ed25519Key(seed) if alg == ED25519 else MlDsaKey(alg, seed)


def _public(alg: str, raw: bytes) -> Any:
    return _PUBLIC[alg].from_public_bytes(raw)


def _read(path: Path) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            content, mode = file.read(MAX_KEY_FILE_BYTES + 1), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if len(content) > MAX_KEY_FILE_BYTES:
        raise _unusable(path, f"over {MAX_KEY_FILE_BYTES} bytes")
    return content, mode


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path}: {why}", code="run-key-file-unusable")
