"""The table helper of the tests: every row is checked, and each that fails is reported with its values."""

from __future__ import annotations

import pytest

from tests.table import each_row


def test_all_rows_that_fail_are_reported_together():
    checked = []

    @each_row("number, limit", [(1, 2), (3, 2), (2, 2), (1, 5)])
    def below(number, limit):
        checked.append(number)
        assert number < limit

    with pytest.raises(ExceptionGroup, match="2 of 4 rows") as caught:
        below()
    assert checked == [1, 3, 2, 1]
    assert [error.__notes__[-1] for error in caught.value.exceptions] == ["row 1: 3, 2", "row 2: 2, 2"]


@each_row("number", [1], long=[2])
def test_the_long_rows_are_an_item_of_their_own(number, request):
    assert (number == 2) is (request.node.get_closest_marker("long") is not None)


def test_a_row_that_is_skipped_skips_no_other():
    @each_row("number", [1, 2])
    def one_is_skipped(number):
        if number == 1:
            pytest.skip("not here")
        raise ValueError(number)

    with pytest.raises(ExceptionGroup, match="1 of 2 rows"):
        one_is_skipped()


def test_an_async_row_and_one_that_raises_nothing_fail_too():
    @each_row("divisor", [0, 1])
    async def divides(divisor):
        with pytest.raises(ZeroDivisionError):
            _ = 1 / divisor

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows"):
        divides()


@each_row("name", ["x", "y"])
def test_each_row_has_a_folder_of_its_own(name, tmp_path):
    (tmp_path / name).touch()
    assert [path.name for path in tmp_path.iterdir()] == [name]
