"""What the built-in modes say about themselves."""

from __future__ import annotations

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.modes import AgentMode, ModeSafety, Policy


def test_a_mode_is_a_policy_unless_it_leaves_that_to_the_configuration(subtests):
    for mode, policy, safety, auto_approve in [
        (AgentMode.DEFAULT, Policy.STRICT, ModeSafety.NEUTRAL, False),
        (AgentMode.PLAN, Policy.STRICT, ModeSafety.SAFE, False),
        (AgentMode.ACCEPT_EDITS, Policy.AUTO_EDIT, ModeSafety.DESTRUCTIVE, False),
        (AgentMode.AUTO_APPROVE, Policy.YOLO, ModeSafety.YOLO, True),
    ]:
        with subtests.test(mode=mode, policy=policy, safety=safety, auto_approve=auto_approve):
            assert mode.policy(Policy.STRICT) is policy
            assert KinConfig.load(**{"policy": "strict", **mode.config_overrides}).policy == policy
            assert (mode.safety, mode.auto_approve, mode.base) == (safety, auto_approve, mode)


def test_a_modes_settings_belong_to_the_caller():
    AgentMode.DEFAULT.config_overrides["policy"] = "yolo"
    AgentMode.ACCEPT_EDITS.config_overrides["policy"] = "yolo"
    assert AgentMode.DEFAULT.config_overrides == {}
    assert AgentMode.ACCEPT_EDITS.config_overrides == {"policy": "auto-edit"}


def test_every_mode_has_words_for_people():
    assert [mode.display_name for mode in AgentMode] == ["Default", "Plan", "Accept edits", "Auto approve"]
    assert len({mode.description for mode in AgentMode}) == len(AgentMode)


def test_a_mode_is_found_with_either_dash():
    assert AgentMode.parse(" Accept-Edits ") is AgentMode.parse("accept_edits") is AgentMode.ACCEPT_EDITS
    with pytest.raises(
        ValueError, match=r'^Unknown mode "yolo"\.\nModes: default, plan, accept-edits, auto-approve\.$'
    ):
        AgentMode.parse("yolo")
