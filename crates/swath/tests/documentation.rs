//! The Rust examples of README.md and docs/ are compiled: `src/lib.rs` includes the pages that have any.

use std::fs;
use std::path::Path;

#[test]
fn every_page_with_a_rust_example_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = include_str!("../src/lib.rs");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<_> =
        docs.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
    assert!(pages.len() > 5, "the folder of the documentation moved");
    for page in pages {
        if !fs::read_to_string(&page).unwrap().contains("```rust") {
            continue;
        }
        let name = page.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        let include = format!("include_str!(\"../../../{name}\")");
        assert!(library.contains(&include), "{name} has Rust examples that no test compiles");
    }
}
