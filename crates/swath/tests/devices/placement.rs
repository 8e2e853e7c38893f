//! A read that the CPU does faster goes to the CPU, unless the caller wants the device, and the report says why.

use swath::read::Placement;
use swath::{FallbackPolicy, Raster, ReadRequest};

use crate::files::File;
use crate::subject::{Subject, same_pixels};

fn placement(raster: &Raster) -> (&str, &str) {
    (raster.report.device, &raster.report.gpu.as_ref().expect("the request names a device").placement)
}

pub(crate) fn few_blocks_are_left_to_the_cpu_unless_the_device_is_forced(subject: &Subject) {
    let image = File::default().open();
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    let named = ReadRequest::new().device(&subject.gpu);
    let read = |request: &ReadRequest<'_>| {
        let raster = image.read(request).expect("it reads");
        same_pixels("placed", expected.pixels.as_bytes(), raster.pixels.as_bytes());
        raster
    };
    let raster = read(&named);
    let (device, reason) = placement(&raster);
    assert_eq!(device, "cpu", "{reason}");
    assert!(reason.starts_with("the CPU: estimated "), "{reason}");
    let gpu = raster.report.gpu.as_ref().expect("a device was named");
    assert!(gpu.fallbacks.is_empty() && gpu.stats.launches == 0, "a choice is no fallback: {gpu:?}");
    for forced in [named.clone().placement(Placement::Device), named.clone().fallback(FallbackPolicy::Strict)] {
        assert_eq!(placement(&read(&forced)), ("cuda", ""));
    }
    // Pixels for the device arrive there either way.
    let (on_device, report) = image.read_to_device(&ReadRequest::new(), &subject.gpu).expect("it reads");
    let mut pixels = vec![0; expected.pixels.as_bytes().len()];
    on_device.download(&mut pixels).expect("they come back");
    same_pixels("on the device", expected.pixels.as_bytes(), &pixels);
    assert_eq!(report.device, "cpu", "{report:?}");
}

pub(crate) fn costs_of_the_environment_send_the_same_read_to_the_device(subject: &Subject) {
    let raster = File::default().open().read(&ReadRequest::new().device(&subject.gpu)).expect("it reads");
    let (device, reason) = placement(&raster);
    assert_eq!(device, "cuda", "{reason}");
    assert!(reason.starts_with("the device: estimated "), "{reason}");
}

pub(crate) fn unknown_costs_are_an_error(subject: &Subject) {
    let error = File::default().open().read(&ReadRequest::new().device(&subject.gpu)).expect_err("no such cost");
    assert!(error.to_string().contains("SWATH_GPU_COSTS"), "{error}");
}

/// Makes tests with these variables.
macro_rules! placed {
    ($($hazard:ident with $costs:literal;)*) => {
        mod tests {
            $(
                #[test]
                fn $hazard() {
                    let variables = [("SWATH_PLACEMENT", "fastest"), ("SWATH_GPU_COSTS", $costs)];
                    let name = concat!(module_path!(), "::", stringify!($hazard));
                    crate::subject::on_nvidia_with(name, &variables, super::$hazard);
                }
            )*
        }
    };
}

placed! {
    few_blocks_are_left_to_the_cpu_unless_the_device_is_forced with "";
    costs_of_the_environment_send_the_same_read_to_the_device with "start=0,transfer=0,lzw.kernel=0,none.kernel=0,deflate.kernel=0";
    unknown_costs_are_an_error with "lzw.gpu=1";
}
