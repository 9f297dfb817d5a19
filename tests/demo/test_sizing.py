from hicache_nsa.demo.sizing import page_demand, page_identities


def test_identities_name_the_whole_prefix() -> None:
    one = page_identities([1, 2, 3, 4, 5], 2)
    assert len(one) == 2
    assert page_identities([1, 2, 3, 4], 2) == one
    other = page_identities([9, 2, 3, 4], 2)
    assert other[0] != one[0]
    assert other[1] != one[1]  # the same page behind another one is another page


def test_demand_counts_shared_pages_once() -> None:
    shared = list(range(8))
    demand = page_demand([[*shared, 100, 101], [*shared, 200, 201]], 4, new_tokens=1)
    assert demand.cached == 2
    assert demand.private == 1
    assert demand.device == 3


def test_demand_counts_pages_that_the_answer_fills() -> None:
    # 6 prompt tokens, 7 generated of which 6 get a slot: 12 slots are 3 whole pages of 4.
    assert page_demand([list(range(6))], 4, new_tokens=7).cached == 3
    assert page_demand([list(range(6))], 4, new_tokens=6).cached == 2


def test_demand_of_a_prompt_that_ends_with_its_page() -> None:
    # The last token is always computed, so the last page is the request's own once more.
    demand = page_demand([list(range(8))], 4, new_tokens=1)
    assert (demand.cached, demand.private, demand.reusable) == (2, 1, 1)


def test_demand_of_the_largest_request() -> None:
    # 9 prompt tokens and 4 generated, 3 of which get a slot: 12 slots.
    assert page_demand([[1], list(range(9))], 4, new_tokens=4).largest == 3
    assert page_demand([[1], list(range(9))], 4, new_tokens=5).largest == 4
