"""Programs that show aioum at work: services that sell tools, and a client that buys from them."""
