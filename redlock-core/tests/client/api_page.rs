//! `docs/api-at-a-glance.md` has every public method and type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::{ImplItem, Item, Type, UseTree, Visibility};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The types whose methods are options, each with a table under its own heading.
const WITH_OPTIONS: [&str; 3] = ["Builder", "LockRequest", "KeepAlive"];

fn page() -> String {
    fs::read_to_string(Path::new(CRATE).join("../docs/api-at-a-glance.md")).unwrap()
}

/// Returns the public methods of each type. Types of the module `blocking` have its name before theirs.
fn methods() -> BTreeMap<String, BTreeSet<String>> {
    let mut methods = BTreeMap::new();
    let mut folders = vec![Path::new(CRATE).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let prefix = if path.ends_with("blocking.rs") { "blocking::" } else { "" };
                collect(&fs::read_to_string(&path).unwrap(), prefix, &mut methods);
            }
        }
    }
    methods
}

fn collect(text: &str, prefix: &str, methods: &mut BTreeMap<String, BTreeSet<String>>) {
    for item in syn::parse_file(text).unwrap().items {
        let Item::Impl(block) = item else { continue };
        let Type::Path(of) = &*block.self_ty else { continue };
        let name = format!("{prefix}{}", of.path.segments.last().unwrap().ident);
        let public = block.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) if matches!(method.vis, Visibility::Public(_)) => {
                Some(method.sig.ident.to_string())
            }
            _ => None,
        });
        let known: &mut BTreeSet<String> = methods.entry(name).or_default();
        known.extend(public);
    }
}

/// Returns the words in backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the part of the page under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let section = &page[start + 1..];
    &section[..section.find("\n## ").unwrap_or(section.len())]
}

#[test]
fn the_table_of_methods_is_complete() {
    let (page, methods) = (page(), methods());
    let mut listed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in section(&page, "Methods").lines().filter(|row| row.starts_with("| `")) {
        let mut cells = row.split(" | ");
        let name = code(cells.next().unwrap()).next().unwrap().trim_start_matches("supervise::");
        // "and every method of `Lease`" is not a method.
        let names =
            code(cells.next().unwrap()).filter(|name| name.starts_with(|first: char| first.is_lowercase()));
        listed.entry(name).or_default().extend(names.map(str::to_owned));
    }
    for (name, listed) in &listed {
        assert_eq!(methods.get(*name), Some(listed), "{name}");
    }
    let is_listed = |name: &&String| listed.contains_key(&***name) || WITH_OPTIONS.contains(&&***name);
    let exported = exported_by_root();
    let missing: Vec<_> = exported
        .iter()
        .filter(|name| methods.get(*name).is_some_and(|methods| !methods.is_empty()))
        .filter(|name| !is_listed(name))
        .collect();
    assert_eq!(["SmolRuntime", "TokioRuntime"], *missing, "runtimes are in the text below the table");
}

#[test]
fn the_tables_of_options_are_complete() {
    let (page, methods) = (page(), methods());
    for name in WITH_OPTIONS {
        let section = section(&page, &format!("`{name}`"));
        let words: BTreeSet<_> =
            code(section).flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
        for method in &methods[name] {
            assert!(words.contains(&**method), "{name}::{method} is missing");
        }
        let options = section.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next());
        for option in options.filter(|option| option.chars().all(|c| c.is_alphanumeric() || c == '_')) {
            let exists = methods[name].contains(option) || option.starts_with(char::is_uppercase);
            assert!(exists, "{name}::{option} does not exist");
        }
    }
}

#[test]
fn every_type_at_the_root_is_on_the_page() {
    let page = page();
    let words: BTreeSet<_> =
        code(&page).flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let names = exported_by_root();
    let missing: Vec<_> = names.iter().filter(|name| !words.contains(&***name)).collect();
    assert!(names.len() > 25 && missing.is_empty(), "{missing:?} of {names:?}");
}

fn exported_by_root() -> Vec<String> {
    let root = fs::read_to_string(Path::new(CRATE).join("src/lib.rs")).unwrap();
    let mut names = Vec::new();
    for item in syn::parse_file(&root).unwrap().items {
        if let Item::Use(item) = item {
            if matches!(item.vis, Visibility::Public(_)) {
                exported(&item.tree, &mut names);
            }
        }
    }
    names
}

fn exported(tree: &UseTree, names: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => exported(&path.tree, names),
        UseTree::Name(name) => names.push(name.ident.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| exported(tree, names)),
        UseTree::Rename(_) | UseTree::Glob(_) => panic!("the root exports single names"),
    }
}
