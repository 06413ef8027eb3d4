"""Certificates for tests of TLS on loopback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificates(directory: Path) -> dict[str, Path]:
    """Write a certificate authority and a certificate for loopback, for both ends."""
    now = datetime.now(UTC)

    def make(name: str, issuer: x509.Name, issuer_key: ec.EllipticCurvePrivateKey | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer if issuer_key else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer_key is None, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
        )
        made[name] = (key, builder.sign(issuer_key or key, hashes.SHA256()))
        paths[name] = directory / f"{name}.pem"
        paths[name].write_bytes(made[name][1].public_bytes(serialization.Encoding.PEM))
        paths[f"{name}-key"] = directory / f"{name}-key.pem"
        paths[f"{name}-key"].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )

    made: dict[str, tuple[ec.EllipticCurvePrivateKey, x509.Certificate]] = {}
    paths: dict[str, Path] = {}
    make("ca", x509.Name([]), None)
    make("both", made["ca"][1].subject, made["ca"][0])
    return paths
