//! The places that are searched for a library, and their order.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::Library;
use super::missing::{Missing, Reason, Refusal, Refused};

/// All inputs of the search except the files themselves.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    /// The value of the library's variable.
    pub(super) chosen: Option<OsString>,
    /// The library path of the system's loader, for messages: the loader read it when the process started.
    pub(super) library_path: Option<OsString>,
    /// Folders of `site-packages` that Python passed.
    pub(super) site_packages: Vec<PathBuf>,
    /// Prefixes that may contain `lib/python3*/site-packages`: the virtual environment, the prefix of the running program, those of the
    /// Pythons in `PATH`, and that of `pip install --user`.
    pub(super) prefixes: Vec<PathBuf>,
    /// The conda environment.
    pub(super) conda: Option<PathBuf>,
    /// The CUDA toolkit.
    pub(super) cuda: PathBuf,
}

/// A place of the search, and the files of the library in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchPath {
    pub(super) name: String,
    pub(super) files: Vec<PathBuf>,
}

impl Environment {
    /// The environment of this process.
    pub(super) fn of_process(library: Library, site_packages: Vec<PathBuf>) -> Environment {
        let path = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty());
        // A relative path would be searched below the working folder, where anybody may have put a library.
        let folder = |variable: &str| path(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
        // The Python of a virtual environment is a link to another Python: the path that was called names the environment.
        let programs = [env::args_os().next().map(PathBuf::from), env::current_exe().ok()];
        let installed = programs.into_iter().flatten().filter_map(|program| prefix_of(&program));
        let user = folder("PYTHONUSERBASE").or_else(|| folder("HOME").map(|home| home.join(".local")));
        // Often there are several, and few contain NVIDIA's libraries.
        let pythons = path("PATH").map_or_else(Vec::new, |path| pythons(&path)).into_iter().chain(user);
        let pythons = pythons.filter(|prefix| has_wheels(prefix));
        Environment {
            chosen: path(library.variable()),
            library_path: path("LD_LIBRARY_PATH"),
            site_packages,
            prefixes: folder("VIRTUAL_ENV").into_iter().chain(installed).chain(pythons).collect(),
            conda: folder("CONDA_PREFIX"),
            cuda: PathBuf::from("/usr/local/cuda"),
        }
    }

    /// The places to look in, in order.
    pub(super) fn places(&self, library: Library) -> Vec<SearchPath> {
        if let Some(chosen) = &self.chosen {
            return vec![chosen_path(library, Path::new(chosen))];
        }
        let name = match &self.library_path {
            Some(path) => format!("the process's library path (LD_LIBRARY_PATH is {})", path.display()),
            None => "the process's library path (LD_LIBRARY_PATH is not set)".to_owned(),
        };
        // Bare names: the system's loader searches for them.
        let mut places = vec![SearchPath { name, files: library.sonames().iter().map(PathBuf::from).collect() }];
        let prefixes = self.prefixes.iter().chain(&self.conda);
        let found = prefixes.flat_map(|prefix| site_packages(prefix));
        places.extend(self.site_packages.iter().cloned().chain(found).map(|site| SearchPath {
            name: site.join("nvidia").display().to_string(),
            files: in_folders(library, &wheels(&site)),
        }));
        let triple = if cfg!(target_arch = "aarch64") { "sbsa-linux" } else { "x86_64-linux" };
        let toolkit = [self.cuda.join("lib64"), self.cuda.join("targets").join(triple).join("lib")];
        places.extend(
            self.conda
                .iter()
                .map(|conda| conda.join("lib"))
                .chain(toolkit)
                .map(|folder| SearchPath { name: folder.display().to_string(), files: in_folders(library, &[folder]) }),
        );
        // The virtual environment is often also the prefix of the program.
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(place.name.clone()));
        places
    }
}

/// The prefix that a program is installed in, if its path is absolute.
fn prefix_of(program: &Path) -> Option<PathBuf> {
    program.is_absolute().then(|| program.parent()?.parent().map(Path::to_owned))?
}

/// The path in the library's environment variable: a file or a folder.
fn chosen_path(library: Library, chosen: &Path) -> SearchPath {
    // The loader opens a path with a folder as it is, and searches nowhere else.
    let path = std::path::absolute(chosen).unwrap_or_else(|_| chosen.to_owned());
    let name = format!("{}, which {} names", path.display(), library.variable());
    let files = if path.is_dir() { in_folders(library, &[path]) } else { vec![path] };
    SearchPath { name, files }
}

/// The files of the library in these folders: all files of the first name, then those of the next.
fn in_folders(library: Library, folders: &[PathBuf]) -> Vec<PathBuf> {
    let files = library.sonames().iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.filter(|file| file.exists()).collect()
}

/// The prefixes of the Pythons in `PATH`: `pip install` at a shell installs into one of them. Debian's Python, in `/usr`, finds what pip
/// installs in `/usr/local`.
fn pythons(path: &OsStr) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    for program in folders.flat_map(|folder| ["python3", "python"].map(|name| folder.join(name))) {
        // A link belongs to one prefix, and its target may belong to another.
        let end = fs::canonicalize(&program).ok();
        let ways = end.as_deref().map_or([None, None], |end| [Some(&*program), Some(end)]);
        // /bin/python3 is the one of /usr/bin.
        let found = ways.into_iter().flatten().filter_map(|way| way.parent()?.parent());
        for prefix in found.filter(|prefix| prefix.parent().is_some()) {
            let local = (prefix == Path::new("/usr")).then(|| prefix.join("local"));
            prefixes.extend(local.into_iter().chain([prefix.to_owned()]));
        }
    }
    prefixes
}

/// The `site-packages` of a prefix, which Debian calls `dist-packages`; those of the newest Python first.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = ["lib", "lib64"]
        .iter()
        .flat_map(|lib| entries(&prefix.join(lib)))
        .filter_map(|folder| {
            let version = folder.file_name()?.to_str()?.strip_prefix("python3")?.to_owned();
            let version = version.trim_start_matches('.').parse().unwrap_or(0);
            let sites = ["site-packages", "dist-packages"].map(|name| (version, folder.join(name)));
            Some(sites.into_iter().filter(|(_, site)| site.is_dir()))
        })
        .flatten()
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, site)| site).collect()
}

/// Whether wheels of NVIDIA are installed in a prefix.
fn has_wheels(prefix: &Path) -> bool {
    site_packages(prefix).iter().any(|site| !wheels(site).is_empty())
}

/// The folders with the libraries of NVIDIA's wheels.
fn wheels(site_packages: &Path) -> Vec<PathBuf> {
    let packages = entries(&site_packages.join("nvidia"));
    packages.iter().flat_map(|package| [package.join("lib"), package.join("lib64")]).collect()
}

/// The entries of a folder in the order of their names; none if the folder cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// The first candidate that can be loaded, and the files before it that were refused.
pub(super) fn first<T>(
    library: Library,
    environment: &Environment,
    load: impl Fn(&Path) -> Result<T, Refusal>,
) -> Result<(T, Vec<Refused>), Missing> {
    if environment.chosen.as_ref().is_some_and(|chosen| chosen == "none") {
        return Err(Missing { library, reason: Reason::Declined });
    }
    let places = environment.places(library);
    let mut refused = Vec::new();
    for file in places.iter().flat_map(|place| &place.files) {
        match load(file) {
            Ok(loaded) => return Ok((loaded, refused)),
            Err(why) if is_absent(file, &why) => (),
            Err(why) => refused.push(Refused { file: file.clone(), why }),
        }
    }
    let searched = places.into_iter().map(|place| place.name).collect();
    Err(Missing { library, reason: Reason::Nowhere { searched, refused } })
}

/// Whether the loader found no file for a bare name. The loader reports only a text, no code, so the text decides. If a dependency of the
/// library is missing instead, the text has the name of the dependency.
fn is_absent(file: &Path, why: &Refusal) -> bool {
    let bare = file.components().count() == 1;
    let name = file.to_string_lossy();
    bare && matches!(why, Refusal::Unloadable(text) if text.contains("No such file") && text.contains(&*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of a test, gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = env::temp_dir().join(format!("swath-nvidia-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("a temporary folder");
            Folder(folder)
        }

        /// An empty file in it.
        fn file(&self, path: &str) -> PathBuf {
            let file = self.0.join(path);
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
            fs::write(&file, "").expect("a file");
            file
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// What the search tries, but for bare names.
    fn tried(library: Library, environment: &Environment) -> Vec<PathBuf> {
        let files = environment.places(library).into_iter().flat_map(|place| place.files);
        files.filter(|file| file.is_absolute()).collect()
    }

    fn elsewhere(folder: &Folder) -> Environment {
        Environment { cuda: folder.0.join("cuda"), ..Environment::default() }
    }

    #[test]
    fn places_are_searched_in_the_documented_order() {
        let folder = Folder::new("order");
        let (venv, conda) = ("venv/lib/python3.12/site-packages", "conda/lib/python3.11/site-packages");
        let files = [
            "told/nvidia/libnvcomp/lib64/libnvcomp.so.5",
            &format!("{venv}/nvidia/libnvcomp/lib64/libnvcomp.so.6"),
            "prefix/lib/python3.13/site-packages/nvidia/cu13/lib/libnvcomp.so.6",
            &format!("{conda}/nvidia/nvcomp/lib/libnvcomp.so.6"),
            "conda/lib/libnvcomp.so.6",
            "cuda/lib64/libnvcomp.so.6",
            if cfg!(target_arch = "aarch64") {
                "cuda/targets/sbsa-linux/lib/libnvcomp.so.6"
            } else {
                "cuda/targets/x86_64-linux/lib/libnvcomp.so.6"
            },
        ]
        .map(|file| folder.file(file));
        let environment = Environment {
            site_packages: vec![folder.0.join("told")],
            prefixes: vec![folder.0.join("venv"), folder.0.join("prefix")],
            conda: Some(folder.0.join("conda")),
            ..elsewhere(&folder)
        };
        assert_eq!(tried(Library::NvComp, &environment), files);
        let first = &environment.places(Library::NvComp)[0].files;
        assert_eq!(first, &["libnvcomp.so.6", "libnvcomp.so.5"].map(PathBuf::from), "the loader is asked first");
    }

    #[test]
    fn bare_name_without_a_number_is_never_loaded() {
        let folder = Folder::new("bare");
        folder.file("cuda/lib64/libnvcomp.so");
        folder.file("cuda/lib64/libnvcomp.so.4");
        assert!(tried(Library::NvComp, &elsewhere(&folder)).is_empty());
        for library in Library::ALL {
            for name in library.sonames() {
                let number = name.rsplit('.').next().unwrap_or_default();
                assert!(number.parse::<u32>().is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn newest_python_and_newest_library_come_first() {
        let folder = Folder::new("newest");
        let old = folder.file("venv/lib/python3.9/site-packages/nvidia/libnvcomp/lib64/libnvcomp.so.6");
        let five = folder.file("venv/lib/python3.12/site-packages/nvidia/a/lib/libnvcomp.so.5");
        let six = folder.file("venv/lib/python3.12/site-packages/nvidia/b/lib64/libnvcomp.so.6");
        folder.file("venv/lib/python2.7/site-packages/nvidia/b/lib64/libnvcomp.so.6");
        let environment = Environment { prefixes: vec![folder.0.join("venv")], ..elsewhere(&folder) };
        assert_eq!(tried(Library::NvComp, &environment), [six, five, old]);
    }

    #[cfg(unix)]
    #[test]
    fn pip_at_a_shell_is_pip_of_a_python_in_the_path() {
        let folder = Folder::new("shell");
        folder.file("real/bin/python3.12");
        fs::create_dir_all(folder.0.join("linked/bin")).expect("a folder");
        std::os::unix::fs::symlink(folder.0.join("real/bin/python3.12"), folder.0.join("linked/bin/python3"))
            .expect("a link");
        folder.file("none/bin/pip");
        let path = env::join_paths(["none/bin", "linked/bin"].map(|bin| folder.0.join(bin))).expect("a path");
        let real = folder.0.join("real").canonicalize().expect("it is there");
        assert_eq!(pythons(&path), [folder.0.join("linked"), real.clone()]);
        assert_eq!(pythons(OsStr::new("bin:.")), [""; 0].map(PathBuf::from), "not what lies in the working folder");
        let file = folder.file("real/lib/python3.12/dist-packages/nvidia/libnvcomp/lib64/libnvcomp.so.6");
        let environment = Environment { prefixes: pythons(&path), ..elsewhere(&folder) };
        assert_eq!(tried(Library::NvComp, &environment), [file.canonicalize().expect("it is there")]);
    }

    #[test]
    fn variable_names_a_file_or_a_folder_and_then_nothing_else_is_searched() {
        let folder = Folder::new("chosen");
        let elsewhere = elsewhere(&folder);
        folder.file("cuda/lib64/libcufile.so.0");
        let file = folder.file("mine/my-cufile.so");
        let chosen = |path: &Path| Environment { chosen: Some(path.into()), ..elsewhere.clone() };
        assert_eq!(tried(Library::CuFile, &chosen(&file)), [file]);
        assert!(tried(Library::CuFile, &chosen(&folder.0.join("mine"))).is_empty());
        let named = folder.file("mine/libcufile.so.0");
        assert_eq!(tried(Library::CuFile, &chosen(&folder.0.join("mine"))), [named]);
        // A relative name would be looked for in the library path.
        assert!(chosen(Path::new("libcufile.so.0")).places(Library::CuFile)[0].files[0].is_absolute());
    }

    #[test]
    fn folder_beside_a_relative_program_is_not_searched() {
        assert_eq!(prefix_of(Path::new("/opt/swath/bin/swath")), Some(PathBuf::from("/opt/swath")));
        for relative in ["swath", "bin/swath", "./bin/swath", "../x/bin/swath", ""] {
            assert_eq!(prefix_of(Path::new(relative)), None, "{relative}");
        }
    }

    #[test]
    fn none_is_no_library_and_says_why() {
        let environment = Environment { chosen: Some("none".into()), ..Environment::default() };
        let missing = first::<()>(Library::NvJpeg, &environment, |_| panic!("nothing is loaded")).unwrap_err();
        assert_eq!(missing.to_string(), "nvJPEG is not used because SWATH_NVJPEG_PATH is 'none'");
    }

    #[test]
    fn missing_library_says_what_was_refused_where_and_what_to_install() {
        let folder = Folder::new("missing");
        let file = folder.file("cuda/lib64/libnvcomp.so.5");
        let environment = Environment { library_path: Some("/opt/lib".into()), ..elsewhere(&folder) };
        let load = |file: &Path| -> Result<(), Refusal> {
            Err(match file.components().count() {
                1 => Refusal::Unloadable(format!("{}: cannot open shared object file: No such file", file.display())),
                _ => Refusal::Version { found: "4.2.0".to_owned(), wanted: "5 or 6" },
            })
        };
        let text = first(Library::NvComp, &environment, load).unwrap_err().to_string();
        let start = "nvCOMP was not found: no usable libnvcomp.so.6 or libnvcomp.so.5 in the process's library path \
                     (LD_LIBRARY_PATH is /opt/lib), ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains(&format!("; {} is version 4.2.0, not 5 or 6; ", file.display())), "{text}");
        assert!(
            text.ends_with(
                "; run pip install nvidia-libnvcomp-cu12, or set SWATH_NVCOMP_PATH to the path of the library"
            ),
            "{text}"
        );
        assert_eq!(text.matches("No such file").count(), 0, "what is not there was not refused: {text}");
    }

    #[test]
    fn search_goes_on_behind_what_is_refused_and_remembers_it() {
        let folder = Folder::new("behind");
        let new = folder.file("told/nvidia/a/lib/libnvjpeg2k.so.0");
        let old = folder.file("told/nvidia/b/lib/libnvjpeg2k.so.0");
        let environment = Environment { site_packages: vec![folder.0.join("told")], ..elsewhere(&folder) };
        let load = |file: &Path| match file == old {
            true => Ok(file.to_owned()),
            false if file.is_absolute() => Err(Refusal::Runtime { made_for: 13_000, driver: 12_090 }),
            false => Err(Refusal::Unloadable(format!("{}: No such file", file.display()))),
        };
        let (found, refused) = first(Library::NvJpeg2000, &environment, load).unwrap();
        assert_eq!(found, old);
        let said: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("{} is built for CUDA 13.0, but the driver supports CUDA 12.9", new.display())]);
    }

    #[test]
    fn driver_too_old_for_all_that_pip_brings_is_what_is_to_be_replaced() {
        let folder = Folder::new("old");
        folder.file("cuda/lib64/libnvcomp.so.6");
        let load = |_: &Path| -> Result<(), Refusal> { Err(Refusal::Runtime { made_for: 12_090, driver: 11_080 }) };
        let text = first(Library::NvComp, &elsewhere(&folder), load).unwrap_err().to_string();
        assert!(text.contains("libnvcomp.so.6 is built for CUDA 12.9, but the driver supports CUDA 11.8; "), "{text}");
        assert!(text.ends_with("; install an NVIDIA driver that supports CUDA 12"), "{text}");
    }

    #[test]
    fn library_that_lacks_what_it_needs_itself_is_told_from_one_that_is_not_there() {
        let absent = |text: &str| is_absent(Path::new("libcufile.so.0"), &Refusal::Unloadable(text.to_owned()));
        assert!(absent("libcufile.so.0: cannot open shared object file: No such file or directory"));
        assert!(!absent("libmlx5.so.1: cannot open shared object file: No such file or directory"));
        assert!(!absent("libcufile.so.0: wrong ELF class"));
        // As this system says it.
        if cfg!(target_os = "linux") {
            let nowhere = Path::new("libswath-nowhere.so.6");
            let why = super::super::load::Loaded::open(nowhere).unwrap_err();
            assert!(is_absent(nowhere, &why), "{why}");
        }
    }

    #[test]
    fn file_that_is_no_library_is_refused_not_loaded() {
        let folder = Folder::new("text");
        folder.file("cuda/lib64/libcufile.so.0");
        let load = |file: &Path| super::super::load::Loaded::open(file).map(|_| ());
        let load = |file: &Path| if file.is_absolute() { load(file) } else { Err(Refusal::Symbol("none".into())) };
        let text = first(Library::CuFile, &elsewhere(&folder), load).unwrap_err().to_string();
        assert!(text.contains("libcufile.so.0 cannot be loaded ("), "{text}");
        assert!(!text.contains("(dlopen failed)"), "the reason is what the system says: {text}");
    }
}
