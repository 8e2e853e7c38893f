//! The crate `tiff` (image-tiff). It uses one thread and reads whole images.

use std::fs::File;
use std::io::BufReader;

use tiff::decoder::{Decoder, DecodingResult, Limits};

use crate::{Error, Job, Sink};

fn open(path: &str) -> Result<Decoder<BufReader<File>>, Error> {
    Ok(Decoder::new(BufReader::new(File::open(path)?))?.with_limits(Limits::unlimited()))
}

fn read(path: &str, sink: Sink<'_>) -> Result<(), Error> {
    match open(path)?.read_image()? {
        DecodingResult::U8(pixels) => sink(None, &pixels),
        DecodingResult::U16(pixels) => sink(None, bytemuck::cast_slice(&pixels)),
        DecodingResult::F32(pixels) => sink(None, bytemuck::cast_slice(&pixels)),
        _ => Err("unexpected sample type".into()),
    }
}

pub(crate) fn run(job: &Job, sink: Sink<'_>) -> Result<bool, Error> {
    match job.op.as_str() {
        "full_read" => read(&job.path, sink)?,
        "small_files" => {
            for path in &job.paths {
                read(path, sink)?;
            }
        }
        "headers" => {
            for path in &job.paths {
                std::hint::black_box(open(path)?.dimensions()?);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
