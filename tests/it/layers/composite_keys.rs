//! How composite keys are built, read from the sources.

use super::sources;

/// Fragments of a statement that builds a key.
const KEYS: [&str; 10] = [
    "fn key(",
    "fn id(",
    "_key(",
    "let key",
    "let id ",
    "let prefix",
    "documents(",
    "Key::new(",
    ".get::<",
    "view.delete::<",
];

/// Crates whose documents have keys. Backends follow the naming rules of other systems.
const CRATES: [&str; 4] = ["store/src", "engine/src", "workflows/src", "api/src"];

/// Returns the strings of `code` that join values by a `/`, each with the statement before it.
fn joined(code: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("format!(") {
        let text = code[at + "format!(".len()..].trim_start();
        let Some(text) = text.strip_prefix('"').and_then(|text| text.split('"').next()) else { continue };
        if text.contains("}/") {
            let start = code[..at].rfind([';', '}']).map_or(0, |start| start + 1);
            found.push((&code[start..at], text));
        }
    }
    found
}

fn is_key((statement, text): &(&str, &str)) -> bool {
    // A text for display is not stored.
    !statement.contains("json!(")
        && !text.contains("//")
        && !text.starts_with('/')
        && KEYS.iter().any(|word| statement.contains(word))
}

/// Each key has one owner, whatever characters names and external ids contain.
#[test]
fn every_key_of_several_parts_is_a_composite_key() {
    let mut glued = Vec::new();
    for dir in CRATES {
        for (path, code) in sources(dir) {
            // The key module itself, the stores' conformance cases, and the folder of files.
            if ["composite_key.rs", "/conformance/", "key_folder.rs", "tests.rs"]
                .iter()
                .any(|not| path.contains(not))
            {
                continue;
            }
            let keys = joined(&code).into_iter().filter(is_key);
            glued.extend(keys.map(|(_, text)| format!("{path}: {text:?}")));
        }
    }
    assert!(glued.is_empty(), "use store::CompositeKey for these:\n{}", glued.join("\n"));
}

#[test]
fn a_concatenated_key_is_found_wherever_it_is_built() {
    let made = [
        "fn id(&self) -> String {\n format!(\"{}/{}\", self.tenant, self.name)\n}",
        "let key = format!(\n\"event/{bound}/{}\", event.id);",
        "view.get::<Held>(&format!(\"{tenant}/{id}\"))?;",
        "store.documents(COLLECTION, &format!(\"{id}/\"), None, 10)",
    ];
    for code in made {
        assert!(joined(code).iter().any(is_key), "{code}");
    }
    assert!(!joined("let why = format!(\"{a}/{b}\");").iter().any(is_key), "a sentence is not a key");
}
