//! Books a hall: holds it, gets two approvals, and pays the deposit. After the payment there is no undo.

pub mod town;

use engine::{DAY, Outcome, Plan, Seat, Step, Subject, Workflow, act, approval, end};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{IntoStaticStr, VariantArray};
use town::{HoldHall, PayDeposit, ReleaseHall, Town};

/// The request, and the results of its steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Booking {
    pub hall: String,
    pub euros: u32,
    pub receipt: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    HoldingHall,
    AwaitingApproval,
    PayingDeposit,
    Booked,
    Declined,
    Lapsed,
}

impl Workflow for Booking {
    const NAME: &'static str = "booking";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::HoldingHall;
    type State = State;
    type Platform = Town;

    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let hall = self.hall.clone();
        match state {
            HoldingHall => {
                act(HoldHall { hall: hall.clone() }).undo(ReleaseHall { hall }).then(AwaitingApproval)
            }
            AwaitingApproval => approval([Seat::new("treasurer", 2)])
                .within(3 * DAY)
                .granted(PayingDeposit)
                .refused(Declined)
                .expired(Lapsed),
            PayingDeposit => act(PayDeposit { hall, euros: self.euros })
                .forward_only()
                .record(|me: &mut Self, receipt| me.receipt = Some(receipt))
                .then(Booked),
            Booked => end(Outcome::Completed),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            tenant: String::new(),
            name: format!("hall/{}", self.hall),
            guard: Some(format!("hall/{}", self.hall)),
        }
    }

    fn plan(&self) -> Plan {
        let decides = json!({ "book": self.hall, "euros": self.euros });
        Plan {
            title: format!("book {} for {} euros", self.hall, self.euros),
            decides,
            placement: json!(null),
        }
    }

    fn examples() -> Vec<Self> {
        vec![Self { hall: "town hall".into(), euros: 500, receipt: None }]
    }
}
