//! Which copy of the driver and of NVIDIA's libraries is taken where there are several.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs};

use swath_gpu::Cuda;
use swath_gpu::vendor::{self, Library};
use swath_sim::{folder, rerun, without};

/// A folder of a test, empty and by its whole name; it stays until the next run, as its child uses it.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loader-{name}"));
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("room on the disk");
    }
    place.canonicalize().expect("it was just made")
}

/// The simulator as cargo built it, by the name of the driver.
fn simulator() -> PathBuf {
    folder(&[]).expect("the simulator was built").join("libcuda.so.1").canonicalize().expect("it is there")
}

/// The libraries that say which CUDA they were made for, and their files.
const LIBRARIES: [(Library, &str); 3] = [
    (Library::NvComp, "libnvcomp.so.6"),
    (Library::NvJpeg2000, "libnvjpeg2k.so.0"),
    (Library::NvJpeg, "libnvjpeg.so.12"),
];

#[test]
fn copy_for_cuda_12_behind_one_for_cuda_13_is_used() {
    let prefix = place("behind");
    let site = prefix.join("lib/python3.12/site-packages/nvidia");
    let (new, old) = (site.join("a-cu13/lib"), site.join("b-cu12/lib"));
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        for (folder, link) in [(&new, false), (&old, true)] {
            fs::create_dir_all(folder).expect("room on the disk");
            for (_, file) in LIBRARIES {
                // A library of its own, which says something else than the other does.
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
    if !rerun("copy_for_cuda_12_behind_one_for_cuda_13_is_used", &folder(&[]).expect("a folder"), &variables) {
        return;
    }
    for (library, file) in LIBRARIES {
        let found = vendor::find(library).unwrap_or_else(|missing| panic!("{missing}"));
        assert_eq!(found.path, simulator(), "{library:?}");
        let told = format!("{} is built for CUDA 13.1, but the driver supports CUDA 12.8", new.join(file).display());
        assert_eq!(vendor::passed_over(library), [told]);
    }
    assert_eq!(vendor::passed_over(Library::CuFile), [""; 0]);
}

#[test]
fn library_for_a_newer_cuda_alone_is_refused_and_says_what_to_install() {
    let test = "library_for_a_newer_cuda_alone_is_refused_and_says_what_to_install";
    let libraries = folder(&["nvcomp.6", "nvcomp.5", "nvjpeg2k", "nvjpeg"]).expect("a folder");
    // Pythons that may have those that fit are not looked at.
    let nowhere = ["PATH", "HOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX"].map(|name| (name, "/none"));
    let variables: Vec<_> = nowhere.into_iter().chain([("SWATH_SIM_CUDART", "13000")]).collect();
    if !rerun(test, &libraries, &variables) {
        return;
    }
    for (library, file) in LIBRARIES {
        let said = vendor::find(library).expect_err("the driver does not know CUDA 13").to_string();
        assert!(
            said.contains(&format!("; {file} is built for CUDA 13.0, but the driver supports CUDA 12.8; ")),
            "{said}"
        );
        assert!(said.contains(&format!("; run pip install {}", library.install())), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn library_for_cuda_is_listed_where_there_is_no_driver() {
    let libraries = place("no-driver");
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        for (_, file) in LIBRARIES {
            symlink(simulator(), libraries.join(file)).expect("a link");
        }
    }
    let test = "library_for_cuda_is_listed_where_there_is_no_driver";
    if !rerun(test, &libraries, &[("SWATH_SIM_CUDART", "13000")]) {
        return;
    }
    // A machine with a driver knows some version.
    if Cuda::list().is_err_and(|error| error.to_string().contains("it comes with NVIDIA's driver")) {
        for (library, _) in LIBRARIES {
            vendor::find(library).unwrap_or_else(|missing| panic!("{missing}"));
        }
    }
}

#[test]
fn driver_is_libcuda_1_whatever_else_is_called_libcuda() {
    // The toolkit's stub is found by the bare name alone.
    let libraries = place("stub");
    if env::var_os("SWATH_SIM_CHILD").is_none() {
        let stub = without("cuInit", &[]).expect("a copy without it");
        symlink(stub.join("libcuda.so"), libraries.join("libcuda.so")).expect("a link");
        symlink(simulator(), libraries.join("libcuda.so.1")).expect("a link");
    }
    if rerun("driver_is_libcuda_1_whatever_else_is_called_libcuda", &libraries, &[]) {
        let devices = Cuda::list().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(devices.len(), 1);
    }
}
