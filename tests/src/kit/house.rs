//! An operator's tool, as others write them: it stores objects in a folder, knows keys and epochs, and is called by a hook, as
//! a program (the binary `house`) or as a service. Tenure cannot distinguish it from a third-party tool.

use super::Trouble;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The result of a call: an exit code and the output.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// As in `sysexits.h`, and 80 for a late call.
    pub code: i32,
    /// The answer, or the description of the failure.
    pub said: Value,
}

fn done(output: Value) -> Verdict {
    Verdict { code: 0, said: json!({ "status": "done", "output": output }) }
}

fn refused(code: i32, named: &str, message: &str) -> Verdict {
    Verdict { code, said: json!({ "code": named, "message": message }) }
}

/// The folder of the tool.
#[derive(Clone, Debug)]
pub struct House {
    folder: PathBuf,
}

impl House {
    /// Creates the folder.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn at(folder: &Path) -> io::Result<Self> {
        for part in ["things", "keys", "fences"] {
            fs::create_dir_all(folder.join(part))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn thing(&self, name: &str) -> PathBuf {
        self.folder.join("things").join(format!("{name}.json"))
    }

    fn kept(&self, part: &str, name: &str) -> PathBuf {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.folder.join(part).join(plain)
    }

    /// Returns the object in the folder.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.thing(name)).ok()?).ok()
    }

    /// Puts an object into the folder, without the tool.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn put(&self, name: &str, thing: &Value) -> io::Result<()> {
        // Atomic: others read it without the lock.
        let beside = self.folder.join(format!("{name}.new"));
        fs::write(&beside, thing.to_string())?;
        fs::rename(beside, self.thing(name))
    }

    /// Removes an object from the folder, without the tool.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn take(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.thing(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets the fault of the program from now on.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn trouble(&self, next: Trouble) -> io::Result<()> {
        let told = match next {
            Trouble::LoseRequest => json!({ "what": "lose_request" }),
            Trouble::LoseAnswer => json!({ "what": "lose_answer" }),
            Trouble::Slow(span) => json!({ "what": "slow", "ms": span.as_millis() }),
            Trouble::Throttle(span) => json!({ "what": "throttle", "seconds": span.as_secs() }),
            Trouble::Deny => json!({ "what": "deny" }),
            Trouble::Garbage => json!({ "what": "garbage" }),
            Trouble::HalfDone => json!({ "what": "half_done" }),
            Trouble::NotSupported => json!({ "what": "not_supported" }),
            Trouble::Down | Trouble::Calm => json!({}),
        };
        fs::write(self.folder.join("trouble"), told.to_string())
    }

    /// Handles a request with the fault that the folder configures, as the program does; `None` where it dies instead of
    /// answering.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn troubled(&self, request: &Value) -> io::Result<Option<Verdict>> {
        let told: Value = fs::read(self.folder.join("trouble"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let changes = request["verb"] == "run" || request["verb"] == "undo";
        let what = told["what"].as_str().unwrap_or_default();
        match what {
            "lose_request" | "lose_answer" | "half_done" if changes => {
                self.trouble(Trouble::Calm)?;
                match what {
                    "lose_answer" => drop(self.answer(request)?),
                    // Takes effect without storing the key.
                    "half_done" => drop(self.act(request)?),
                    _ => {}
                }
                Ok(None)
            }
            "slow" => {
                std::thread::sleep(Duration::from_millis(told["ms"].as_u64().unwrap_or(0)));
                self.answer(request).map(Some)
            }
            "throttle" => {
                let said = json!({ "message": "slow down", "retry_after_seconds": told["seconds"] });
                Ok(Some(Verdict { code: 75, said }))
            }
            "deny" => Ok(Some(refused(77, "", "not permitted"))),
            "not_supported" => Ok(Some(refused(78, "", "there is no such thing here"))),
            "garbage" => Ok(Some(Verdict { code: 0, said: json!("{what?") })),
            _ => self.answer(request).map(Some),
        }
    }

    /// Handles a request.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn answer(&self, request: &Value) -> io::Result<Verdict> {
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let known = self.kept("keys", text("key"));
        let deed = request["arguments"].to_string();
        if text("verb") == "probe" {
            return Ok(self.probed(request, &known));
        }
        let fence = self.kept("fences", text("step"));
        let newest = fs::read_to_string(&fence).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let epoch = request["epoch"].as_u64().unwrap_or(0);
        if epoch < newest {
            return Ok(refused(80, "", "a later holder of the step has acted"));
        }
        if text("verb") == "dry_run" {
            let house = self.copy()?;
            let verdict = house.act(request);
            fs::remove_dir_all(&house.folder)?;
            return verdict;
        }
        fs::write(&fence, epoch.to_string())?;
        if let Ok(kept) = fs::read(&known) {
            let kept: Value = serde_json::from_slice(&kept)?;
            if kept["deed"] != json!(deed) {
                return Ok(refused(65, "call.key_reused", "the key was used for something else"));
            }
            return Ok(done(kept["output"].clone()));
        }
        let verdict = self.act(request)?;
        if verdict.code == 0 {
            fs::write(&known, json!({ "deed": deed, "output": verdict.said["output"] }).to_string())?;
        }
        Ok(verdict)
    }

    /// Returns the fate of a key, or the state of an object if the request asks for it.
    fn probed(&self, request: &Value, known: &Path) -> Verdict {
        let arguments = &request["arguments"];
        if arguments["op"] == "look" {
            return match self.read(arguments["thing"].as_str().unwrap_or_default()) {
                Some(thing) => done(thing),
                None => Verdict { code: 0, said: json!({ "status": "not_done" }) },
            };
        }
        let kept = fs::read(known).ok().and_then(|kept| serde_json::from_slice::<Value>(&kept).ok());
        match kept {
            Some(kept) => done(kept["output"].clone()),
            None => Verdict { code: 0, said: json!({ "status": "not_done" }) },
        }
    }

    fn copy(&self) -> io::Result<Self> {
        let copy = Self::at(&self.folder.join(format!("dry-{}", std::process::id())))?;
        for file in fs::read_dir(self.folder.join("things"))? {
            let file = file?;
            fs::copy(file.path(), copy.folder.join("things").join(file.file_name()))?;
        }
        Ok(copy)
    }

    fn act(&self, request: &Value) -> io::Result<Verdict> {
        let arguments = &request["arguments"];
        let name = arguments["thing"].as_str().unwrap_or_default();
        let there = self.read(name);
        let gone = |thing: &Value| arguments["uid"] != thing["uid"];
        match (arguments["op"].as_str().unwrap_or_default(), there) {
            ("make", None) => {
                let uid = format!("{}@{}", request["key"].as_str().unwrap_or_default(), self.next()?);
                let (tenant, step) = (&request["tenant"], &request["step"]);
                let thing =
                    json!({ "uid": uid, "tenant": tenant, "step": step, "amount": arguments["amount"] });
                self.put(name, &thing)?;
                Ok(done(thing))
            }
            ("make", Some(thing)) => {
                let same = thing["tenant"] == request["tenant"] && thing["amount"] == arguments["amount"];
                Ok(if same { done(thing) } else { refused(65, "object.foreign", "it is there and differs") })
            }
            ("change", None) => Ok(refused(65, "object.missing", "it is not there")),
            ("change", Some(thing)) if thing["amount"] != arguments["from"] => {
                Ok(refused(75, "object.changed", "it is not so any more"))
            }
            ("change", Some(mut thing)) => {
                thing["amount"] = arguments["to"].clone();
                self.put(name, &thing)?;
                Ok(done(thing))
            }
            ("remove", Some(thing)) if gone(&thing) => {
                Ok(refused(75, "object.changed", "it is another by now"))
            }
            ("remove", _) => {
                self.take(name)?;
                Ok(done(Value::Null))
            }
            _ => Ok(refused(64, "", "there is no such operation")),
        }
    }

    /// Counts the created objects, so that a new object differs from its predecessor of the same name.
    fn next(&self) -> io::Result<u64> {
        let file = self.folder.join("made");
        let next = fs::read_to_string(&file).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
        fs::write(file, next.to_string())?;
        Ok(next)
    }
}
