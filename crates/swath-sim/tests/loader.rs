//! Tests which copy of the driver and of NVIDIA's libraries is loaded if there are several.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs};

use swath_gpu::Cuda;
use swath_gpu::vendor::{self, Library};
use swath_sim::{folder, rerun, without};

/// Returns an empty folder for a test, by its absolute path. It stays until the next run, because the child
/// process uses it.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loader-{name}"));
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("room on the disk");
    }
    place.canonicalize().expect("it was just made")
}

/// Returns the simulator that cargo built, under the name of the driver.
fn simulator() -> PathBuf {
    folder(&[]).expect("the simulator was built").join("libcuda.so.1").canonicalize().expect("it is there")
}

/// The libraries that report the CUDA version for which they were built, and their files.
const LIBRARIES: [(Library, &str); 3] = [
    (Library::NvComp, "libnvcomp.so.6"),
    (Library::NvJpeg2000, "libnvjpeg2k.so.0"),
    (Library::NvJpeg, "libnvjpeg.so.12"),
];

#[test]
fn copy_for_cuda_12_is_used_if_an_earlier_one_is_for_cuda_13() {
    let prefix = place("behind");
    let site = prefix.join("lib/python3.12/site-packages/nvidia");
    let (new, old) = (site.join("a-cu13/lib"), site.join("b-cu12/lib"));
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        for (folder, link) in [(&new, false), (&old, true)] {
            fs::create_dir_all(folder).expect("room on the disk");
            for (_, file) in LIBRARIES {
                // A separate library, which reports a different version.
                match link {
                    true => symlink(simulator(), folder.join(file)).expect("a link"),
                    false => fs::copy(simulator(), folder.join(file)).map(|_| ()).expect("a copy"),
                }
            }
        }
    }
    let claim = format!("13010@{}", new.display());
    let prefix = prefix.to_str().expect("a name in letters");
    let variables = [("VIRTUAL_ENV", prefix), ("SWATH_SIM_CUDART", &claim)];
    if !rerun("copy_for_cuda_12_is_used_if_an_earlier_one_is_for_cuda_13", &folder(&[]).expect("a folder"), &variables)
    {
        return;
    }
    for (library, file) in LIBRARIES {
        let found = vendor::find(library).unwrap_or_else(|missing| panic!("{missing}"));
        assert_eq!(found.path, simulator(), "{library:?}");
        let reason = format!("{} is built for CUDA 13.1, but the driver supports CUDA 12.8", new.join(file).display());
        assert_eq!(vendor::passed_over(library), [reason]);
    }
    assert_eq!(vendor::passed_over(Library::CuFile), [""; 0]);
}

#[test]
fn library_for_a_newer_cuda_is_refused_with_advice_what_to_install() {
    let test = "library_for_a_newer_cuda_is_refused_with_advice_what_to_install";
    let libraries = folder(&["nvcomp.6", "nvcomp.5", "nvjpeg2k", "nvjpeg"]).expect("a folder");
    // Python installations that may have suitable libraries are not searched.
    let nowhere = ["PATH", "HOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX"].map(|name| (name, "/none"));
    let variables: Vec<_> = nowhere.into_iter().chain([("SWATH_SIM_CUDART", "13000")]).collect();
    if !rerun(test, &libraries, &variables) {
        return;
    }
    for (library, file) in LIBRARIES {
        let message = vendor::find(library).expect_err("the driver does not support CUDA 13").to_string();
        assert!(
            message.contains(&format!("; {file} is built for CUDA 13.0, but the driver supports CUDA 12.8; ")),
            "{message}"
        );
        assert!(message.contains(&format!("; run pip install {}", library.install())), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn library_for_cuda_is_listed_without_a_driver() {
    let libraries = place("no-driver");
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        for (_, file) in LIBRARIES {
            symlink(simulator(), libraries.join(file)).expect("a link");
        }
    }
    let test = "library_for_cuda_is_listed_without_a_driver";
    if !rerun(test, &libraries, &[("SWATH_SIM_CUDART", "13000")]) {
        return;
    }
    // A machine with a driver supports some version.
    if Cuda::list().is_err_and(|error| error.to_string().contains("it comes with NVIDIA's driver")) {
        for (library, _) in LIBRARIES {
            vendor::find(library).unwrap_or_else(|missing| panic!("{missing}"));
        }
    }
}

#[test]
fn driver_is_libcuda_1_even_if_another_libcuda_exists() {
    // The toolkit's stub has only the name without a version.
    let libraries = place("stub");
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        let stub = without("cuInit", &[]).expect("a copy without it");
        symlink(stub.join("libcuda.so"), libraries.join("libcuda.so")).expect("a link");
        symlink(simulator(), libraries.join("libcuda.so.1")).expect("a link");
    }
    if rerun("driver_is_libcuda_1_even_if_another_libcuda_exists", &libraries, &[]) {
        let devices = Cuda::list().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(devices.len(), 1);
    }
}
