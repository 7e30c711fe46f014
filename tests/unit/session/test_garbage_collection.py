"""No garbage collection while a long session is read; afterwards it is as it was."""

from __future__ import annotations

import gc

import pytest

from kin_nb.core.session.store import gc_paused


def test_it_is_off_inside_and_on_again_after_an_error_too():
    seen = []

    @gc_paused()
    def fails() -> None:
        seen.append(gc.isenabled())
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert (seen, gc.isenabled()) == ([False], True)


def test_who_had_switched_it_off_has_it_off():
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
