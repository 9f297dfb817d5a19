"""A prefix goes to host memory, survives a flush of the device cache, and comes back. CPU only."""

import numpy as np

import hicache_nsa as hc

fmt = hc.formats.dsa(num_layers=4)  # latent rows and indexer keys, pages of 64 tokens
pools = {b.name: [np.zeros((8, b.page_bytes), np.uint8) for _ in b.layers] for b in fmt.buffers}

with hc.HiCache(fmt, device_buffers=pools, host_size="16MiB") as cache:
    prompt = list(range(300))
    pages = cache.allocate(5)  # room for 300 tokens in the engine's own memory ...
    pools["latent"][0][pages] = 7  # ... which its forward pass fills
    cache.insert(prompt, pages)  # takes the 4 whole pages and saves them in the background
    cache.free(pages[4:])  # the last, partial page stays the request's own
    cache.reset()  # flush: nothing on device any more, the host copies stay

    match = cache.match_prefix(prompt[:-1])
    print(f"device hit {match.device_tokens}, host hit {match.host_tokens} of {len(prompt)} tokens")
    with cache.load_back(match) as load:  # None if there is no room: compute the tokens then
        for layer in range(fmt.num_layers):
            load.wait_layer(layer)  # this layer has landed: its attention can run
        print("first byte is back:", pools["latent"][0][load.pages[0], 0])
