//! The costs of batching with NVIDIA's libraries, tested on a recorded timeline: each test checks the calls
//! that the simulator received, in order, and the counters of the device.
//!
//! The promises come from five texts that the project started with, and the tests are named after them:
//! blocks come back in one copy (`seed1`), a file is read with one set of requests (`seed2`), tiles are
//! compressed in one pool (`seed3`), a file is written strip by strip (`seed5`).

mod back;
mod fullness;
mod overlap;
mod pool;
mod reads;
mod strips;
mod timeline;

use swath::Dataset;
use swath::io::Span;

/// Where the blocks of a level of a file lie, in their order.
fn stored(file: &[u8], level: usize) -> Vec<Span> {
    let dataset = Dataset::from_bytes(file).expect("a file that opens");
    let image = dataset.image(0).expect("an image");
    let layout = image.levels().nth(level).expect("a level");
    let mut spans = Vec::new();
    let count = layout.grid.count().expect("a number of blocks");
    layout.table.spans(dataset.source().as_ref(), 0, count, &mut spans).expect("a table");
    spans
}

/// Tests that run a hazard with NVIDIA's libraries, with variables that tell the simulator what to do.
macro_rules! promised {
    ($($hazard:ident in $module:ident $(with $variable:literal = $value:literal)*;)*) => {
        $(
            #[test]
            fn $hazard() {
                let name = concat!(module_path!(), "::", stringify!($hazard));
                crate::subject::on_nvidia_with(name, &[$(($variable, $value)),*], $module::$hazard);
            }
        )*
    };
}

promised! {
    all_tiles_of_a_large_image_are_in_flight in fullness
        with "SWATH_SIM_MULTIPROCESSORS" = "108" with "SWATH_SIM_MEMORY" = "80000000000";
    batches_of_a_long_read_wait_once_and_allocate_once in fullness
        with "SWATH_SIM_MULTIPROCESSORS" = "108" with "SWATH_SIM_MEMORY" = "80000000000";

    second_write_allocates_neither_device_memory_nor_pinned_memory in fullness;
    write_with_little_pinned_memory_uses_lower_strips in fullness;

    transfers_of_batches_overlap_the_decoding_of_others in overlap;
    upload_of_a_strip_overlaps_the_compression_of_the_one_before in overlap;

    seed1_blocks_come_back_by_one_gather_and_one_copy in back;
    seed1_guard_refuses_before_anything_is_allocated in back;
    seed1_guard_of_the_device_refuses_before_anything_is_allocated in back with "SWATH_SIM_MEMORY" = "400000";
    seed1_refused_blocks_of_a_file_come_back_once_and_are_not_read_again in back;
    seed1_every_batch_with_refused_blocks_brings_them_back_once in back;
    seed1_damaged_blocks_come_back_once_and_are_filled_as_the_cpu_fills_them in back;
    seed1_blocks_that_cannot_be_copied_back_are_read_from_the_file_and_reported in back;

    seed2_every_read_is_submitted_before_the_first_is_waited_for in reads with "SWATH_SIM_CUFILE_LATENCY_US" = "5000";
    seed2_file_and_buffer_are_registered_once_for_many_reads in reads;
    seed2_blocks_that_are_not_stored_cost_no_read in reads;
    seed2_guard_looks_at_the_sum_of_the_blocks_before_anything_is_read in reads;
    seed2_short_read_is_reported_and_the_host_reads in reads with "SWATH_SIM_FAIL" = "short:200+";
    seed2_failed_read_is_reported_and_the_host_reads in reads with "SWATH_SIM_FAIL" = "read:1+";
    seed2_out_of_memory_is_a_memory_error in reads with "SWATH_SIM_FAIL" = "alloc:1+";
    seed2_reads_wait_side_by_side in reads with "SWATH_SIM_CUFILE_LATENCY_US" = "1000";

    seed3_thousand_tiles_cost_one_pool_one_gather_and_one_download in pool;
    seed3_other_decoders_read_every_tile in pool;

    seed5_strips_of_any_height_give_the_same_bytes_through_nvcomp in strips;
    seed5_device_holds_one_strip_not_the_whole_image in strips;
    seed5_nan_becomes_nodata_strip_by_strip in strips;
    seed5_strip_that_completes_no_tile_does_not_disable_cufile in strips;
    seed5_file_written_by_cufile_equals_file_written_by_the_host in strips;
    seed5_short_write_is_reported_and_the_file_is_correct in strips with "SWATH_SIM_FAIL" = "short-write:3";
    seed5_host_writes_the_file_when_cufile_always_fails in strips with "SWATH_SIM_FAIL" = "write:1+";
    seed5_memory_that_cannot_be_registered_is_reported in strips with "SWATH_SIM_CUFILE_REGISTER" = "fail";
}
