"""The pure protocol: bytes, hashes, trees, EIP-712, accounting, packages; no IO, clock or event loop."""
