"""Client-signed calls, scheme `gaos.submission.ed25519.v1` (PROTOCOL 5)."""
