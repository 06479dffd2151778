//! The recipes for common tools, each run against a fake that accepts exactly its command line, and against Terraform itself
//! where it is installed.

use crate::hooks::{script, stamp, table};
use backends::{
    exec::{ExecTarget, Program},
    hooks::HookRegistry,
};
use engine::{ActionError, Class, Probe};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use workflows::platform::{CallMetadata, Hook, Hooks, codes};

/// Stores workspaces as folders with the step and the arguments in a file.
const TERRAFORM: &str = r#"
[[ $1 == -chdir=/modules/network ]] || { echo "no -chdir" >&2; exit 99; }
shift
at=$STATE/$(cat $STATE/selected 2>/dev/null || echo default)
case "$*" in
"init -input=false -no-color") ;;
"workspace list -no-color") echo "  default"; { ls $STATE/spaces 2>/dev/null || true; } | sed 's/^/* /' ;;
"workspace new -no-color acme--it") mkdir -p $STATE/spaces/acme--it; echo spaces/acme--it > $STATE/selected ;;
"workspace select -no-color acme--it") [[ -d $STATE/spaces/acme--it ]] || exit 1; echo spaces/acme--it > $STATE/selected ;;
"workspace select -no-color default") echo default > $STATE/selected ;;
"workspace delete -no-color acme--it") [[ -z $(ls $STATE/spaces/acme--it) ]] || exit 1; rmdir $STATE/spaces/acme--it ;;
"output -no-color -json")
    if [[ -f $at/made ]]; then jq '{step: {value: .step}, vlan: {value: .arguments.vlan}}' $at/made; else echo '{}'; fi ;;
"apply -input=false -no-color -auto-approve -lock-timeout=60s -var-file="*.tfvars.json)
    jq . "${6#-var-file=}" > $at/made; die ;;
"plan -input=false -no-color -detailed-exitcode -lock-timeout=60s -var-file="*.tfvars.json)
    [[ -f $at/made ]] && cmp -s <(jq -S . $at/made) <(jq -S . "${6#-var-file=}") || exit 2 ;;
"plan -input=false -no-color -lock=false -var-file="*.tfvars.json) ;;
"plan -input=false -no-color -lock=false -destroy -var-file="*.tfvars.json) ;;
"destroy -input=false -no-color -auto-approve -lock-timeout=60s -var-file="*.tfvars.json) rm -f $at/made; die ;;
*) echo "no such command: $*" >&2; exit 99 ;;
esac
"#;

/// Stores the result of the play in a file.
const ANSIBLE: &str = r#"
[[ $ANSIBLE_STDOUT_CALLBACK == default && $ANSIBLE_NOCOLOR == 1 ]] || exit 99
[[ $1 == --inventory && $2 == /etc/hosts && $3 == --extra-vars && $4 == @*.json ]] || { echo "no: $*" >&2; exit 99; }
variables=${4#@}
shift 4
case "$*" in
"/plays/it.yml") check= ;;
"--check /plays/it.yml" | "--check --diff /plays/it.yml") check=yes ;;
*) echo "no such command: $*" >&2; exit 99 ;;
esac
if [[ $(jq -r .state $variables) == present ]]; then
    cmp -s $STATE/made <(jq -S .arguments $variables) && changed=0 || changed=1
    [[ -n $check ]] || jq -S .arguments $variables > $STATE/made
else
    [[ -f $STATE/made ]] && changed=1 || changed=0
    [[ -n $check ]] || rm -f $STATE/made
fi
echo "PLAY [all] ****"
echo
echo "PLAY RECAP ****"
echo "node-1                     : ok=2    changed=$changed    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0   "
[[ -n $check ]] || die
"#;

/// Stores a release: its label and its values.
const HELM: &str = r#"
case "$*" in
"status acme-it --namespace t-acme --output json")
    [[ -f $STATE/made ]] || { echo "Error: release: not found" >&2; exit 1; }
    echo '{"name":"acme-it","info":{"status":"deployed"}}' ;;
"get metadata acme-it --namespace t-acme --output json") jq -n --arg s "$(cat $STATE/made)" '{labels: {"tenure-step": $s}}' ;;
"upgrade acme-it /charts/it --install --namespace t-acme --values "*.json" --labels tenure-step="*" --atomic --wait --timeout 28s")
    jq -e '.vlan == 120' "$8" >/dev/null || exit 99
    echo "${10#tenure-step=}" > $STATE/made; die ;;
"upgrade acme-it /charts/it --install --namespace t-acme --values "*.json" --labels tenure-step="*" --dry-run=server") ;;
"uninstall acme-it --namespace t-acme --ignore-not-found --wait --timeout 28s") rm -f $STATE/made; die ;;
*) echo "no such command: $*" >&2; exit 99 ;;
esac
"#;

/// Stores an application: its label. It is synced at the second read, and gone at the second read after its deletion.
const ARGO: &str = r#"
look() { [[ -f $STATE/$1 ]] || { touch $STATE/$1; return 1; }; }
case "$*" in
"app get acme-it --output json")
    if [[ -f $STATE/deleted ]] && look gone; then rm -f $STATE/made $STATE/deleted $STATE/gone $STATE/synced; fi
    [[ -f $STATE/made ]] || { echo 'rpc error: code = NotFound desc = applications "acme-it" not found' >&2; exit 20; }
    if look synced; then sync=Synced health=Healthy; else sync=OutOfSync health=Progressing; fi
    [[ -f $STATE/deleted ]] && at='"2026-01-01T00:00:00Z"' || at=null
    jq -n --arg s "$(cat $STATE/made)" --arg y $sync --arg h $health --argjson at "$at" \
        '{metadata: {labels: {"tenure-step": $s}, deletionTimestamp: $at},
          status: {sync: {status: $y, revision: "abc"}, health: {status: $h}}}' ;;
"app create acme-it --upsert --repo https://git.example/it --path deploy --revision HEAD --dest-server https://eu-1.example \
--dest-namespace t-acme --label tenure-step="*" --sync-policy automated --auto-prune")
    echo "${16#tenure-step=}" > $STATE/made; die ;;
"app delete acme-it --cascade --yes") touch $STATE/deleted; die ;;
*) echo "no such command: $*" >&2; exit 99 ;;
esac
"#;

/// A recipe with its tool, and a folder for the tool's state.
struct Recipe {
    hooks: HookRegistry,
    folder: tempfile::TempDir,
    arguments: Value,
    /// True if a created object names the step that created it.
    marks: bool,
}

fn recipes() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/recipes").into()
}

impl Recipe {
    /// Uses a fake tool, which can be made to die after its effect.
    fn standing_in(recipe: &str, tool: &str, text: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir_all(&state).unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        let die = "die() { [[ ! -f $STATE/die ]] || { rm $STATE/die; exit 1; }; }";
        let tool_at =
            script(folder.path(), &format!("set -euo pipefail\nSTATE={}\n{die}\n{text}", state.display()));
        fs::rename(tool_at, folder.path().join("bin").join(tool)).unwrap();
        let path = format!("export PATH={}:$PATH", folder.path().join("bin").display());
        Self::with(folder, recipe, &path, arguments)
    }

    fn with(folder: tempfile::TempDir, recipe: &str, before: &str, arguments: &[&str]) -> Self {
        let hook = recipes().join(recipe).join("hook.sh");
        let text = format!("{before}\nexec {} \"$@\"", hook.display());
        let mut target = ExecTarget::new(script(folder.path(), &text));
        target.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        target.dry_runs = recipe != "argo-cd";
        target.environment = vec!["PATH".into(), "HOME".into()];
        let hooks = table("it", Program::connect(&target).unwrap());
        Self { hooks, folder, arguments: json!({ "vlan": 120 }), marks: recipe != "ansible" }
    }

    fn hook(&self) -> Hook {
        Hook { name: "it".into(), tenant: "acme".into(), arguments: self.arguments.clone() }
    }

    /// Repeats the call until it is no longer pending.
    async fn act(&self, stamp: &CallMetadata) -> Result<Value, ActionError> {
        for _ in 0..10 {
            let hook = self.hook();
            let answer = if stamp.undo {
                self.hooks.undo(&hook, stamp).await
            } else {
                self.hooks.run(&hook, stamp).await
            };
            match answer {
                Err(ActionError { class: Class::Pending { .. }, .. }) => {}
                other => return other,
            }
        }
        panic!("it is at work for ever");
    }

    async fn probe(&self, stamp: &CallMetadata) -> Probe<Value> {
        self.hooks.probe(&self.hook(), stamp).await.unwrap()
    }

    /// Checks the guarantees of every recipe, whatever its tool.
    async fn keeps_its_promise(&self) {
        let (run, undo) = (stamp("e/S/1/0", false), stamp("e/S/1/0", true));
        assert_eq!(self.probe(&run).await, Probe::NotDone);
        assert!(matches!(self.probe(&undo).await, Probe::Done(_)), "there is nothing to undo");
        self.act(&undo).await.unwrap();
        self.act(&run.as_dry_run()).await.unwrap();
        assert_eq!(self.probe(&run).await, Probe::NotDone, "a dry run does nothing");

        let output = self.act(&run).await.unwrap();
        let done = self.probe(&run).await;
        assert!(matches!(done, Probe::Done(_)), "{done:?}");
        let again = self.act(&run).await.unwrap();
        if self.marks {
            assert_eq!(again, output, "same answer as before");
        }
        assert_eq!(self.probe(&undo).await, Probe::NotDone);

        if self.marks {
            let error = self.act(&stamp("e/OTHER/1/0", false)).await.unwrap_err();
            assert_eq!(
                (error.class, error.code.as_str()),
                (Class::Permanent, codes::OBJECT_FOREIGN),
                "{error}"
            );
            let left = self.act(&stamp("e/OTHER/1/0", true)).await.unwrap();
            assert!(left.get("left").is_some(), "{left}");
            assert!(
                matches!(self.probe(&run).await, Probe::Done(_)),
                "another step's undo has no effect on it"
            );
        }

        self.act(&undo).await.unwrap();
        self.act(&undo).await.unwrap();
        assert!(matches!(self.probe(&undo).await, Probe::Done(_)));
        assert_eq!(self.probe(&run).await, Probe::NotDone);
    }

    /// The tool dies after its effect.
    async fn asks_what_became_of_it(&self) {
        let state = self.folder.path().join("state");
        for undo in [false, true] {
            let stamp = stamp("e/S/1/0", undo);
            fs::write(state.join("die"), "").unwrap();
            let error = self.act(&stamp).await.unwrap_err();
            assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::NO_ANSWER), "{error}");
            let mut became = self.probe(&stamp).await;
            for _ in 0..3 {
                became = if became == Probe::Running { self.probe(&stamp).await } else { became };
            }
            // An interrupted change is started again.
            if became == Probe::NotDone {
                self.act(&stamp).await.unwrap();
                became = self.probe(&stamp).await;
            }
            assert!(matches!(became, Probe::Done(_)), "{became:?}");
        }
    }
}

#[tokio::test]
async fn the_recipe_for_terraform_fulfils_the_contract_of_hooks() {
    let recipe = Recipe::standing_in("terraform", "terraform", TERRAFORM, &["/modules/network"]);
    recipe.keeps_its_promise().await;
    recipe.asks_what_became_of_it().await;
}

#[tokio::test]
async fn the_recipe_for_ansible_fulfils_the_contract_of_hooks() {
    let recipe =
        Recipe::standing_in("ansible", "ansible-playbook", ANSIBLE, &["/plays/it.yml", "/etc/hosts"]);
    recipe.keeps_its_promise().await;
    recipe.asks_what_became_of_it().await;
}

#[tokio::test]
async fn the_recipe_for_helm_fulfils_the_contract_of_hooks() {
    let recipe = Recipe::standing_in("helm", "helm", HELM, &["/charts/it"]);
    recipe.keeps_its_promise().await;
    recipe.asks_what_became_of_it().await;
}

#[tokio::test]
async fn the_recipe_for_argo_cd_fulfils_the_contract_of_hooks() {
    let mut recipe = Recipe::standing_in("argo-cd", "argocd", ARGO, &[]);
    recipe.arguments = json!({
        "repo": "https://git.example/it", "path": "deploy", "cluster": "https://eu-1.example", "namespace": "t-acme",
    });
    recipe.keeps_its_promise().await;
    recipe.asks_what_became_of_it().await;
}

/// Uses the real tool, with the module of the recipe. Skipped where it is not installed.
#[tokio::test]
async fn the_recipe_for_terraform_works_with_the_real_terraform() {
    let Ok(version) = std::process::Command::new("terraform").arg("version").output() else {
        println!("skipped: terraform is not here; install it to have its recipe tried with it");
        return;
    };
    assert!(version.status.success());
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("module");
    fs::create_dir_all(&module).unwrap();
    fs::copy(recipes().join("terraform/module/main.tf"), module.join("main.tf")).unwrap();
    let at = module.display().to_string();

    Recipe::with(folder, "terraform", "", &[&at]).keeps_its_promise().await;
}

/// Every shipped recipe is executable and listed.
#[test]
fn every_recipe_is_listed_and_can_be_started() {
    use std::os::unix::fs::PermissionsExt;
    let index = fs::read_to_string(recipes().join("README.md")).unwrap();
    let mut found = 0;
    for entry in fs::read_dir(recipes()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().into_string().unwrap();
        assert!(index.contains(&format!("[{name}]({name}/)")), "{name}");
        let programs = ["hook.sh", "diagnosis.sh"].map(|program| entry.path().join(program));
        let program = programs.iter().find(|program| program.is_file()).unwrap();
        let mode = fs::metadata(program).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{name}");
        found += 1;
    }
    assert_eq!(found, 8);
}
