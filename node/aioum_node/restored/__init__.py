"""Restored stores: how one is noticed, what its sessions may not do, and how they come back."""
