"""What what-if foresees is what a real control plane does; more clusters by hand: tests.kubernetes.what_if_clusters."""

from __future__ import annotations

from tests.kubernetes.what_if_clusters import play


def test_changes_end_in_a_real_control_plane_as_they_were_foreseen(tmp_path):
    wrong = {f"{each.number} {each.change.say()}": found for each, found in play(tmp_path, 8) if found}
    assert wrong == {}
