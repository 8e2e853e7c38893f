//! One suite for every device: a device reads and writes exactly what the CPU does, bit for bit, at the
//! promised cost.
//!
//! Each test is a function that receives a device. It runs on OpenCL with PoCL, which is fast and real; on
//! CUDA, with the simulator, which runs the kernels from their OpenCL source or executes the shipped PTX and
//! checks every access; and, if it tests kernels, under Oclgrind, which checks every access of every work item.
//! Oclgrind takes a thousand times as long, so the inputs there are small.
//!
//! With `SWATH_TEST_DEVICE=cuda:0` the tests of `named` run on that device of the machine (`make device-test`). The
//! tests that count the calls of the driver, or make it fail, need the simulator: `nvidia`, `promises` and `faults`.

mod admission;
mod batches;
mod chunks;
mod components;
mod cover;
mod damage;
mod encoders;
mod fallback;
mod faults;
mod files;
mod launch;
mod libraries;
mod limits;
mod pictures;
mod pixels;
mod placement;
mod promises;
mod resident;
#[path = "../support/seeds.rs"]
mod seeds;
mod several;
mod sharing;
mod streams;
mod subject;
mod unpack;
mod writing;

/// Makes tests that pass each function to `$on`, with the name of the test.
macro_rules! tests {
    ($on:path: $($module:ident::$hazard:ident,)*) => {
        $(
            #[test]
            fn $hazard() {
                $on(concat!(module_path!(), "::", stringify!($hazard)), crate::$module::$hazard);
            }
        )*
    };
}

/// Tests of the kernels.
macro_rules! kernels {
    ($on:path) => {
        tests! { $on:
            admission::invalid_streams_never_reach_nvcomp,
            chunks::checksums_and_stored_blocks_of_lz4_are_checked,
            chunks::decoded_chunks_are_checked_before_anybody_looks_at_them,
            chunks::frames_around_encoded_chunks_are_read_by_the_cpu,
            components::components_in_planes_of_their_own_are_placed_as_pixels,
            damage::damaged_deflate_is_what_the_cpu_makes_of_it,
            damage::damaged_lzw_is_what_the_cpu_makes_of_it,
            damage::damaged_packbits_is_what_the_cpu_makes_of_it,
            damage::damaged_zstd_is_what_the_cpu_makes_of_it,
            encoders::deflate_bytes_do_not_depend_on_the_device,
            encoders::encoded_files_have_the_pixels_of_the_cpu,
            encoders::tiles_of_every_size_and_content_are_read_back,
            pixels::every_combination_is_the_cpus,
            pixels::every_form_of_a_stream_is_decoded,
            pixels::long_rows_and_many_bands_are_the_cpus,
            resident::raster_holds_the_pixels_of_the_layout_asked_for,
            resident::raster_gets_blocks_that_the_cpu_had_to_read,
            unpack::every_type_is_converted_as_on_the_cpu,
            unpack::converted_samples_of_every_storage_cost_one_wait_per_batch,
            writing::bytes_are_those_of_the_cpu_however_bands_are_made,
            writing::nodata_of_a_raster_on_the_device_becomes_nan,
            writing::raster_on_the_device_is_written_without_passing_through_the_host,
        }
    };
}

/// Tests of the engine on top of the kernels.
macro_rules! engine {
    ($on:path) => {
        tests! { $on:
            batches::allocations_uploads_and_waits_do_not_grow_with_the_tiles,
            batches::batches_keep_to_any_budget_that_holds_one_block,
            batches::budget_too_small_for_a_block_is_an_error_with_the_needed_bytes,
            batches::cancelled_read_stops_between_batches,
            batches::memory_left_by_other_reads_counts_against_the_budget,
            batches::empty_window_single_block_and_sparse_blocks,
            batches::progress_reaches_its_total,
            batches::reads_at_the_same_time_do_not_mix,
            damage::blocks_outside_the_file_are_named_or_filled,
            damage::first_corrupt_block_in_file_order_is_reported,
            damage::failing_source_gives_the_same_error_as_the_cpu,
            encoders::batch_of_encoded_tiles_is_one_pool_and_one_compacting_copy,
            encoders::deflate_is_within_a_tenth_of_level_1_of_the_cpu,
            encoders::little_memory_encodes_fewer_tiles_at_a_time_and_then_none,
            encoders::requested_encoder_is_used_and_reported,
            fallback::codec_without_a_kernel_is_reported_or_refused,
            fallback::samples_without_a_kernel_are_reported_or_refused,
            fallback::stream_form_without_a_kernel_sends_only_its_block_to_the_cpu,
            pixels::files_of_every_kind_are_the_cpus,
            pixels::overviews_and_masks_are_the_cpus,
            pixels::windows_that_cut_blocks_are_the_cpus,
            resident::raster_keeps_to_the_budget_beside_itself,
            sharing::caller_raster_gets_the_pixels_and_others_are_refused,
            unpack::conversion_without_a_kernel_is_a_typed_error,
            unpack::samples_that_the_cpu_decodes_are_converted_too,
            writing::budget_too_small_for_a_band_halves_it_and_then_names_what_is_missing,
            writing::device_that_was_looked_for_and_is_not_there_is_told,
            writing::image_is_converted_without_its_pixels_passing_through_the_host,
            writing::peak_of_device_memory_is_a_band_and_not_the_image,
            writing::thousand_tiles_cost_one_pool_and_one_download,
            writing::unsupported_writes_fall_back_to_the_cpu_and_are_reported_or_refused,
        }
    };
}

/// The device that `SWATH_TEST_DEVICE` names. Without the variable, each test says that it tested nothing.
mod named {
    kernels!(crate::subject::on_named);
    engine!(crate::subject::on_named);
    tests! { crate::subject::on_named_with_libraries:
        libraries::blocks_unsafe_for_nvcomp_are_decoded_by_our_kernel,
        libraries::nvcomp_gives_the_pixels_of_the_cpu,
        libraries::cpu_reads_what_nvcomp_compresses,
    }
}

mod pocl {
    kernels!(crate::subject::on_pocl);
    engine!(crate::subject::on_pocl);
}

mod cuda {
    kernels!(crate::subject::on_cuda);
    engine!(crate::subject::on_cuda);
}

/// Two devices for one read or write: two of PoCL, and two of the simulator.
mod several_devices {
    macro_rules! several {
        ($on:path) => {
            tests! { $on:
                several::file_by_two_devices_has_the_bytes_of_one,
                several::first_corrupt_block_of_two_devices_is_that_of_the_cpu,
                several::list_with_a_device_twice_is_refused,
                several::read_by_two_devices_has_the_pixels_of_the_cpu,
                several::report_names_each_device,
            }
        };
    }

    mod pocl {
        several!(crate::subject::on_two_of_pocl);
    }

    mod cuda {
        several!(crate::subject::on_two_of_cuda);
    }
}

/// CUDA with the simulator, which executes the PTX that Swath ships.
mod ptx {
    kernels!(crate::subject::on_ptx);
    // The other tests of the engine have larger images, and no kernels that these do not run.
    tests! { crate::subject::on_ptx:
        batches::empty_window_single_block_and_sparse_blocks,
        batches::reads_at_the_same_time_do_not_mix,
        damage::blocks_outside_the_file_are_named_or_filled,
        pixels::files_of_every_kind_are_the_cpus,
        pixels::overviews_and_masks_are_the_cpus,
        pixels::windows_that_cut_blocks_are_the_cpus,
        writing::image_is_converted_without_its_pixels_passing_through_the_host,
    }

    mod in_reverse {
        kernels!(crate::subject::on_ptx_in_reverse);
    }

    mod in_warps {
        kernels!(crate::subject::on_ptx_in_warps);
    }
}

/// CUDA with NVIDIA's libraries: the results must equal the CPU's.
mod nvidia {
    use crate::subject::{on_failing_nvidia, on_nvidia, on_nvidia_with};

    kernels!(on_nvidia);
    engine!(on_nvidia);
    tests! { on_nvidia:
        libraries::block_too_large_for_nvcomp_memory_is_decoded_by_our_kernel,
        libraries::blocks_unsafe_for_nvcomp_are_decoded_by_our_kernel,
        libraries::requested_decoder_and_storage_are_used,
        libraries::compressed_and_decoded_bytes_do_not_pass_through_the_host,
        libraries::nvcomp_gives_the_pixels_of_the_cpu,
        libraries::cpu_reads_what_nvcomp_compresses,
        limits::empty_tiles_prove_nothing_so_the_next_tiles_are_checked,
        limits::first_large_deflate_tile_is_verified_in_the_same_synchronisation,
        limits::library_that_compresses_nothing_is_reported_with_any_memory,
        limits::zstd_tiles_above_16_mib_go_to_the_cpu_and_are_reported,
        sharing::all_memory_of_reads_and_writes_comes_from_the_allocator,
        sharing::read_follows_the_callers_stream_and_frees_in_its_order,
        sharing::write_follows_the_callers_stream,
    }

    /// Tests with libraries that the simulator modifies.
    macro_rules! with_simulator_variable {
        ($($variable:literal = $value:literal: $module:ident::$hazard:ident,)*) => {
            $(
                #[test]
                fn $hazard() {
                    let name = concat!(module_path!(), "::", stringify!($hazard));
                    on_nvidia_with(name, &[($variable, $value)], crate::$module::$hazard);
                }
            )*
        };
    }

    with_simulator_variable! {
        "SWATH_SIM_NVCOMP" = "5300": libraries::nvcomp_5_decodes_and_compresses_too,
        "SWATH_SIM_NVCOMP" = "4200": libraries::nvcomp_of_another_version_is_refused,
        "SWATH_SIM_FAIL" = "nvcomp-idle:1+": libraries::library_that_wrote_nothing_is_detected,
        "SWATH_SIM_FAIL" = "compress-large:2+": libraries::impossible_compressed_size_is_rejected,
        "SWATH_SIM_FAIL" = "compress-wrong:3": limits::wrong_compression_by_nvcomp_is_detected_before_anything_is_written,
        "SWATH_SIM_FAIL" = "j2k-wrong:10": pictures::wrong_lossless_jpeg2000_is_detected_before_anything_is_written,
        "SWATH_SIM_FAIL" = "jpeg-interpolate:1+": pictures::jpeg_is_decoded_where_chroma_cannot_be_interpolated,
        "SWATH_SIM_CUFILE" = "compat": libraries::compatibility_mode_of_cufile_does_not_count_as_direct_storage,
        "SWATH_SIM_CUFILE" = "p2p": libraries::storage_that_the_kernel_copies_from_is_direct,
        "SWATH_SIM_CUFILE_REGISTER" = "fail": libraries::memory_that_cufile_cannot_register_is_named_in_the_report,
        "SWATH_SIM_CUFILE_STRICT" = "1": libraries::files_are_opened_past_the_page_cache,
    }

    tests! { on_nvidia:
        pictures::bands_beyond_the_states_of_a_batch_are_read_in_more_batches,
        pictures::jpeg2000_of_every_type_and_layout_is_the_cpus,
        pictures::jpeg2000_that_the_library_does_not_take_is_left_to_the_cpu_and_told,
        pictures::jpeg_of_every_colour_and_layout_is_the_cpus,
        pictures::jpeg_with_shared_tables_is_spliced,
        pictures::large_pictures_are_encoded_few_at_a_time,
        pictures::libraries_are_left_alone_when_they_are_ruled_out,
        pictures::seed4_failed_tile_is_named,
        pictures::seed4_guard_refuses_the_pool_before_it_is_allocated,
        pictures::seed4_one_pool_one_synchronisation_for_a_batch_of_jpeg2000,
        pictures::tiles_of_jpeg2000_are_encoded_in_four_streams,
        pictures::last_strip_of_one_row_is_detected_at_the_start,
        pictures::tiles_are_written_as_jpeg2000_without_loss,
        pictures::tiles_are_written_as_jpeg,
    }

    #[test]
    fn failure_while_pictures_are_read_is_an_error_or_reported() {
        let name = concat!(module_path!(), "::failure_while_pictures_are_read_is_an_error_or_reported");
        on_failing_nvidia(name, &crate::pictures::READ_FAILURES, crate::pictures::read_that_fails);
    }

    #[test]
    fn failure_while_pictures_are_written_is_an_error_or_reported() {
        let name = concat!(module_path!(), "::failure_while_pictures_are_written_is_an_error_or_reported");
        on_failing_nvidia(name, &crate::pictures::WRITE_FAILURES, crate::pictures::write_that_fails);
    }
}

mod oclgrind {
    kernels!(crate::subject::on_oclgrind);

    #[test]
    fn write_outside_of_a_buffer_is_detected() {
        let name = concat!(module_path!(), "::write_outside_of_a_buffer_is_detected");
        crate::subject::on_oclgrind_with_short_buffers(name);
    }
}
