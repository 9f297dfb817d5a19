"""A trace replayed through the cache's own tree and policies, with both tiers and without bytes.

``no_copy`` and ``cache`` are a ``HiCache`` whose copies move nothing; ``case`` is what one replay
varies, ``serving`` does it; ``prefixes`` and ``bound`` say what no policy can exceed; ``estimate``
makes times of hits; ``simulation`` runs a list of cases into a ``report``; ``picture`` draws it.
"""
