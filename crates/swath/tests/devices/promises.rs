//! What batching was promised to cost on NVIDIA's libraries, as tests of the recorded timeline: each hazard looks at what the simulator
//! was asked for, in order, and at what the device says that it did.
//!
//! The promises are those of five texts that Swath began with, and the tests are named after them: blocks come back in one copy
//! (`seed1`), a file is read in one go (`seed2`), tiles are compressed in one pool (`seed3`), a file is written band by band (`seed5`).

mod back;
mod bands;
mod pool;
mod reads;
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
    seed1_blocks_come_back_by_one_gather_and_one_copy in back;
    seed1_guard_refuses_before_anything_is_allocated in back;
    seed1_guard_of_the_device_refuses_before_anything_is_allocated in back with "SWATH_SIM_MEMORY" = "400000";
    seed1_refused_blocks_of_a_file_come_back_once_and_are_not_read_again in back;
    seed1_every_batch_with_refused_blocks_brings_them_back_once in back;
    seed1_damaged_blocks_come_back_once_and_are_filled_as_the_cpu_fills_them in back;
    seed1_blocks_that_may_not_come_back_are_read_from_the_file_and_that_is_told in back;

    seed2_every_read_is_submitted_before_the_first_is_waited_for in reads with "SWATH_SIM_CUFILE_LATENCY_US" = "5000";
    seed2_file_and_buffer_are_registered_once_for_many_reads in reads;
    seed2_blocks_that_are_not_stored_cost_no_read in reads;
    seed2_guard_looks_at_the_sum_of_the_blocks_before_anything_is_read in reads;
    seed2_short_read_is_told_and_the_host_reads in reads with "SWATH_SIM_FAIL" = "short:200+";
    seed2_failed_read_is_told_and_the_host_reads in reads with "SWATH_SIM_FAIL" = "read:1+";
    seed2_memory_that_is_out_is_an_error_of_that_type in reads with "SWATH_SIM_FAIL" = "alloc:1+";
    seed2_reads_wait_side_by_side in reads with "SWATH_SIM_CUFILE_LATENCY_US" = "1000";

    seed3_thousand_tiles_cost_one_pool_one_gather_and_one_download in pool;
    seed3_every_tile_is_a_stream_that_others_read in pool;

    seed5_bands_of_any_size_make_the_same_bytes_through_nvcomp in bands;
    seed5_device_holds_a_band_and_not_the_image in bands;
    seed5_nan_becomes_nodata_band_by_band in bands;
    seed5_band_that_completes_no_tile_does_not_end_writing_by_cufile in bands;
    seed5_file_written_by_cufile_has_the_bytes_of_one_that_passed_through_the_host in bands;
    seed5_short_write_is_told_and_the_file_is_right in bands with "SWATH_SIM_FAIL" = "short-write:3";
    seed5_writes_that_always_fail_leave_the_file_to_the_host in bands with "SWATH_SIM_FAIL" = "write:1+";
    seed5_memory_that_cannot_be_registered_is_told in bands with "SWATH_SIM_CUFILE_REGISTER" = "fail";
}
