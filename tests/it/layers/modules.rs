//! The module tree of a crate, and which file each path in it leads to.
//!
//! Reads sources as tokens, so that paths inside macros count too. Resolves `use` trees, inline paths and re-exports;
//! omits code under `cfg(test)`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Segments = Vec<String>;

/// A `use` of one name.
struct Import {
    target: Segments,
    name: String,
    public: bool,
}

/// A module, in a file of its own or inline.
pub(super) struct Module {
    path: Segments,
    file: PathBuf,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    items: BTreeSet<String>,
    mentioned: Vec<Segments>,
}

/// The modules of one crate by path; the root's path is empty.
pub(super) struct Modules {
    by_path: BTreeMap<Segments, Module>,
    root: PathBuf,
}

impl Modules {
    /// Reads the crate whose root is `src/lib.rs` below `folder`.
    pub(super) fn read(folder: &Path) -> Self {
        let root = folder.join("src");
        let mut modules = Self { by_path: BTreeMap::new(), root: root.clone() };
        modules.load(Vec::new(), root.join("lib.rs"));
        modules
    }

    /// How many files were read.
    pub(super) fn files(&self) -> BTreeSet<String> {
        self.by_path.values().map(|module| self.shown(&module.file)).collect()
    }

    /// Returns the dependencies between files, each with one path as evidence.
    pub(super) fn dependencies(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for module in self.by_path.values() {
            let imported = module.imports.iter().filter_map(|import| {
                let target = self.absolute(module, &import.target, false)?;
                // A parent that re-exports its children does not depend on them.
                (!import.public || !target.starts_with(&module.path)).then_some(target)
            });
            let mentioned = module.mentioned.iter().filter_map(|path| self.absolute(module, path, true));
            for target in imported.chain(mentioned) {
                let used = &self.resolve(&target, &mut BTreeSet::new()).0.file;
                if *used != module.file {
                    let by = found.entry(self.shown(&module.file)).or_default();
                    by.entry(self.shown(used)).or_insert_with(|| target.join("::"));
                }
            }
        }
        found
    }

    fn shown(&self, file: &Path) -> String {
        file.strip_prefix(&self.root).unwrap().display().to_string()
    }

    fn load(&mut self, path: Segments, file: PathBuf) {
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let parent = file.parent().unwrap();
        let below = if ["mod", "lib"].contains(&stem) { parent.to_path_buf() } else { parent.join(stem) };
        self.scan(path, file, &below, tokens.into_iter().collect());
    }

    fn scan(&mut self, path: Segments, file: PathBuf, below: &Path, tokens: Vec<TokenTree>) {
        let mut module = Module {
            path: path.clone(),
            file: file.clone(),
            children: BTreeSet::new(),
            imports: Vec::new(),
            items: BTreeSet::new(),
            mentioned: Vec::new(),
        };
        for item in items(&tokens) {
            let child = |name: &str| [&path[..], &[name.to_owned()]].concat();
            match item {
                Item::Declared { name, path: explicit } => {
                    let flat = below.join(format!("{name}.rs"));
                    let nested = below.join(&name).join("mod.rs");
                    let explicit = explicit.map(|explicit| file.parent().unwrap().join(explicit));
                    let found = explicit.unwrap_or(if flat.exists() { flat } else { nested });
                    self.load(child(&name), found);
                    module.children.insert(name);
                }
                Item::Inline { name, tokens } => {
                    self.scan(child(&name), file.clone(), &below.join(&name), tokens);
                    module.children.insert(name);
                }
                Item::Use { leaves, public } => {
                    module.imports.extend(leaves.into_iter().map(|(target, name)| Import {
                        target,
                        name,
                        public,
                    }));
                }
                Item::Named(name) => drop(module.items.insert(name)),
                Item::Tokens(tokens) => paths(&tokens, &mut module.mentioned),
            }
        }
        self.by_path.insert(path, module);
    }

    /// Resolves a path in a module from the root of the crate; returns nothing for other crates and for locals.
    fn absolute(&self, module: &Module, path: &[String], imports: bool) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" | "super" => {
                let mut base = module.path.clone();
                let named = path.iter().position(|s| s != "self" && s != "super").unwrap_or(path.len());
                for _ in path[..named].iter().filter(|s| *s == "super") {
                    base.pop();
                }
                base.extend(path[named..].iter().cloned());
                Some(base)
            }
            child if module.children.contains(child) => Some([&module.path[..], path].concat()),
            name if imports => {
                let import = module.imports.iter().find(|import| import.name == name)?;
                let target = self.absolute(module, &import.target, false)?;
                Some([&target[..], rest].concat())
            }
            _ => None,
        }
    }

    /// Returns the module that defines a path, after following re-exports, and true if it is known to define it.
    fn resolve(&self, path: &[String], seen: &mut BTreeSet<Segments>) -> (&Module, bool) {
        let mut module = &self.by_path[&Vec::new()];
        seen.insert(path.to_vec());
        for (at, name) in path.iter().enumerate() {
            if module.children.contains(name) {
                module = &self.by_path[&path[..=at]];
                continue;
            }
            if module.items.contains(name) {
                return (module, true);
            }
            let onward = |target: Segments| [&target[..], &path[at + 1..]].concat();
            let named = module.imports.iter().filter(|import| import.name == *name);
            let targets: Vec<_> = named.filter_map(|i| self.absolute(module, &i.target, false)).collect();
            if let Some(target) = targets.into_iter().map(onward).find(|target| !seen.contains(target)) {
                return self.resolve(&target, seen);
            }
            for import in module.imports.iter().filter(|import| import.name == "*") {
                let Some(target) = self.absolute(module, &import.target, false) else { continue };
                let target = [&target[..], &path[at..]].concat();
                if !seen.contains(&target)
                    && let (found, true) = self.resolve(&target, seen)
                {
                    return (found, true);
                }
            }
            return (module, false);
        }
        (module, true)
    }
}

enum Item {
    Declared { name: String, path: Option<String> },
    Inline { name: String, tokens: Vec<TokenTree> },
    Use { leaves: Vec<(Segments, String)>, public: bool },
    Named(String),
    Tokens(Vec<TokenTree>),
}

fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Splits the tokens of a module into its items; an item ends with a brace group or a semicolon.
fn items(tokens: &[TokenTree]) -> Vec<Item> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        let braces = matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
            && !in_use(&tokens[start..at]);
        if braces || is(Some(token), ';') {
            found.extend(item(&tokens[start..=at]));
            start = at + 1;
        }
    }
    found
}

fn in_use(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|token| word(Some(token)).as_deref() == Some("use"))
        && !tokens.iter().any(|token| word(Some(token)).as_deref() == Some("fn"))
}

fn item(tokens: &[TokenTree]) -> Vec<Item> {
    let attributes: Vec<String> = tokens
        .windows(2)
        .filter(|pair| is(pair.first(), '#'))
        .map(|pair| pair[1].to_string().replace(' ', ""))
        .collect();
    if attributes.iter().any(|a| a.starts_with("[cfg(test") || a.starts_with("[cfg(all(test")) {
        return Vec::new();
    }
    let after = |wanted: &str| tokens.iter().position(|t| word(Some(t)).as_deref() == Some(wanted));
    if let Some(at) = after("use").filter(|_| in_use(tokens)) {
        let public = after("pub").is_some_and(|public| public < at);
        let mut leaves = Vec::new();
        use_tree(&tokens[at + 1..tokens.len() - 1], &[], &mut leaves);
        return vec![Item::Use { leaves, public }];
    }
    if let Some(at) = after("mod").filter(|at| tokens.len() == at + 3) {
        let name = word(tokens.get(at + 1)).unwrap();
        return match tokens.last() {
            Some(TokenTree::Group(group)) => {
                vec![Item::Inline { name, tokens: group.stream().into_iter().collect() }]
            }
            _ => {
                let path = attributes.iter().find_map(|a| a.strip_prefix("[path=\"")?.strip_suffix("\"]"));
                vec![Item::Declared { name, path: path.map(str::to_owned) }]
            }
        };
    }
    let kinds = ["struct", "enum", "fn", "trait", "type", "const", "static", "union", "macro_rules"];
    let name = tokens
        .windows(2)
        .find_map(|pair| kinds.contains(&word(pair.first())?.as_str()).then(|| word(pair.get(1))).flatten());
    let implements = after("impl").is_some_and(|at| after("fn").is_none_or(|function| at < function));
    let named = name.filter(|_| !implements).map(Item::Named);
    named.into_iter().chain([Item::Tokens(tokens.to_vec())]).collect()
}

/// Collects the leaves of a `use` tree: the path and its local name; a glob's name is `*`.
fn use_tree(tokens: &[TokenTree], before: &[String], leaves: &mut Vec<(Segments, String)>) {
    for branch in tokens.split(|token| is(Some(token), ',')).filter(|branch| !branch.is_empty()) {
        let mut path = before.to_vec();
        let mut alias = None;
        let mut at = 0;
        while let Some(token) = branch.get(at) {
            match token {
                TokenTree::Group(group) => {
                    use_tree(&group.stream().into_iter().collect::<Vec<_>>(), &path, leaves);
                    path.clear();
                }
                TokenTree::Ident(_) if word(Some(token)).as_deref() == Some("as") => {
                    alias = word(branch.get(at + 1));
                    at += 1;
                }
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => alias = Some("*".to_owned()),
                _ => {}
            }
            at += 1;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            leaves.push((path, alias.unwrap_or(last)));
        }
    }
}

/// Every path of two or more segments, groups and macros included.
fn paths(tokens: &[TokenTree], found: &mut Vec<Segments>) {
    let colons = |at: usize| is(tokens.get(at), ':') && is(tokens.get(at + 1), ':');
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        // `pub(in crate::x)` sets visibility and is no use.
        let visibility = at >= 1 && word(tokens.get(at - 1)).as_deref() == Some("pub");
        if let TokenTree::Group(group) = token
            && !visibility
        {
            paths(&group.stream().into_iter().collect::<Vec<_>>(), found);
        }
        let continued = at >= 1 && (is(tokens.get(at - 1), '.') || (at >= 2 && colons(at - 2)));
        if word(Some(token)).is_some() && colons(at + 1) && !continued {
            let mut path = vec![word(Some(token)).unwrap()];
            while colons(at + 1)
                && let Some(next) = word(tokens.get(at + 3))
            {
                path.push(next);
                at += 3;
            }
            if let Some(TokenTree::Group(group)) = tokens.get(at + 3).filter(|_| colons(at + 1))
                && group.delimiter() == Delimiter::Brace
            {
                let mut leaves = Vec::new();
                use_tree(&group.stream().into_iter().collect::<Vec<_>>(), &path, &mut leaves);
                found.extend(leaves.into_iter().map(|(path, _)| path));
                at += 3;
            } else {
                found.push(path);
            }
        }
        at += 1;
    }
}
