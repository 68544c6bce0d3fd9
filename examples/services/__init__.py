"""Services that people would buy from."""
