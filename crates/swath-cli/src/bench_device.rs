//! `swath bench --device cuda` without a file: compares a device with the CPU, then measures its speed.
//!
//! First, the device and the CPU read and write synthetic terrain in every codec that the device decodes, with every decoder and every
//! predictor, and the results are compared. Then each codec and decoder is timed from file to pixels and back, and stage by stage.

mod case;
mod check;
mod measure;
mod print;
mod scratch;

use std::time::Duration;

use swath::device::{Gpu, Storage};
use swath::read::Placement;
use swath::{Device, ReadRequest, WriteConfig};
use swath_gpu::Api;
use swath_gpu::vendor::{self, Library};

use self::case::{Case, Picture, cases};
use self::check::{Checked, check};
use self::measure::{Measured, Repeat, measure};
use self::scratch::Scratch;
use crate::bench::Bench as Flags;
use crate::devices::Libraries;
use crate::failure::Failure;

/// Rows and columns of the terrain that is only compared: several tiles in each direction, the last ones incomplete.
const CHECKED_SIDE: usize = 601;

/// Rows and columns of the terrain that is timed: enough tiles to keep a GPU busy, and fewer for a CPU that acts as an OpenCL device, so
/// that the run does not take too long.
const GPU_SIDE: usize = 4096;
const OTHER_SIDE: usize = 2048;

/// The codec that is timed again with the other way of moving bytes to the device.
const OTHER_CODEC: &str = "zstd";

/// Repeats if the user gives no number: this many, or as many as fit into `PATIENCE`.
const REPEAT: usize = 5;
const PATIENCE: Duration = Duration::from_secs(2);

/// The state that all cases share.
struct Bench {
    gpu: Gpu,
    /// NVIDIA's libraries, if the device can use them.
    libraries: Option<Libraries>,
    scratch: Scratch,
    repeat: Repeat,
    /// Reads on the device.
    request: ReadRequest<'static>,
    /// Writes on the CPU.
    config: WriteConfig<'static>,
}

impl Bench {
    fn request(&self, case: &Case) -> ReadRequest<'static> {
        self.request.clone().decoder(case.by).storage(case.storage)
    }

    fn on_cpu(&self) -> ReadRequest<'static> {
        self.request.clone().device(Device::Cpu)
    }

    fn config_for(&self, case: &Case) -> WriteConfig<'static> {
        let device = Device::Gpu(self.gpu.clone());
        self.config.clone().device(device).encoder(case.by).storage(case.storage)
    }
}

/// The outcome of a case.
struct Outcome {
    case: Case,
    /// The result of the comparison, or the error that prevented it.
    checked: Result<Checked, Failure>,
    /// The timings, if the case was timed.
    measured: Option<Measured>,
}

impl Outcome {
    /// The problem of this case, if there is one.
    fn problem(&self) -> Option<String> {
        let problem = match &self.checked {
            Ok(checked) => checked.problem()?.to_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!("{}: {problem}", self.case))
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(flag) = flags.file_flags().find(|flag| flag.1) {
        return Err(Failure::Usage(format!("{} needs a FILE", flag.0)));
    }
    let device = flags.device.device()?;
    let gpu = match (device.gpu(), device.missing_gpu()) {
        (Some(gpu), _) => gpu.clone(),
        (None, Some(missing)) => return Err(Failure::Failed(missing.to_string())),
        (None, None) => return Err(Failure::Usage("FILE is missing; see 'swath bench --help'".into())),
    };
    let side = if gpu.info().is_gpu { GPU_SIDE } else { OTHER_SIDE };
    let side = flags.size.unwrap_or(side as u64).max(1) as usize;
    let (decoder, storage) = (flags.device.decoder()?, flags.device.storage()?);
    let folder = flags.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let is_cuda = gpu.info().api == Api::Cuda;
    let bench = Bench {
        libraries: is_cuda.then(|| Library::ALL.map(|library| (library, vendor::find(library)))),
        scratch: Scratch::new(&folder)?,
        repeat: match flags.repeat {
            Some(times) => Repeat { times: times.max(1), patience: Duration::MAX },
            None => Repeat { times: REPEAT, patience: PATIENCE },
        },
        // The device is measured even where the CPU is estimated to be faster.
        request: flags
            .device
            .apply(flags.threads.apply(ReadRequest::new()), &device, flags.device.gpu_memory()?)?
            .placement(Placement::Device),
        config: WriteConfig::new()
            .overwrite(true)
            .threads(flags.threads.threads)
            .fallback(flags.device.fallback())
            .gpu_memory_budget(flags.device.gpu_memory()?),
        gpu,
    };
    let mut outcomes = compare(&bench, cases(bench.libraries.as_ref(), decoder, storage), side);
    time(&bench, &mut outcomes, side);
    other_storage(&bench, &mut outcomes, side, storage);
    match flags.json {
        true => print::json(&bench, &outcomes, side),
        false => print::table(&bench, &outcomes, side),
    }
    let problems: Vec<String> = outcomes.iter().filter_map(Outcome::problem).collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("{} cases failed: {}", problems.len(), problems.join("; ")))),
    }
}

/// Prints progress to stderr, because a program may read standard output.
fn show_progress(text: std::fmt::Arguments<'_>) {
    eprintln!("{text}");
}

/// Compares the device with the CPU, case by case.
fn compare(bench: &Bench, cases: Vec<Case>, side: usize) -> Vec<Outcome> {
    let (count, side) = (cases.len(), side.min(CHECKED_SIDE));
    let look = |(number, case): (usize, Case)| {
        show_progress(format_args!("comparing {} of {count}: {case}", number + 1));
        let checked = check(bench, &case, &Picture::of(&case, side));
        Outcome { case, checked, measured: None }
    };
    cases.into_iter().enumerate().map(look).collect()
}

/// Times the cases that are marked for timing and have no problem.
fn time(bench: &Bench, outcomes: &mut [Outcome], side: usize) {
    let mut cpu = None;
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.case.timed && outcome.problem().is_none()) {
        let case = &outcome.case;
        show_progress(format_args!("timing {case}"));
        match measure(bench, case, &Picture::of(case, side), &mut cpu) {
            Ok((measured, checked)) => {
                outcome.measured = Some(measured);
                if let Ok(known) = &mut outcome.checked {
                    known.add(checked);
                }
            }
            Err(error) => outcome.checked = Err(error),
        }
    }
}

/// Times one codec with the way of moving bytes that was not chosen, so that both ways are measured: with cuFile if the host moved the
/// bytes although cuFile is installed, or with the host if cuFile moved them.
fn other_storage(bench: &Bench, outcomes: &mut Vec<Outcome>, side: usize, asked: Storage) {
    let usable = |(library, found): &(Library, Result<_, _>)| *library == Library::CuFile && found.is_ok();
    let has_cufile = bench.libraries.as_ref().is_some_and(|libraries| libraries.iter().any(usable));
    // Swath's decoder comes before the library's, so the last case is the library's if it is installed.
    let last = outcomes.iter().rev().find(|outcome| outcome.measured.is_some() && outcome.case.codec == OTHER_CODEC);
    let (Storage::Auto, true, Some(last)) = (asked, has_cufile, last) else { return };
    let by_cufile = last.checked.as_ref().is_ok_and(|checked| checked.read_by.starts_with("cuFile"));
    let case = Case { storage: if by_cufile { Storage::Posix } else { Storage::CuFile }, ..last.case.clone() };
    let mut added = compare(bench, vec![case], side);
    time(bench, &mut added, side);
    outcomes.append(&mut added);
}
