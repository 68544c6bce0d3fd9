"""Historical verifier kits: canonical archives named by their digest, run only in a sandbox (RFC-016)."""
