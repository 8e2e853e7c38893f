//! `swath devices`: the devices of this machine and what they can do.

use swath::Compress;
use swath::gpu::{Cuda, DeviceCodec, DeviceInfo, OpenCl};

use crate::command::{Arguments, Command, Failure, Flag};

pub(crate) const COMMAND: Command = Command {
    name: "devices",
    operands: &[],
    summary: "List the devices that can be used, and which codecs run on them",
    details: "Lists what CUDA and OpenCL find, with their memory and driver, or what is missing and where it was looked for.\n\
              SWATH_OPENCL_DEVICE chooses an OpenCL device: its number, 'gpu', 'cpu', or a part of its name.\n\n\
              Examples:\n  \
              swath devices\n  \
              SWATH_OPENCL_DEVICE=pocl swath read dem.tif dem.npy --device opencl --stats\n",
    flags: &[Flag { name: "--json", value: None, help: "Print JSON." }],
    run,
};

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let found = [("cuda", Cuda::list()), ("opencl", OpenCl::list())];
    let on_device: Vec<&str> = DeviceCodec::ALL.iter().map(|codec| codec.name()).collect();
    let on_cpu: Vec<&str> = Compress::NAMES.iter().copied().filter(|name| !on_device.contains(name)).collect();
    if arguments.has("--json") {
        let devices = |found: &Result<Vec<DeviceInfo>, swath::gpu::Error>| match found {
            Ok(devices) => devices.iter().map(json).collect::<Vec<_>>().into(),
            Err(error) => serde_json::json!({ "missing": error.to_string() }),
        };
        let listed = found.iter().map(|(api, found)| ((*api).to_owned(), devices(found))).collect();
        let json = serde_json::json!({
            "devices": serde_json::Value::Object(listed),
            "decoded_on_device": on_device,
            "decoded_on_cpu": on_cpu,
            "compressed_on_device": ["packbits"],
        });
        println!("{json}");
        return Ok(());
    }
    println!("cpu: {} threads", swath::default_threads());
    for (api, found) in found {
        match found {
            Ok(devices) => devices.iter().for_each(|device| describe(api, device)),
            Err(error) => println!("{api}: {error}"),
        }
    }
    println!("\nDecoded on a device: {}.", on_device.join(", "));
    println!("Decoded by the CPU whatever the device, as one batch: {} and all other codecs.", on_cpu.join(", "));
    println!(
        "Written: blocks are cut and predicted on the device, and overviews made there; packbits is compressed there too, all other"
    );
    println!("codecs by the CPU.");
    Ok(())
}

fn describe(api: &str, device: &DeviceInfo) {
    let kind = if device.is_gpu { "GPU" } else { "no GPU: used only when SWATH_OPENCL_DEVICE names it" };
    println!("{api}:{} {} ({kind})", device.index, device.name);
    println!(
        "    {:.1} GB, one buffer at most {:.1} GB; driver {}{}",
        device.memory as f64 / 1e9,
        device.largest_buffer as f64 / 1e9,
        device.driver,
        if device.doubles { "" } else { "; no double precision: means of floats are made by the CPU" },
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
