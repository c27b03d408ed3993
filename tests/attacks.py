"""The attacks that the suite makes: by subject, the files and tests that make them.

Tests in files named `hostile`, `doors` or `attacks` are attacks by their name; `NAMED` has the others.
All have the marker `attack`: `pytest -m attack` runs them, as root the ones for which the machine of
the test has to be made by root as well (the attacker in it is a user without rights). `nox -s attacks`
runs them as root and again as a user.
"""

from __future__ import annotations

FILES = ("hostile", "doors", "attacks")
"""Words in the name of a file whose tests all are attacks."""

NAMED: dict[str, tuple[str, ...]] = {
    "helper and plug-in": (
        "native/test_core.py::test_opening_as_another_user",
        "native/test_core.py::test_images_of_every_kind",
        "native/test_core.py::test_policies_of_a_folder",
        "native/test_lists.py::test_huge_lists_are_refused_at_once",
        "native/test_helper.py::test_the_mount_is_read_only_without_devices_and_setuid",
        "native/test_views.py::test_texts_that_are_no_metadata",
        "native/test_views.py::test_every_type_at_every_place",
        "native/test_views.py::test_references_do_not_take_all_memory",
        "native/test_views.py::test_records_that_nobody_wrote",
    ),
    "hook for containers": (
        "native/test_hook.py::test_damaged_libraries",
        "native/test_hook.py::test_links_do_not_lead_out_of_the_root",
        "native/test_hook.py::test_a_damaged_state",
        "native/test_hook.py::test_the_mounts_of_the_machine_are_left_alone",
        "native/test_hook.py::test_no_folder_is_made_in_what_the_host_lends",
        "native/test_hook.py::test_nothing_is_mounted_where_others_would_see_it",
        "native/test_hook.py::test_what_an_image_says_is_no_line_of_the_log",
    ),
    "mounting without rights": (
        "mount/test_mount.py::test_read_only_nosuid_nodev",
        "mount/test_confine.py::test_behind_the_walls",
        "mount/test_mount_points.py::test_no_program_of_the_working_folder_parses_an_image",
        "mount/test_confine.py::test_squashfuse_runs_behind_them",
        "mount/test_confine.py::test_the_kernel_reads_no_image_from_fuse",
        "mount/test_run_cli.py::test_metadata_that_is_no_file_is_not_waited_for",
        "mount/test_mount.py::test_nothing_can_be_written",
        "mount/test_mount.py::test_set_user_id_has_no_effect",
        "mount/test_mount.py::test_device_nodes_have_no_effect",
        "mount/test_mount.py::test_descriptors_of_the_caller_pass_through_and_no_other",
        "mount/test_mount.py::test_killed_while_mounting_leaves_nothing",
        "mount/test_mount.py::test_a_bad_image_is_an_error_with_its_reason",
        "mount/test_mount.py::test_a_folder_or_a_fifo_is_not_an_image",
        "mount/test_mountjoin.py::test_a_folder_that_others_may_write_to_is_not_trusted",
        "mount/test_mountjoin.py::test_a_damaged_record_is_not_followed",
        "image/test_images.py::test_a_metadata_bomb_is_not_unpacked",
    ),
    "build sandbox": (
        "core/test_sandbox.py::test_only_what_is_bound_is_visible",
        "core/test_sandbox.py::test_binds_are_read_only_unless_asked",
        "core/test_sandbox.py::test_no_network_unless_asked",
        "core/test_sandbox.py::test_what_listens_here_is_reached_with_the_network_alone",
        "core/test_sandbox.py::test_other_processes_are_not_visible",
        "core/test_sandbox.py::test_the_environment_is_closed",
        "core/test_sandbox.py::test_variables_of_the_command_do_not_reach_bubblewrap_itself",
        "core/test_sandbox.py::test_never_unsandboxed_by_accident",
        "core/test_sandbox.py::test_a_step_cannot_stop_who_waits_for_it",
        "core/test_sandbox.py::test_the_first_process_has_no_variable_of_the_caller",
        "build/test_executor.py::test_a_link_that_a_step_made_is_not_followed",
        "build/test_executor.py::test_what_a_step_names_as_its_log_is_read_in_its_tree_only",
        "build/test_executor.py::test_an_image_that_is_a_link_is_not_delivered",
        "build/test_executor.py::test_nothing_is_mounted_where_a_step_put_a_link",
        "build/test_executor.py::test_nobody_else_reaches_the_programs_that_a_step_makes",
        "build/test_executor.py::test_a_step_with_the_network_sees_whom_to_trust_and_no_private_key",
        "build/test_sdist.py::test_one_that_is_not_the_locked_one_is_refused_unopened",
        "build/test_sdist.py::test_the_locked_one_comes_and_nothing_of_it_runs",
        "build/test_sdist.py::test_making_a_lock_runs_nothing_of_it",
        "build/test_sdist.py::test_a_module_in_the_working_folder_is_not_run",
        "build/test_spack_external_mpi.py::test_of_the_machine_only_software_that_everybody_may_read_is_seen",
        "build/test_build_spack.py::test_a_hook_cannot_write_outside_of_its_build",
    ),
    "sources and downloads": (
        "build/test_executor.py::test_a_file_with_another_digest_is_refused_and_removed",
        "build/test_easybuild_sources.py::test_upstream_is_asked_and_not_trusted",
        "build/test_easybuild_sources.py::test_a_wrong_file_is_refused_with_what_is_accepted",
        "build/test_easybuild_sources.py::test_a_source_package_of_the_system",
        "build/test_stackinator_folders.py::test_a_link_that_leaves_is_refused",
        "build/test_stackinator_folders.py::test_links_into_git_are_refused",
        "build/test_recipe_files.py::test_a_link_that_leaves_is_not_inherited",
        "build/test_recipe_programs.py::test_archives_that_cost_more_than_they_hold",
        "build/test_recipe_programs.py::test_a_damaged_archive_is_not_taken_for_a_shorter_one",
        "build/test_guix.py::test_hostile_words_are_no_names",
        "build/test_guix.py::test_strings_stay_strings",
        "build/test_guix_build.py::test_hostile_tarballs_are_refused",
        "build/test_guix_build.py::test_rights_and_what_is_no_store_are_left_behind",
    ),
    "readers": (
        "core/test_files.py::test_a_pipe_is_read_to_its_end_and_waited_for_only_so_long",
        "core/test_document.py::test_a_bomb_of_aliases_is_refused",
        "linking/test_elf.py::test_hostile_dynamic_entries",
        "linking/test_elf.py::test_hostile_segments",
        "linking/test_elf.py::test_a_hostile_file_costs_little_memory",
        "image/test_rootfs.py::test_hostile_entries",
        "image/test_rootfs.py::test_links_stay_inside",
        "image/test_rootfs.py::test_a_name_of_gigabytes_costs_nothing",
        "image/test_rootfs.py::test_changed_sif_headers",
        "doctor/test_rules.py::test_variables_with_secrets_are_not_kept",
        "doctor/test_results_evidence.py::test_a_hostile_log_costs_no_more_than_a_long_one",
        "image/test_roots.py::test_bombs",
        "image/test_roots.py::test_links_that_lead_out_stay_in",
    ),
    "terminal, report, tables": (
        "report/test_report.py::test_hostile_names_stay_text",
        "report/test_report.py::test_terminal_text_obeys_nobody",
        "report/test_report_paths.py::test_hostile_names_of_arms_stay_text",
        "bench/test_path_verdict.py::test_control_characters_are_not_quoted",
        "build/test_containerfile.py::test_hostile_files_arrive_as_they_are",
        "inject/test_inject_wrapper.py::test_a_name_cannot_leave_the_comment",
        "mount/test_inspect.py::test_text_of_the_image_does_not_command_the_terminal",
        "cli/test_harmless.py::test_names_of_others_in_what_verbs_say",
        "cli/test_harmless.py::test_a_terminal_gets_our_own_signs_only",
        "cli/test_harmless.py::test_a_problem_is_one_entry_whatever_it_quotes",
        "cli/test_harmless.py::test_no_cell_is_a_formula",
        "mount/test_activate_cli.py::test_what_a_shell_runs_at_once_is_refused",
        "mount/test_activate_cli.py::test_no_name_makes_a_line_for_the_shell",
    ),
    "what leaves the house": ("core/test_secrets.py::test_secrets_go",),
    "what killed runs leave": (
        "bench/test_killed_bench.py::test_nothing_is_left_and_the_results_are_whole",
        "launch/test_leftovers.py::test_files_of_mpi_libraries_go_and_no_others",
        "launch/test_leftovers.py::test_what_a_process_has_open_or_mapped_stays",
        "launch/test_leftovers.py::test_files_of_another_user_stay",
        "launch/test_leftovers.py::test_a_folder_that_somebody_else_has_made_is_not_used",
    ),
    "repositories of several users": (
        "share/test_repository_races.py::test_names_are_exchanged_while_a_verb_works",
        "share/test_repository_races.py::test_names_are_exchanged_while_an_image_is_pulled",
    ),
    "clusters and temporary folders": (
        "cluster/test_cluster_values.py::test_the_agent_refuses_what_it_does_not_know",
        "cluster/test_cluster_values.py::test_the_agent_refuses_a_pid_that_is_another_process_now",
        "cli/test_outputs.py::test_a_link_that_another_user_planted_is_not_followed",
        "core/test_files.py::test_what_is_exchanged_while_it_is_written_is_not_changed",
        "core/test_files.py::test_a_private_folder_is_trusted_only_as_such",
        "core/test_files.py::test_a_name_that_somebody_took_is_passed_over",
        "core/test_files.py::test_a_cache_that_others_may_write_to_is_not_believed",
        "core/test_files.py::test_a_cache_of_another_user_is_not_believed",
        "core/test_files.py::test_what_others_put_in_the_place_of_trees_in_memory_stays",
        "build/test_cache.py::test_a_cache_of_another_user_is_not_deleted",
        "mount/test_mountjoin.py::test_a_name_that_another_user_took_is_passed_over",
        "mount/test_mountjoin.py::test_ranks_mount_for_themselves_where_every_name_is_taken",
        "core/test_seccomp.py::test_a_filtered_command_cannot_type_into_its_terminal",
        "cluster/test_cluster_exec.py::test_another_user_cannot_type_into_the_terminal",
        "cluster/test_cluster_cli.py::test_a_folder_that_others_could_use_is_refused",
        "cluster/test_cluster_cli.py::test_a_link_in_the_place_of_the_folder_is_refused",
    ),
}


def is_attack(name: str) -> bool:
    """Return whether a test is one, by its file below tests/ and its own name: `host/x.py::test_y`."""
    file, _, test = name.partition("::")
    if any(word in file.rpartition("/")[2] for word in FILES):
        return True
    return f"{file}::{test.partition('[')[0]}" in _ALL


_ALL = frozenset(name for names in NAMED.values() for name in names)
