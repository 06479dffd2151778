//! Separation of people, compared with a graph of the users of each credential.

use crate::tests::random::Random;
use crate::{
    Ballot, Claim, CredentialAct, CredentialRecords, Person, PlanDigest, Provenance, Refusal, Ruling, Seat,
    Separation, TieKind, Verdict, Vote,
};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// The requester, voters, and other people, who do not vote.
const NAMES: [&str; 8] = ["rita", "ada", "bob", "carl", "dan", "tim", "tom", "una"];
const VOTERS: [&str; 4] = ["ada", "bob", "carl", "dan"];

/// A credential as a server stores it, and as a node of the graph.
struct Credential {
    owner: &'static str,
    claim: Claim,
    issued: Option<CredentialAct>,
    /// The credentials that made or saw it.
    seen_by: Vec<usize>,
}

/// The records of a user, and the facts for the graph.
#[derive(Default)]
struct User {
    created: Option<CredentialAct>,
    claimed_at: Option<Timestamp>,
    grants: Vec<CredentialAct>,
    /// The credential that created the user, until they claim their own.
    creator: Option<usize>,
    /// The credentials that granted roles since then.
    granters: Vec<usize>,
    /// The valid credentials.
    open: Vec<usize>,
}

#[derive(Default)]
struct World {
    now: u64,
    users: BTreeMap<&'static str, User>,
    credentials: Vec<Credential>,
}

impl World {
    /// A user who exists from the start, as the first administrator does.
    fn root(&mut self, name: &'static str) {
        let first = self.keep(name, Claim::Oidc, None, Vec::new());
        self.users.insert(name, User { open: vec![first], ..User::default() });
    }

    fn keep(
        &mut self,
        owner: &'static str,
        claim: Claim,
        issued: Option<CredentialAct>,
        by: Vec<usize>,
    ) -> usize {
        self.credentials.push(Credential { owner, claim, issued, seen_by: by });
        self.credentials.len() - 1
    }

    /// Returns the provenance of a credential, as the server derives it from its records.
    fn provenance(&self, credential: usize) -> Provenance {
        let Credential { owner, claim, issued, .. } = &self.credentials[credential];
        let user = &self.users[owner];
        let records = CredentialRecords {
            created: user.created.clone(),
            issued: issued.clone(),
            claimed_at: user.claimed_at,
            claim: *claim,
            grants: user.grants.clone(),
        };
        Provenance::of(owner, &records)
    }

    fn act(&self, by: usize) -> CredentialAct {
        self.provenance(by).act(self.credentials[by].owner, Timestamp(self.now))
    }

    fn create(&mut self, name: &'static str, by: usize) {
        let act = self.act(by);
        let first = self.keep(name, Claim::Issued, Some(act.clone()), vec![by]);
        let user = User { created: Some(act), creator: Some(by), open: vec![first], ..User::default() };
        self.users.insert(name, user);
    }

    fn reset(&mut self, name: &'static str, by: usize) {
        let seen_by = [by].into_iter().chain(self.users[name].creator).collect();
        let drawn = self.keep(name, Claim::Issued, Some(self.act(by)), seen_by);
        self.users.get_mut(name).unwrap().open.push(drawn);
    }

    fn claim(&mut self, name: &'static str, claim: Claim, by: Option<usize>) {
        let issued = by.map(|by| self.act(by));
        let own = self.keep(name, claim, issued, Vec::new());
        let user = self.users.get_mut(name).unwrap();
        user.claimed_at = Some(Timestamp(self.now));
        user.creator = None;
        user.granters.clear();
        user.open = vec![own];
    }

    fn grant(&mut self, name: &'static str, by: usize) {
        let act = self.act(by);
        let user = self.users.get_mut(name).unwrap();
        user.grants.push(act);
        user.granters.push(by);
    }

    /// Applies one random act of an existing user, with one of their credentials.
    fn step(&mut self, random: &mut Random) {
        self.now += 1;
        let there: Vec<&'static str> = self.users.keys().copied().collect();
        let actor = *random.pick(&there);
        let by = *random.pick(&self.users[actor].open);
        let name = *random.pick(&NAMES);
        match (self.users.contains_key(name), random.below(8)) {
            (false, _) => self.create(name, by),
            (true, 0 | 1) => self.reset(name, by),
            (true, 2) => self.claim(name, Claim::Enrolled, Some(by)),
            (true, 3) => self.claim(name, Claim::Oidc, None),
            // Roles and groups are treated the same.
            (true, 4 | 5) => self.grant(name, by),
            (true, _) => {}
        }
    }

    /// Returns everyone who can have the credential: the owners of all credentials from which it can be reached.
    fn reach(&self, credential: usize) -> BTreeSet<&'static str> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![credential]);
        while let Some(place) = next.pop() {
            if seen.insert(place) {
                next.extend(&self.credentials[place].seen_by);
            }
        }
        seen.into_iter().map(|place| self.credentials[place].owner).collect()
    }

    /// Returns everyone who may have granted its user a role.
    fn entitlers(&self, credential: usize) -> BTreeSet<&'static str> {
        let owner = self.credentials[credential].owner;
        let mut all: BTreeSet<_> =
            self.users[owner].granters.iter().flat_map(|granter| self.reach(*granter)).collect();
        all.remove(owner);
        all
    }

    /// Returns true if two credentials belong to two people, by the graph. `both`: neither may have granted the other
    /// a role.
    fn separate(&self, voter: usize, other: usize, both: bool) -> bool {
        let (mine, theirs) = (self.reach(voter), self.reach(other));
        let owes = |one, people: &BTreeSet<&str>| !self.entitlers(one).is_disjoint(people);
        mine.is_disjoint(&theirs) && !owes(voter, &theirs) && !(both && owes(other, &mine))
    }

    fn person(&self, credential: usize) -> Person {
        let owner = self.credentials[credential].owner;
        Person::new(owner, ["ops"]).with_provenance(Some(Box::new(self.provenance(credential))))
    }
}

fn digest() -> PlanDigest {
    PlanDigest("d".into())
}

fn vote_of(person: Person) -> Vote {
    Vote::new(person, Verdict::Approve, "", Timestamp(1_000_000))
}

#[test]
fn a_vote_counts_only_if_no_person_can_act_as_two_of_the_requester_and_the_voters() {
    let (mut counted, mut refused, mut granted) = (0, 0, 0);
    for seed in 1..=4_000 {
        let mut random = Random::new(seed);
        let mut world = World::default();
        world.root("una");
        world.root("tom");
        (0..random.below(45)).for_each(|_| world.step(&mut random));
        let Some(asker) = world.users.get("rita").map(|user| *random.pick(&user.open)) else { continue };
        let asked = [world.person(asker)];
        let mut ballot = Ballot::open(digest(), vec![Seat::new("ops", 4)], Timestamp(0), None);
        let mut sitting: Vec<usize> = Vec::new();

        for name in VOTERS {
            let Some(user) = world.users.get(name) else { continue };
            let credential = *random.pick(&user.open);
            let lawful = world.separate(credential, asker, false)
                && sitting.iter().all(|other| world.separate(credential, *other, true));
            let taken = ballot.cast_among(vote_of(world.person(credential)), &digest(), &asked);

            match &taken {
                Ok(()) => assert!(lawful, "seed {seed}: {name} counted"),
                Err(Refusal::NotSeparate { tie, .. }) => {
                    assert!(!lawful, "seed {seed}: {name} was refused: {tie:?}");
                    granted += usize::from(tie.kind == TieKind::Grant);
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
            if taken.is_ok() {
                sitting.push(credential);
            }
            counted += usize::from(lawful);
            refused += usize::from(!lawful);
        }
        // The order makes no difference: any voter may have been the last.
        assert_eq!(ballot.votes.len(), sitting.len());
    }
    assert!(counted > 500 && refused > 500 && granted > 50, "{counted} {refused} {granted}");
}

fn made_by(name: &str, by: &str) -> Person {
    let created = CredentialAct { by: by.into(), at: Timestamp(1), controlled_by: Some(BTreeSet::new()) };
    let records =
        CredentialRecords { created: Some(created.clone()), issued: Some(created), ..Default::default() };
    let provenance = Provenance::of(name, &records);
    Person::new(name, ["ops"]).with_provenance(Some(Box::new(provenance)))
}

fn ballot() -> Ballot {
    Ballot::open(digest(), vec![Seat::new("ops", 2)], Timestamp(0), None)
}

#[test]
fn without_enforced_separation_a_vote_counts_and_records_its_tie() {
    let asked = [Person::new("admin", ["admin"])];
    let lenient = |person| Vote { separation: Separation::NotEnforced, ..vote_of(person) };
    let mut ballot = ballot();

    ballot.cast_among(lenient(made_by("ada", "admin")), &digest(), &asked).unwrap();
    ballot.cast_among(lenient(Person::new("bob", ["ops"])), &digest(), &asked).unwrap();

    assert_eq!(ballot.ruling, Some(Ruling::Granted));
    let tie = ballot.votes[0].tie.clone().unwrap();
    assert_eq!(tie.describe("ada"), "admin created, issued or reset the credential of ada");
    assert_eq!(ballot.votes[1].tie, None, "bob is separate");
}

#[test]
fn records_of_an_earlier_version_count_as_made_by_one_unknown_administrator() {
    let old = |name: &str| {
        let created = CredentialAct { by: format!("maker-of-{name}"), at: Timestamp(1), controlled_by: None };
        let records = CredentialRecords { created: Some(created), ..Default::default() };
        let provenance = Provenance::of(name, &records);
        Person::new(name, ["ops"]).with_provenance(Some(Box::new(provenance)))
    };
    let mut ballot = ballot();

    ballot.cast_among(vote_of(old("ada")), &digest(), &[Person::new("rita", ["ops"])]).unwrap();
    let second = ballot.cast_among(vote_of(old("bob")), &digest(), &[Person::new("rita", ["ops"])]);

    assert!(matches!(second, Err(Refusal::NotSeparate { tie, .. }) if tie.by == Provenance::UNKNOWN));
    ballot.cast_among(vote_of(made_by("carl", "una")), &digest(), &[Person::new("rita", ["ops"])]).unwrap();
    assert_eq!(
        ballot.ruling,
        Some(Ruling::Granted),
        "one counts, together with a person whose creator is known"
    );
}

#[test]
fn a_refusal_needs_no_second_person() {
    let mut ballot = ballot();
    let no = Vote { verdict: Verdict::Refuse, reason: "no".into(), ..vote_of(made_by("ada", "admin")) };

    ballot.cast_among(no, &digest(), &[Person::new("admin", ["admin"])]).unwrap();

    assert_eq!(ballot.ruling, Some(Ruling::Refused));
}

#[test]
fn a_vote_stored_before_provenance_can_be_read_and_is_written_unchanged() {
    let text = r#"{"person":{"name":"ada","roles":["ops"]},"verdict":"approve","reason":"","at":7}"#;
    let vote: Vote = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&vote).unwrap(), text);
}
