"""A certificate authority of a test, and what it certifies."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority, a server at 127.0.0.1, a client."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def made_certificates(folder: Path) -> Certificates:
    """Make all of them, valid for an hour."""
    root = ec.generate_private_key(ec.SECP256R1())
    authority = _write(folder / "authority", _certificate("authority", root, "authority", root, is_root=True))
    paths = []
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        paths.append(_write(folder / name, _certificate(name, key, "authority", root)))
        key_file = folder / f"{name}.key"
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        paths.append(key_file)
    return Certificates(authority, *paths)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_root: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
        .add_extension(_usage(is_root=is_root), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(*, is_root: bool) -> x509.KeyUsage:
    # Python 3.13 checks what RFC 5280 asks of an authority.
    return x509.KeyUsage(
        digital_signature=not is_root,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_root,
        crl_sign=is_root,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, certificate: x509.Certificate) -> Path:
    path = path.with_suffix(".pem")
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
