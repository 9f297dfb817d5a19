"""``hicache bench tree``: what calls on the prefix tree cost, ours and beside it those of peers."""
