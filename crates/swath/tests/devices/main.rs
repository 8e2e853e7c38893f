//! One suite for every device: whatever a device reads and writes is what the CPU reads and writes, bit by bit, at the price that
//! was promised.
//!
//! A hazard is a function that is given a device. It runs on OpenCL under PoCL, which is fast and real; on CUDA, on the simulator;
//! and, if it is one of the kernels, under Oclgrind, which looks at every access of every work item. That takes a thousand
//! times as long, so that the inputs there are small.

mod batches;
mod cover;
mod damage;
mod fallback;
mod files;
mod pixels;
mod resident;
#[path = "../support/seeds.rs"]
mod seeds;
mod subject;
mod writing;

/// Tests that hand hazards to `$on`, with the name of the test.
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

/// What shows what the kernels do.
macro_rules! kernels {
    ($on:path) => {
        tests! { $on:
            damage::damaged_deflate_is_what_the_cpu_makes_of_it,
            damage::damaged_lzw_is_what_the_cpu_makes_of_it,
            damage::damaged_packbits_is_what_the_cpu_makes_of_it,
            damage::damaged_zstd_is_what_the_cpu_makes_of_it,
            pixels::every_combination_is_the_cpus,
            pixels::every_form_of_a_stream_is_decoded,
            pixels::long_rows_and_many_bands_are_the_cpus,
            resident::raster_holds_the_pixels_of_the_layout_asked_for,
            resident::raster_gets_blocks_that_the_cpu_had_to_read,
            writing::bytes_are_those_of_the_cpu_however_bands_are_made,
            writing::nodata_of_a_raster_on_the_device_becomes_nan,
            writing::raster_on_the_device_is_written_without_passing_through_the_host,
        }
    };
}

/// What shows what the engine makes of them.
macro_rules! engine {
    ($on:path) => {
        tests! { $on:
            batches::allocations_uploads_and_waits_do_not_grow_with_the_tiles,
            batches::batches_keep_to_any_budget_that_holds_one_block,
            batches::budget_that_holds_no_block_says_what_was_needed,
            batches::cancelled_read_stops_between_batches,
            batches::memory_that_other_reads_left_counts_too,
            batches::nothing_one_block_and_blocks_that_are_not_stored,
            batches::progress_reaches_its_total,
            batches::reads_at_the_same_time_do_not_mix,
            damage::blocks_outside_the_file_are_named_or_filled,
            damage::source_that_fails_is_the_cpus_error,
            fallback::codec_without_a_kernel_is_told_or_refused,
            fallback::samples_without_a_kernel_are_told_or_refused,
            fallback::form_of_a_stream_that_no_kernel_knows_costs_its_block_alone,
            pixels::files_of_every_kind_are_the_cpus,
            pixels::overviews_and_masks_are_the_cpus,
            pixels::windows_that_cut_blocks_are_the_cpus,
            resident::raster_keeps_to_the_budget_beside_itself,
            writing::budget_too_small_for_a_band_halves_it_and_then_names_what_is_missing,
            writing::device_that_was_looked_for_and_is_not_there_is_told,
            writing::image_is_converted_without_its_pixels_passing_through_the_host,
            writing::peak_of_device_memory_is_a_band_and_not_the_image,
            writing::thousand_tiles_cost_one_pool_and_one_download,
            writing::what_no_kernel_can_do_is_done_by_the_cpu_and_said_or_refused,
        }
    };
}

mod pocl {
    kernels!(crate::subject::on_pocl);
    engine!(crate::subject::on_pocl);
}

mod cuda {
    kernels!(crate::subject::on_cuda);
    engine!(crate::subject::on_cuda);
}

mod oclgrind {
    kernels!(crate::subject::on_oclgrind);

    #[test]
    fn write_outside_of_a_buffer_would_have_been_seen() {
        let name = concat!(module_path!(), "::write_outside_of_a_buffer_would_have_been_seen");
        crate::subject::on_oclgrind_with_short_buffers(name);
    }
}
