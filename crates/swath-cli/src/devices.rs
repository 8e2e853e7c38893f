//! `swath devices`: lists the devices of this machine and what they can do.

use clap::Args;
use swath::Compress;
use swath_gpu::vendor::{self, Found, Library, Missing};
use swath_gpu::{Cuda, DeviceCodec, DeviceInfo, OpenCl};

use crate::failure::Failure;

/// List devices, NVIDIA's libraries, and the codecs that run on devices
///
/// Lists the devices that CUDA and OpenCL report, with memory and driver. If there are none, prints what is missing and
/// which places were searched. SWATH_OPENCL_DEVICE selects an OpenCL device: its number, 'gpu', 'cpu', or a part of its name.
///
/// Swath searches for NVIDIA's libraries in SWATH_NVCOMP_PATH, SWATH_NVJPEG2K_PATH, SWATH_NVJPEG_PATH and SWATH_CUFILE_PATH
/// (a file, a folder, or 'none'), in the library path, in pip packages, in conda and in /usr/local/cuda.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath devices -v
  SWATH_NVCOMP_PATH=none swath devices -v
  SWATH_OPENCL_DEVICE=pocl swath read dem.tif dem.npy --device opencl --timings")]
pub(crate) struct Devices {
    /// Show the version and path of each of NVIDIA's libraries, or which places were searched and what to install.
    #[arg(short, long)]
    verbose: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let found = [("cuda", Cuda::list()), ("opencl", OpenCl::list())];
        let on_device: Vec<&str> = DeviceCodec::ALL.iter().map(|codec| codec.name()).collect();
        let by_library: Vec<&str> = DeviceCodec::BY_LIBRARY.iter().map(|codec| codec.name()).collect();
        let others = Compress::names().filter(|name| !on_device.contains(name) && !by_library.contains(name));
        let on_cpu: Vec<&str> = others.collect();
        let libraries = Library::ALL.map(|library| (library, vendor::find(library)));
        if self.json {
            let devices = |found: &Result<Vec<DeviceInfo>, swath_gpu::Error>| match found {
                Ok(devices) => devices.iter().map(json).collect::<Vec<_>>().into(),
                Err(error) => serde_json::json!({ "missing": error.to_string() }),
            };
            let listed = found.iter().map(|(api, found)| ((*api).to_owned(), devices(found))).collect();
            let json = serde_json::json!({
                "devices": serde_json::Value::Object(listed),
                "decoded_on_device": on_device,
                "decoded_on_cpu": on_cpu,
                "decoded_by_libraries": by_library,
                "compressed_on_device": ["packbits"],
                "compressed_by_libraries": by_library,
                "libraries": libraries_json(&libraries),
            });
            println!("{json}");
            return Ok(());
        }
        println!("cpu: {} threads", swath::read::default_threads());
        for (api, found) in found {
            match found {
                Ok(devices) => devices.iter().for_each(|device| describe(api, device)),
                Err(error) => println!("{api}: {error}"),
            }
        }
        println!("{}", describe_libraries(&libraries, self.verbose));
        println!("\nDecoded on any device by Swath's kernels: {}.", on_device.join(", "));
        println!(
            "Decoded and compressed on CUDA devices by NVIDIA's libraries, if they are installed: {}.",
            by_library.join(", ")
        );
        println!("Decoded by the CPU: {} and all other codecs.", on_cpu.join(", "));
        println!(
            "A write cuts tiles, applies predictors and makes overviews on the device, and compresses packbits there."
        );
        println!("NVIDIA's libraries or the CPU compress the other codecs.");
        Ok(())
    }
}

fn describe(api: &str, device: &DeviceInfo) {
    let kind = if device.is_gpu { "GPU" } else { "not a GPU; used only if SWATH_OPENCL_DEVICE names it" };
    println!("{api}:{} {} ({kind})", device.index, device.name);
    println!(
        "    {:.1} GB, one buffer at most {:.1} GB; driver {}{}",
        device.memory as f64 / 1e9,
        device.largest_buffer as f64 / 1e9,
        device.driver,
        if device.doubles { "" } else { "; no double precision, so the CPU computes means of floats" },
    );
}

fn json(device: &DeviceInfo) -> serde_json::Value {
    serde_json::json!({
        "index": device.index,
        "name": device.name,
        "driver": device.driver,
        "gpu": device.is_gpu,
        "memory": device.memory,
        "largest_buffer": device.largest_buffer,
        "double_precision": device.doubles,
    })
}

pub(crate) type Libraries = [(Library, Result<Found, Missing>); 4];

/// Describes the libraries in one line, or, if `verbose`, in one line for each.
pub(crate) fn describe_libraries(libraries: &Libraries, verbose: bool) -> String {
    let found = |library: &Result<Found, Missing>| {
        library.as_ref().ok().map(|found| format!("{} {}", found.library.name(), found.version))
    };
    if !verbose {
        let names: Vec<String> = libraries.iter().filter_map(|(_, library)| found(library)).collect();
        let missing = libraries.len() - names.len();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let more = if missing > 0 { format!("; {missing} cannot be used; -v shows why") } else { String::new() };
        return format!("NVIDIA's libraries: {names}{more}");
    }
    let lines = libraries.iter().map(|(_, library)| match library {
        Ok(Found { library, version, path, detail }) => {
            let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
            let others = vendor::passed_over(*library).into_iter().map(|other| format!("; {other}"));
            format!("    {} {version} in {}{detail}{}", library.name(), path.display(), others.collect::<String>())
        }
        Err(missing) => format!("    {missing}"),
    });
    std::iter::once("NVIDIA's libraries:".to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

pub(crate) fn libraries_json(libraries: &Libraries) -> serde_json::Value {
    let entries = libraries.iter().map(|(library, found)| {
        let value = match found {
            Ok(Found { version, path, detail, .. }) => {
                let passed_over = vendor::passed_over(*library);
                let path = path.to_string_lossy();
                serde_json::json!({ "version": version, "path": path, "detail": detail, "passed_over": passed_over })
            }
            Err(missing) => serde_json::json!({ "missing": missing.to_string() }),
        };
        (library.name().to_lowercase(), value)
    });
    serde_json::Value::Object(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_take_one_line_unless_verbose() {
        let missing = |library| (library, vendor::find(library));
        let found = Found {
            library: Library::NvComp,
            version: "6.0.0".to_owned(),
            path: "/opt/libnvcomp.so.6".into(),
            detail: None,
        };
        let mut libraries = Library::ALL.map(missing);
        libraries[0].1 = Ok(found);
        let short = describe_libraries(&libraries, false);
        assert!(short.starts_with("NVIDIA's libraries: nvCOMP 6.0.0"), "{short}");
        assert_eq!(short.lines().count(), 1);
        let long = describe_libraries(&libraries, true);
        assert!(long.contains("    nvCOMP 6.0.0 in /opt/libnvcomp.so.6"), "{long}");
        assert_eq!(long.lines().count(), 5, "{long}");
        let json = libraries_json(&libraries);
        assert_eq!(json["nvcomp"]["version"], "6.0.0");
        assert_eq!(json.as_object().map(|object| object.len()), Some(4));
    }
}
