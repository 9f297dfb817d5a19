"""The main job, shown end to end: few-shot questions answered cold, warm, and again after a flush.

``prompts`` makes or reads the questions, ``tokenizers`` turns them into token ids, ``sizing`` says
how many pages the pools need, ``introduction`` what is going to be shown; ``engine`` serves one
request through the cache, ``runner`` does the three runs, ``digests`` proves that every page which
came back holds the bytes that were computed; ``results`` holds the outcome, ``verdict`` says what
did not hold and ``table`` shows it all. ``extra`` is how to install what the demo needs.
"""
