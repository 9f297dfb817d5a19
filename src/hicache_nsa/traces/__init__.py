"""Requests of a recorded trace, or of a file of prompts, as pages.

``lines`` reads JSON lines, ``blocks`` what traces of block ids have, ``prompts`` what files of
prompts have, ``pages`` makes pages of either, ``reading`` chooses by the first line.
"""

from hicache_nsa.traces.lines import TraceError
from hicache_nsa.traces.reading import KINDS, TraceOptions, read_trace
from hicache_nsa.traces.trace import Request, Trace

__all__ = ["KINDS", "Request", "Trace", "TraceError", "TraceOptions", "read_trace"]
