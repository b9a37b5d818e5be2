//! The modules of this crate form layers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The code of a module and of those inside it, without tests.
fn code(path: &Path) -> String {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().map(|entry| code(&entry.unwrap().path())).collect();
    }
    fs::read_to_string(path).unwrap().split("#[cfg(test)]").next().unwrap().to_owned()
}

#[test]
fn no_two_modules_depend_on_each_other_directly_or_through_others() {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let path = entry.unwrap().path();
        modules.entry(path.file_stem().unwrap().to_string_lossy().into()).or_default().push_str(&code(&path));
    }
    modules.remove("lib");
    let needs = |code: &str, other: &str| [";", "::"].iter().any(|end| code.contains(&format!("crate::{other}{end}")));
    let free = |left: &BTreeMap<String, String>| {
        let is_free =
            |(name, code): &(&String, &String)| !left.keys().any(|other| other != *name && needs(code, other));
        left.iter().find(is_free).map(|(name, _)| name.clone())
    };
    // What needs nothing that is left is taken away, until only circles are left.
    while let Some(name) = free(&modules) {
        modules.remove(&name);
    }
    assert_eq!(modules.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "these depend on each other in a circle");
}
