"""Mutation testing of the contracts: what their tests would not notice (`scripts/mutate`)."""
