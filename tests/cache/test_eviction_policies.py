"""The order of eviction, page by page, against a naive model: every policy, on both tiers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from eviction_model import FORMAT, PAGE, AllEqual, MostHitsFirst, Pair, order_name, prompt
from eviction_model import POLICIES as EACH
from hypothesis import given, settings
from hypothesis import strategies as st

import hicache_nsa as hc
from hicache_nsa.page_index import POLICIES, PageIndex
from hicache_nsa.tree import EVICTION_POLICIES, EvictionPolicy, RadixTree
from hicache_nsa.tree.min_queue import MinQueue

policies = pytest.mark.parametrize("policy", EACH, ids=order_name)
tiers = pytest.mark.parametrize("tier", ["device", "host"])


def random_path(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randrange(3) for _ in range(rng.randrange(1, 7)))


def random_step(pair: Pair, rng: random.Random) -> None:
    path = random_path(rng)
    match rng.choice("iiimmmnlLUeeEEf" if rng.random() < 0.1 else "iiimmmnlLUeeEE"):
        case "i":
            pair.insert(path, rng.choice([0, 0, 2, 1, -1]))
        case "m":
            pair.match(path)
        case "n":
            pair.match(path, count=False)
        case "l":
            pair.load(path)
        case "L" if len(pair.handles) < 3:
            pair.lock(path)
        case "U":
            pair.unlock(rng.randrange(3))
        case "e":
            pair.evict("device", rng.choice([1, 1, 1, 2, 3, 9]))
        case "E":
            pair.evict("host", rng.choice([1, 1, 1, 2, 3, 9]))
        case "f":
            pair.flush()


@policies
@pytest.mark.parametrize("seed", range(3))
def test_random_work_is_evicted_in_the_models_order(policy, seed):
    rng = random.Random(seed)
    with Pair(policy) as pair:
        for _ in range(150):
            random_step(pair, rng)
        while pair.handles:
            pair.unlock(0)
        for tier, there in (("host", pair.host), ("device", pair.device)):
            for _ in range(len(there)):
                assert len(pair.evict(tier, 1)) == 1
            assert pair.evict(tier, 1) == []
        assert not pair.pages


paths = st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple)
steps = st.one_of(
    st.tuples(st.just("insert"), paths, st.integers(-1, 1)),
    st.tuples(st.sampled_from(["match", "load", "lock"]), paths),
    st.tuples(st.just("unlock"), st.integers(0, 2)),
    st.tuples(st.just("evict"), st.sampled_from(["device", "host"]), st.integers(1, 4)),
    st.tuples(st.just("flush")),
)


@settings(max_examples=150, deadline=None)
@given(policy=st.sampled_from(EACH), work=st.lists(steps, max_size=20))
def test_any_work_is_evicted_in_the_models_order(policy, work):
    with Pair(policy) as pair:
        for name, *arguments in work:
            getattr(pair, name)(*arguments)
        while pair.handles:
            pair.unlock(0)
        while pair.evict("device", 1) or pair.evict("host", 1):
            pass
        assert not pair.pages


EXPECTED = {
    "lru": [5, 2, 3, 1, 4],
    "lfu": [5, 2, 4, 3, 1],
    "fifo": [1, 2, 3, 4, 5],
    "mru": [4, 1, 3, 2, 5],
    "filo": [5, 4, 3, 2, 1],
    "slru": [5, 2, 3, 1, 4],
    "priority": [2, 1, 4, 5, 3],
}


@tiers
@pytest.mark.parametrize("policy", EVICTION_POLICIES)
def test_each_order_by_hand(policy, tier):
    """Five prompts of one page: 1 is hit twice, 3 twice, 4 once; 2 is inserted again."""
    with Pair(policy) as pair:
        for number, priority in [(1, 1), (2, 0), (3, 2), (4, 1), (5, 2)]:
            pair.insert((number,), priority)
        pair.insert((2,), 0)
        for number in (3, 3, 1, 1, 4):
            pair.match((number,))
        order = [pair.evict(tier, 1) for _ in range(5)]
        assert [path[0] for ((path),) in order] == EXPECTED[policy]


@tiers
def test_what_was_used_last_goes_first_as_often_as_it_is_used(tier):
    with Pair("mru") as pair:
        for number in range(4):
            pair.insert((number,))
        for number in (0, 3, 0, 2, 1, 2):
            pair.match((number,))
        assert pair.evict(tier, 2) == [(2,), (1,)]
        pair.match((3,))
        assert pair.evict(tier, 2) == [(3,), (0,)]


@tiers
def test_a_parent_competes_by_its_own_key_once_it_is_a_leaf(tier):
    with Pair("lfu") as pair:
        pair.insert((1, 1))
        pair.insert((1, 2))
        pair.insert((2,))
        pair.match((2,))
        pair.match((1,))
        pair.match((1,))
        assert pair.evict(tier, 2) == [(1, 1), (1, 2)]
        assert pair.evict(tier, 2) == [(2,), (1,)]


@tiers
def test_an_insert_raises_priority_and_never_lowers_it(tier):
    with Pair("priority") as pair:
        pair.insert((1,), 1)
        pair.insert((2,), -3)
        pair.insert((3,), 0)
        pair.insert((1,), -9)
        pair.insert((3,), 5)
        assert pair.evict(tier, 3) == [(2,), (1,), (3,)]


@tiers
def test_equal_keys_go_in_the_order_of_creation(tier):
    with Pair(AllEqual()) as pair:
        for number in (3, 1, 2):
            pair.insert((number,))
        pair.match((3,))
        assert pair.evict(tier, 3) == [(3,), (1,), (2,)]


@policies
def test_the_upper_part_of_a_split_is_as_old_as_the_whole(policy):
    tree = RadixTree(PAGE, policy)
    node = tree.add(tree.root(b""), hc.tokens.token_span(np.arange(12)), priority=3)
    tree.set_device(node, np.arange(3))
    tree.touch([node], hit=True)
    upper = tree.split(node, 8)
    tree.check()
    for name in ("created", "last_access", "hits", "priority"):
        assert getattr(upper, name) == getattr(node, name) > 0
    assert tree.device.policy is tree.host.policy


# -- the same words in the page index -------------------------------------------------------------


def test_the_tree_and_the_page_index_have_the_same_policies():
    assert sorted(EVICTION_POLICIES) == sorted(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_tree_and_the_page_index_evict_in_the_same_order(policy):
    """Prompts of one page beside keys: stored, used, and stored anew in a full pool."""
    rng = random.Random(7)
    room = 12
    index = PageIndex(room, policy)
    with hc.HiCache(FORMAT, device_pages=room, host_pages=0, eviction_policy=policy) as cache:

        def cached() -> set[str]:
            return {str(node.key.numpy()[0]) for node in cache.tree.nodes()}

        for number in range(60):
            before = cached()
            priority = rng.randrange(3)
            stored = index.begin_store([str(number)], priority=priority)
            index.finish_store([str(number)], success=True)
            cache.insert(prompt((number,)), cache.allocate(1), priority=priority)
            assert before - cached() == set(stored.evicted)
            for _ in range(rng.randrange(4)):
                used = rng.choice(sorted(cached()))
                index.touch([used])
                cache.match_prefix(prompt((int(used),)))
            cache.check()


# -- the queue ------------------------------------------------------------------------------------


def queue_length(tree: RadixTree) -> int:
    return sum(1 for _ in tree.device.entries())


def one_page_leaves(policy: str | EvictionPolicy, count: int) -> tuple[RadixTree, list]:
    tree = RadixTree(PAGE, policy)
    for number in range(count):
        span = hc.tokens.token_span(prompt((number,)))
        tree.set_device(tree.add(tree.root(b""), span), np.array([number]))
    return tree, list(tree.nodes())


@policies
def test_uses_do_not_pile_up_in_the_queue(policy):
    tree, nodes = one_page_leaves(policy, 10)
    for number in range(500):
        tree.touch([nodes[number % 7]], hit=True)
        assert queue_length(tree) <= 20
    tree.check()


@policies
def test_nodes_that_are_gone_do_not_pile_up_in_the_queue(policy):
    tree, nodes = one_page_leaves(policy, 64)
    for left, node in enumerate(reversed(nodes)):
        tree.set_device(node, None)
        tree.remove(node)
        assert queue_length(tree) <= 2 * (63 - left)
        tree.check()
    tree, _ = one_page_leaves(policy, 64)
    tree.evict(tree.device, 64)
    assert queue_length(tree) == 0


def test_a_locked_leaf_is_passed_over_once_and_comes_back():
    tree, _ = one_page_leaves("lru", 3)
    by_page = {int(node.value[0]): node for node in tree.nodes()}
    tree.lock(by_page[0])
    assert tree.evict(tree.device, 1).pages.tolist() == [1]
    assert tree.device.entry(by_page[0]) == 0
    tree.check()
    tree.unlock(by_page[0])
    assert tree.evict(tree.device, 2).pages.tolist() == [0, 2]


def forget_entry(tree, node):
    node.device_entry = 0


def lose_an_entry(tree, node):
    tree.device._queue.pop()


def use_behind_the_tiers_back(tree, node):
    node.last_access += 1  # a key that fell and was not queued anew


def miscount_stale(tree, node):
    tree.device.stale_entries += 1


def miscount_live(tree, node):
    tree.device.live_entries += 1


def disorder(tree, node):
    tree.device._queue._run.reverse()


@pytest.mark.parametrize(
    "damage",
    [forget_entry, lose_an_entry, use_behind_the_tiers_back, miscount_stale, miscount_live,
     disorder],
)  # fmt: skip
def test_check_finds_damage_of_the_queue(damage):
    tree, nodes = one_page_leaves("mru", 3)
    tree.check()
    damage(tree, nodes[0])
    with pytest.raises(hc.InvariantError):
        tree.check()


@given(st.lists(st.one_of(st.tuples(st.integers(0, 5)), st.none())))
def test_the_queue_gives_the_smallest_first(work):
    queue, model = MinQueue(), []
    for number, entry in enumerate(work):
        if entry is None:
            assert queue.pop() == (model.pop(0) if model else None)
        else:
            queue.push((*entry, number))
            model = sorted([*model, (*entry, number)])
        queue.check()
        assert len(queue) == len(model) and sorted(queue) == model
    queue.keep(lambda entry: entry[0] % 2)
    queue.check()
    assert sorted(queue) == [entry for entry in model if entry[0] % 2]


# -- bad values -----------------------------------------------------------------------------------


class Broken(EvictionPolicy):
    name = "broken"

    def __init__(self, key) -> None:
        self._key = key

    def key(self, node):
        return self._key(node)


class Nameless(EvictionPolicy):
    def key(self, node):
        return node.created


class OddFlag(AllEqual):
    may_fall = "no"


@pytest.mark.parametrize(
    "value, error, says",
    [
        ("LRU", ValueError, r"'LRU' is unknown; known: lru, lfu, fifo, mru, filo, slru, priority"),
        (None, TypeError, "got NoneType"),
        (lambda node: 0, TypeError, "got function"),
        (MostHitsFirst, TypeError, "the class MostHitsFirst: give an instance"),
        (Nameless(), TypeError, r"Nameless.name must be a string"),
        (OddFlag(), TypeError, "may_fall must be True or False, got 'no'"),
        (Broken(lambda node: node.size), TypeError, r"key\(node\) fails.*'size'"),
        (Broken(lambda node: None), TypeError, "gives no order"),
        (Broken(lambda node: float("nan")), ValueError, "gives no order"),
        (Broken(lambda node: {node.hits}), ValueError, "gives no order"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_policies_are_refused_before_anything_is_made(value, error, says):
    with pytest.raises(error, match=says):
        hc.HiCache(FORMAT, device_pages=4, host_size="1000000GiB", eviction_policy=value)
    with pytest.raises(error, match=says):
        RadixTree(PAGE, value)


def test_a_class_without_a_key_can_not_be_made():
    class Keyless(EvictionPolicy):
        name = "keyless"

    with pytest.raises(TypeError, match="key"):
        Keyless()
