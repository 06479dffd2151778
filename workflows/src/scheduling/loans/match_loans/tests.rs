//! Tests of loan matching.

use super::*;
use crate::tenancy::{Allowance, WorkspaceClass};
use store::Timestamp;

/// A small deterministic random generator (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn name(n: usize) -> WorkspaceName {
    format!("w-{n}").parse().unwrap()
}

fn gpus() -> Resource {
    "gpu/H100".parse().unwrap()
}

fn random(dice: &mut Dice, cohort: &mut Cohort, count: usize) {
    for n in 0..count {
        let limit = |dice: &mut Dice| (dice.roll(3) > 0).then(|| dice.roll(12));
        let nominal = dice.roll(12);
        let allowance = Allowance { nominal, borrowing_limit: None, lending_limit: limit(dice) };
        let allowances = [(gpus(), allowance)].into();
        *cohort = cohort.clone().with_allowances(&name(n), WorkspaceClass::Batch, &allowances);
        let account = cohort.accounts.get_mut(&name(n)).unwrap();
        account.balances.get_mut(&gpus()).unwrap().used = dice.roll(20);
    }
}

/// Returns the most that lenders can lend to borrowers, by augmenting paths of one GPU each.
fn most(cohort: &Cohort, forbid: &dyn Fn(&WorkspaceName, &WorkspaceName) -> bool) -> u64 {
    let kind = gpus();
    let all: Vec<_> = cohort.balances(&kind).map(|(n, b)| (n.clone(), spare(&b), b.over_nominal())).collect();
    let count = all.len();
    let mut flow = vec![vec![0_u64; count]; count];
    let mut total = 0;
    'units: loop {
        for start in 0..count {
            let got: u64 = (0..count).map(|l| flow[l][start]).sum();
            if got == all[start].2 {
                continue;
            }
            // From a borrower to each possible lender, and from a lender to its borrowers.
            let mut to_lender: Vec<Option<usize>> = vec![None; count];
            let mut to_borrower: Vec<Option<usize>> = vec![None; count];
            let mut wave = vec![start];
            while let Some(borrower) = wave.pop() {
                for lender in 0..count {
                    let may = lender != borrower && !forbid(&all[lender].0, &all[borrower].0);
                    if !may || to_lender[lender].is_some() {
                        continue;
                    }
                    to_lender[lender] = Some(borrower);
                    if flow[lender].iter().sum::<u64>() < all[lender].1 {
                        let mut at = lender;
                        loop {
                            let borrower = to_lender[at].unwrap();
                            flow[at][borrower] += 1;
                            if borrower == start {
                                break;
                            }
                            at = to_borrower[borrower].unwrap();
                            flow[at][borrower] -= 1;
                        }
                        total += 1;
                        continue 'units;
                    }
                    for whose in 0..count {
                        if flow[lender][whose] > 0 && whose != start && to_borrower[whose].is_none() {
                            to_borrower[whose] = Some(lender);
                            wave.push(whose);
                        }
                    }
                }
            }
        }
        return total;
    }
}

fn apply(open: &[OpenLoan], settlement: &Settlement, next: &mut u64) -> Vec<OpenLoan> {
    let left = |loan: &OpenLoan| settlement.shrunk.get(&loan.number).copied().unwrap_or(loan.amount);
    let kept = open.iter().map(|loan| OpenLoan { amount: left(loan), ..loan.clone() });
    let mut after: Vec<_> = kept.filter(|loan| loan.amount > 0).collect();
    for opening in &settlement.opened {
        *next += 1;
        let workload = opening.instead_of.as_ref().map_or("fresh".into(), |loan| loan.workload.clone());
        after.push(OpenLoan {
            number: *next,
            lender: opening.lender.clone(),
            borrower: opening.borrower.clone(),
            workload,
            amount: opening.amount,
            protected_until: Timestamp(0),
            due: Timestamp(0),
        });
    }
    after
}

/// I-8, over 3,000 random changes: each borrower has its usage above the nominal quota on loan, and no lender lends more than its idle amount. No other
/// arrangement of loans could have covered the rest.
#[test]
fn loans_are_matched_up_to_the_limits_of_lenders() {
    let mut dice = Dice(7);
    for round in 0..300_u64 {
        let count = 2 + usize::try_from(dice.roll(4)).unwrap();
        let apart: BTreeSet<(usize, usize)> = (0..dice.roll(5))
            .map(|_| (usize::try_from(dice.roll(6)).unwrap(), usize::try_from(dice.roll(6)).unwrap()))
            .collect();
        let forbid = |a: &WorkspaceName, b: &WorkspaceName| {
            apart.iter().any(|(x, y)| (name(*x), name(*y)) == (a.clone(), b.clone()))
        };
        let mut cohort = Cohort::new("acme".parse().unwrap(), Timestamp(0));
        let (mut open, mut next) = (Vec::new(), 0);
        for _ in 0..10 {
            random(&mut dice, &mut cohort, count);
            let settlement = settle(&cohort, &gpus(), &open, None, &forbid);
            open = apply(&open, &settlement, &mut next);

            let sum =
                |of: &dyn Fn(&OpenLoan) -> bool| open.iter().filter(|l| of(l)).map(|l| l.amount).sum::<u64>();
            let uncovered: u64 = settlement.uncovered.values().sum();
            let mut wanted = 0;
            for (who, balance) in cohort.balances(&gpus()) {
                let over = settlement.uncovered.get(who).copied().unwrap_or(0);
                assert_eq!(
                    sum(&|loan| loan.borrower == *who) + over,
                    balance.over_nominal(),
                    "round {round}"
                );
                assert!(sum(&|loan| loan.lender == *who) <= spare(&balance), "round {round}");
                wanted += balance.over_nominal();
            }
            let lenders = open.iter().filter_map(|loan| Some((loan.lender.workspace()?, &loan.borrower)));
            assert!(lenders.into_iter().all(|(lender, borrower)| !forbid(lender, borrower)), "round {round}");
            assert_eq!(wanted - uncovered, most(&cohort, &forbid), "round {round}");
            let again = settle(&cohort, &gpus(), &open, None, &forbid);
            assert!(again.shrunk.is_empty() && again.opened.is_empty(), "settled twice: {again:?}");
        }
    }
}
