"""What an engine needs that stores and loads blocks by their hash: no engine is imported here.

A *chunk* is what has one key: one page of the device, or several that follow each other in a
prompt. The side that decides (``HostChunks``) knows ids of chunks only; the side that copies
(``record``, ``Copies``) has the memory. They may be in different processes and agree by arithmetic.
"""
