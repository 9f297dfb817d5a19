"""What there is on a machine, what it means for the cache, and what to do about it.

``read_facts`` reads, each ``CHECKS`` judges one line of what was read, ``examine`` takes them
together. Nothing here needs torch or an extra.
"""

from hicache_nsa.doctor.examination import CHECKS, examine
from hicache_nsa.doctor.finding import FAIL, OK, WARN, Finding
from hicache_nsa.doctor.reading import read_facts
from hicache_nsa.doctor.report import DoctorReport
from hicache_nsa.doctor.system import System

__all__ = [
    "CHECKS",
    "FAIL",
    "OK",
    "WARN",
    "DoctorReport",
    "Finding",
    "System",
    "examine",
    "read_facts",
]
