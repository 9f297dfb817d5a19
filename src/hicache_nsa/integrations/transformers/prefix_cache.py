"""``PrefixCache``: a cache for ``generate()`` that reuses what earlier calls computed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from hicache_nsa import CacheStats, HiCache, HiCacheError, HostPool, ResetReport, TransferEngine
from hicache_nsa.errors import require_equal
from hicache_nsa.formats.checks import positive_int
from hicache_nsa.integrations.transformers.forward_call import (
    ForwardCall,
    read_call,
    without_first,
)
from hicache_nsa.integrations.transformers.forward_hooks import Forward, watch_forwards
from hicache_nsa.integrations.transformers.kept import find_kept, pool_format
from hicache_nsa.integrations.transformers.paged import PagedTensors
from hicache_nsa.integrations.transformers.prefix_store import PrefixStore
from hicache_nsa.integrations.transformers.sizing import device_page_count
from hicache_nsa.integrations.transformers.supported import new_layers
from hicache_nsa.pools import check_device
from hicache_nsa.tokens import ExtraKey, namespace

_OWN = ("format", "device", "device_buffers", "device_reserved", "stream", "acks")


@dataclass(frozen=True)
class PromptUse:
    """Where the tokens of a prompt came from."""

    prompt_tokens: int
    device_hit_tokens: int
    host_hit_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Tokens that the model computed."""
        return self.prompt_tokens - self.device_hit_tokens - self.host_hit_tokens


class PrefixCache(DynamicCache):
    """Hand the same one to every ``generate()`` of ``model``, with the whole prompt:

    >>> cache = PrefixCache(model, host_size="1GiB")                      # doctest: +SKIP
    >>> model.generate(input_ids, past_key_values=cache)                  # doctest: +SKIP

    It brings back the longest prefix that it has, whole pages, and the model computes the rest.
    Whole pages of prompt and answer are taken in as soon as they are computed, and saved to host
    memory in the background. One sequence at a time, from one thread.

    model: a decoder-only transformers model on one device, with full attention or DSA.
    host_size ("50GiB", bytes) or host_pages: the host tier; 0 pages: none.
    device_size or device_pages: pages on the model's device, beside the sequence that is being
        computed. Longer prefixes are not cached. Default: room for the model's context, at most
        8,192 tokens and no more pages than the host tier.
    page_size: tokens a page. extra_key: LoRA id, salt, ...; can be set between two prompts.
    Further options (layout, io_backend, pin_memory, load_back_threshold ...): ``HiCache``.

    Raises:
        ValueError, TypeError: a model or an option that is not supported, by name.
        HiCacheError: no memory for one of the tiers.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        host_size: int | str | None = None,
        host_pages: int | None = None,
        device_size: int | str | None = None,
        device_pages: int | None = None,
        page_size: int = 64,
        layout: str = "page_first",
        extra_key: ExtraKey = None,
        **options: Any,
    ) -> None:
        for name in _OWN:
            if name in options:
                raise TypeError(f"{name} is not an option: a PrefixCache sets it by the model")
        page_size = positive_int(page_size, "page_size")
        namespace(extra_key)  # TypeError for one that is none
        kept = find_kept(model)
        format = pool_format(model, kept, page_size)
        device = check_device(model.device)
        host = HostPool(format, host_pages, host_size, layout)  # no memory yet: only its checks
        context = getattr(model.config, "max_position_embeddings", None)
        pages = device_page_count(format, host.num_pages, context, device_pages, device_size)
        super().__init__(config=model.config)
        paged = PagedTensors(kept, format, pages, model.device)
        hicache = HiCache(
            format, device=device, device_buffers=paged.buffers, host_pages=host.num_pages,
            layout=layout, **options,
        )  # fmt: skip
        self.extra_key = extra_key
        self.last_prompt = PromptUse(0, 0, 0)
        self._model_name = type(model).__name__
        self._model = model
        self._kept = kept
        self._device = model.device
        self._page_size = format.page_size
        self._store = PrefixStore(hicache, paged)
        self._forward: Forward | None = None  # in progress, or interrupted
        self._beginning = threading.Lock()
        self._thread = 0  # the one that the sequence belongs to
        self._tokens = np.empty(0, np.int64)  # those in the layers
        self._pending = self._tokens  # and those of the forward in progress
        self._drop_sequence()
        self._unwatch = watch_forwards(model, self)

    def __repr__(self) -> str:
        return f"PrefixCache({self._model_name}, {self.hicache!r})"

    # -- the tiers ------------------------------------------------------------------------------

    @property
    def hicache(self) -> HiCache:
        """The cache of pages below, for all that is not here."""
        return self._store.hicache

    @property
    def engine(self) -> TransferEngine:
        """The transfer engine, for ``hicache_nsa.testing``."""
        return self.hicache.engine

    def stats(self) -> CacheStats:
        """Pages of both tiers, and the counters."""
        return self.hicache.stats()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until all saves have landed on host; False after ``timeout`` seconds."""
        return self.hicache.drain(timeout)

    def reset(self) -> ResetReport:
        """Flush: nothing on the device any more, host copies stay and are hits.

        The sequence that was computed last goes as well. Not enough after a change of weights:
        ``invalidate()``.
        """
        self._drop_sequence()
        return self.hicache.reset()

    def clear(self) -> None:
        """Empty both tiers."""
        self._drop_sequence()
        self.hicache.clear()

    def invalidate(self) -> None:
        """The weights changed: nothing that was computed before comes back."""
        self._drop_sequence()
        self.hicache.invalidate()

    def check(self) -> None:
        """``InvariantError`` if a rule of the tiers is broken, or a page is held between calls."""
        self.hicache.check()
        if self._forward is None:
            require_equal("tokens in the layers", self._held(), len(self._tokens))
            require_equal("pages held", self.stats().device.owned_pages, 0)

    def close(self) -> None:
        """Leave the model as it was, finish copies, release the memory. Idempotent."""
        self._unwatch()
        self._drop_sequence()
        self.hicache.close()

    def __enter__(self) -> PrefixCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what the hooks on the model's forward call ---------------------------------------------

    def begin_forward(self, arguments: dict[str, Any], forward: Forward) -> dict[str, Any]:
        """Find the prefix of a new prompt; returns the arguments without what it brought back.

        A forward from position 0 is a new prompt, one behind the last token goes on with it.

        Raises:
            ValueError, TypeError: a forward that cannot be served, or an ``extra_key`` that is
                none; nothing changed.
            HiCacheError: another thread is in a forward.
        """
        call = read_call(arguments)
        if self._model.training:
            raise ValueError("the model is in training mode: call model.eval()")
        with self._beginning:  # of two threads that begin at once, one is refused
            first = self._first_of(call, forward)
            if not first:
                namespace(self.extra_key)
                self._drop_sequence()
                self._thread = forward.thread
            before = len(self._tokens)
            self._pending = np.concatenate([self._tokens, np.asarray(call.tokens, np.int64)])
            self._forward = forward
        device, host = 0, 0
        if len(call.tokens) > call.keep:
            device, host = self._store.restore(
                self._pending, self.layers, before, call.keep, self._key
            )
        if not first:
            self.last_prompt = PromptUse(len(self._pending), device, host)
        elif len(call.tokens) > call.keep:  # a further chunk of a prompt that is computed in chunks
            use = self.last_prompt
            self.last_prompt = PromptUse(
                len(self._pending), use.device_hit_tokens + device, use.host_hit_tokens + host
            )
        return without_first(arguments, device + host)

    def _first_of(self, call: ForwardCall, forward: Forward) -> int:
        """The position at which ``call`` starts: 0, or behind the sequence that is held."""
        held = len(self._tokens)
        if self._forward is not None:
            if not self._forward.is_ours():
                raise HiCacheError(
                    "this PrefixCache is in a forward of another thread; one at a time"
                )
            held = 0  # that forward was interrupted: its layers may be half done
        first = 0 if call.first is None and not held else call.first
        if first is None or (first and (first != held or self._thread != forward.thread)):
            raise ValueError(
                f"this PrefixCache holds {held} tokens of a sequence and the forward starts at "
                f"position {first}: pass position_ids from 0 for a new prompt, from {held} on to "
                f"go on, in the same thread"
            )
        return first

    def end_forward(self, succeeded: bool) -> None:
        """Take in the whole pages that are new; after a failure, forget the sequence."""
        if self._forward is None or not self._forward.is_ours():
            return  # begin_forward refused it: nothing changed
        self._forward = None
        if not succeeded:
            self._drop_sequence()
            return
        before, self._tokens = len(self._tokens), self._pending
        require_equal("tokens in the layers", self._held(), len(self._tokens))
        if len(self._tokens) // self._page_size > before // self._page_size:
            self._store.take_in(self._tokens, self.layers, self._key)

    def _held(self) -> int:
        return int(self.layers[self._kept["keys"].layers[0]].get_seq_length())

    def _drop_sequence(self) -> None:
        self.layers = new_layers(self._model)
        self._tokens = self._pending = np.empty(0, np.int64)
        self._key = self.extra_key
        self._forward = None

    # -- what transformers calls ----------------------------------------------------------------

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens in the layers during a forward. 0 between them: ``generate()`` is to hand in the
        whole prompt, what of it is cached turns out in the forward.
        """
        self.hicache.poll(0)  # HiCacheError once it is closed
        if self._forward is None or not self._forward.is_running():
            return 0
        return int(super().get_seq_length(layer_idx))

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append to a layer; the whole sequence's keys and values."""
        self._require_forward()
        self._kept["keys"].check(key_states, layer_idx, self._device)
        self._kept["values"].check(value_states, layer_idx, self._device)
        whole: tuple[torch.Tensor, torch.Tensor] = super().update(
            key_states, value_states, layer_idx, *args, **kwargs
        )
        return whole

    def update_indexer(self, indexer_key_states: torch.Tensor, layer_idx: int) -> torch.Tensor:
        """Append indexer keys to a layer; those of the whole sequence."""
        self._require_forward()
        if "indexer_keys" in self._kept:
            self._kept["indexer_keys"].check(indexer_key_states, layer_idx, self._device)
        whole: torch.Tensor = super().update_indexer(indexer_key_states, layer_idx)
        return whole

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last ``-tokens_to_remove`` tokens of the sequence; cached pages stay."""
        super().crop(tokens_to_remove)
        self._tokens = self._tokens[: self._held()]

    def reorder_cache(self, beam_idx: Any) -> NoReturn:
        """Beams are not supported."""
        self._refuse("beam search")

    def batch_repeat_interleave(self, repeats: int) -> NoReturn:
        """Batches are not supported."""
        self._refuse("a batch of several sequences")

    def batch_select_indices(self, indices: Any) -> NoReturn:
        """Batches are not supported."""
        self._refuse("a batch of several sequences")

    def __reduce__(self) -> NoReturn:  # copy and deepcopy come here too
        raise TypeError("a PrefixCache isn't copied: hand the same one to every generate()")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{what} is not supported by PrefixCache; use a DynamicCache there")

    def _require_forward(self) -> None:
        if self._forward is None or not self._forward.is_ours():
            raise HiCacheError(
                f"this PrefixCache belongs to a {self._model_name} and works in the forward of "
                f"that model object only, until close(): hand it to no other model or part of it"
            )
