"""Every finding of a platform engineer's first day with weir is held by a test; this is which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

#: number → what was found, and the tests that fail where it is so again
FINDINGS = {
    1: (
        "the gates of a live cluster were assumed",
        "test_a_gate_that_is_off_in_the_server_is_learned_from_its_metrics",
        "test_lint_asks_the_cluster_for_its_gates",
        "test_metrics_and_dry_runs_say_the_same_of_every_gate",
    ),
    2: ("unknown fields were passed", "test_an_unknown_field_is_an_error_with_the_one_that_was_meant"),
    3: (
        "unknown kinds were passed",
        "test_a_misspelt_kind_is_refused_as_the_server_does",
        "test_objects_that_were_not_checked_are_counted_in_every_format",
    ),
    4: (
        "explain passed what the server refuses",
        "test_what_the_server_refuses_of_a_file_is_refused",
    ),
    5: (
        "a failure the cluster reports was ignored",
        "test_a_failure_to_create_pods_is_told_and_contradicts_the_verdict",
        "test_pods_that_find_no_node_are_told_of_their_workload_in_the_schedulers_words",
    ),
    6: (
        "missing rights became facts",
        "test_a_viewer_reads_nothing_false_about_devices",
        "test_a_user_without_rights_is_told_what_could_not_be_read",
    ),
    7: ("one replica was judged", "test_ten_thousand_replicas_are_counted_and_the_next_one_fails"),
    8: (
        "apply with unschedulable said less than the taint",
        "test_cordoning_and_applying_unschedulable_say_the_same_as_a_taint",
    ),
    9: (
        "bad credentials named no server",
        "test_a_wrong_token_names_the_server_and_the_user",
        "test_an_expired_certificate_is_named_as_the_cause",
    ),
    10: ("Ctrl-C at the question was ignored", "test_ctrl_c_at_the_question_is_a_no_at_once"),
    11: (
        "a real node was removed without asking",
        "test_a_node_that_is_not_simulated_is_left_alone_and_all_others_with_it",
        "test_without_a_terminal_nothing_is_removed_unless_yes_is_said",
    ),
    12: (
        "one unreadable file ended the run",
        "test_one_unreadable_file_is_a_finding_and_the_others_are_checked_in_every_format",
    ),
    13: (
        "notes by the thousand, and no way to choose",
        "test_notes_are_counted_and_shown_on_request",
        "test_quiet_is_one_line_a_finding_and_statistics_one_a_rule",
        "test_a_project_says_what_is_checked_and_how",
    ),
    14: (
        "long work in silence",
        "test_long_work_shows_how_far_it_is_on_a_terminal_only",
    ),
    15: (
        "tables broke within words",
        "test_tables_fit_the_terminal_and_break_between_words",
        "test_lines_fit_the_terminal_and_no_word_is_broken",
        "test_a_table_that_does_not_fit_becomes_a_list_without_broken_words",
    ),
    16: (
        "a whole list as the patch, secrets included",
        "test_the_change_is_a_diff_of_the_users_own_file",
        "test_secrets_are_masked_in_the_lines_around_a_change",
    ),
    17: (
        "a row for every value and every pod",
        "test_many_values_of_one_taint_are_one_row",
        "test_many_values_of_one_label_are_one_row",
        "test_pods_of_one_owner_are_one_row_unless_all_are_asked_for",
    ),
    18: (
        "defaults of library and commands differed",
        "test_the_features_of_the_keps_are_on_unless_switched_off",
        "test_all_gates_are_on_and_said_so_in_one_line",
    ),
    19: (
        "options without effect were taken silently",
        "test_options_without_effect_on_a_folder_in_use_before_are_named",
    ),
    20: (
        "status and down saw one folder; raw errno texts",
        "test_a_detached_cluster_is_found_by_kubeconfig_and_purged",
        "test_a_taken_port_is_told_in_one_line",
    ),
    21: (
        "an empty user was an internal error; Ctrl-C spilt tasks",
        "test_an_empty_name_is_refused_in_words",
        "test_ctrl_c_leaves_nothing_behind",
    ),
    22: (
        "templates, tabs and Norway values were not named",
        "test_templates_and_tabs_are_named_as_the_cause",
        "test_an_object_called_y_is_not_called_true",
    ),
    23: (
        "addresses, `deployment web`, labels of nodes, FORCE_COLOR",
        "test_an_address_is_fetched_as_a_file_is_read",
        "test_kind_and_name_may_be_two_words",
        "test_labels_select_simulated_nodes_only",
        "test_colour_is_for_terminals_unless_the_environment_says_otherwise",
    ),
    24: (
        "exit codes of cel, no suggestions, rules that select nothing",
        "test_the_help_says_the_exit_codes",
        "test_a_misspelt_name_is_shown_the_right_one",
        "test_a_rule_that_selects_nothing_says_why",
    ),
    25: (
        "the library took anything, and failures said little",
        "test_what_is_no_object_is_refused_in_words",
        "test_a_closed_cluster_says_so",
        "test_time_only_passes_forward",
        "test_an_explanation_shows_its_verdict_not_its_tree",
        "test_a_failure_shows_nodes_pods_with_the_reason_and_events",
    ),
}


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Every test there is, by name."""
    return {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", file.read_text())
    }


@pytest.mark.parametrize("number", FINDINGS)
def test_a_finding_is_held_by_tests_that_exist(number, names):
    said, *held_by = FINDINGS[number]
    assert said and held_by and set(held_by) <= names, set(held_by) - names


def test_no_finding_is_left_out():
    assert list(FINDINGS) == list(range(1, 26))
