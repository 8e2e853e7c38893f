//! The crate `geotiff-reader` of the project geotiff-rust.

use bytemuck::Pod;
use geotiff_reader::GeoTiffFile;
use tiff_core::TiffSample;

use crate::{Error, Job, Sink};

fn read_as<T: TiffSample + Pod>(file: &GeoTiffFile, window: Option<[usize; 4]>, sink: Sink<'_>) -> Result<(), Error> {
    let pixels = match window {
        Some([row, col, row_stop, col_stop]) => file.read_window::<T>(row, col, row_stop - row, col_stop - col)?,
        None => file.read_raster::<T>()?,
    };
    sink(window, bytemuck::cast_slice(pixels.as_slice().ok_or("not contiguous")?))
}

/// The benchmark's files have one of three types.
fn read(file: &GeoTiffFile, window: Option<[usize; 4]>, sink: Sink<'_>) -> Result<(), Error> {
    let bits = file.tiff().ifd(file.base_ifd_index())?.bits_per_sample()?;
    match bits.first() {
        Some(8) => read_as::<u8>(file, window, sink),
        Some(16) => read_as::<u16>(file, window, sink),
        _ => read_as::<f32>(file, window, sink),
    }
}

pub(crate) fn run(job: &Job, sink: Sink<'_>) -> Result<bool, Error> {
    match job.op.as_str() {
        "full_read" => read(&GeoTiffFile::open(&job.path)?, None, sink)?,
        "windows" => {
            let file = GeoTiffFile::open(&job.path)?;
            for window in &job.windows {
                read(&file, Some(*window), sink)?;
            }
        }
        "windows_reopened" => {
            for window in &job.windows {
                read(&GeoTiffFile::open(&job.path)?, Some(*window), sink)?;
            }
        }
        "open_window" => {
            for path in &job.paths {
                read(&GeoTiffFile::open(path)?, job.windows.first().copied(), sink)?;
            }
        }
        "small_files" => {
            for path in &job.paths {
                read(&GeoTiffFile::open(path)?, None, sink)?;
            }
        }
        "headers" => {
            for path in &job.paths {
                std::hint::black_box(GeoTiffFile::open(path)?.width());
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
