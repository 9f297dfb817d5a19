"""``hicache bench pin``: what it takes to have a host pool's memory ready, and to give it back."""
