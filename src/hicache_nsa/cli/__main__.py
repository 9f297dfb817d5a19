"""``python -m hicache_nsa.cli``: the command without its script."""

from hicache_nsa.cli import main

main()
