//! A small service that locks, and its tests.
//!
//! The service takes a `Redlock` and contains no test code. The tests pass a `Redlock` over fake nodes, in simulated
//! time. Minutes of hanging, crashing and waiting pass in milliseconds, and the same seed gives the same run.
#![allow(clippy::unwrap_used)] // a panic fails the test

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::runtime::Runtime;
use redlock_core::{Error, Redlock};
use redlock_testkit::sim::{Process, Simulation};
use redlock_testkit::{FakeNode, fake_nodes};

/// Charges each invoice once, on any number of machines.
struct Billing {
    redlock: Redlock,
    bank: Bank,
}

impl Billing {
    /// If the lock is lost, the charge is canceled, so that no other machine charges at the same time.
    async fn charge(&self, invoice: u32) -> Result<(), Error> {
        let work = async |_lease| {
            if !self.bank.has_charged(invoice) {
                self.bank.charge(invoice).await;
            }
        };
        Ok(self.redlock.lock(format!("invoice:{invoice}"), Duration::from_secs(6)).run(work).await?)
    }
}

/// A bank that takes three seconds and books at the end of them.
#[derive(Clone)]
struct Bank {
    runtime: Arc<dyn Runtime>,
    booked: Arc<Mutex<Vec<u32>>>,
}

impl Bank {
    async fn charge(&self, invoice: u32) {
        self.runtime.sleep(Duration::from_secs(3)).await;
        self.booked.lock().unwrap().push(invoice);
    }

    fn has_charged(&self, invoice: u32) -> bool {
        self.booked.lock().unwrap().contains(&invoice)
    }

    fn charges(&self) -> usize {
        self.booked.lock().unwrap().len()
    }
}

/// Five lock servers, and the machines that run the service.
struct World {
    simulation: Simulation,
    nodes: Vec<FakeNode>,
    bank: Bank,
}

/// A machine with the service on it.
struct Machine {
    process: Process,
    billing: Arc<Billing>,
}

impl World {
    fn new(seed: u64) -> Self {
        let simulation = Simulation::new(seed);
        let runtime = simulation.process("elsewhere").runtime();
        let nodes = fake_nodes(5, Arc::clone(&runtime));
        Self { simulation, nodes, bank: Bank { runtime, booked: Arc::default() } }
    }

    fn machine(&self, name: &str) -> Machine {
        let process = self.simulation.process(name);
        let nodes = self.nodes.iter().cloned().map(Into::into);
        let redlock = Redlock::builder(process.clone()).nodes(nodes).build().unwrap();
        Machine { process, billing: Arc::new(Billing { redlock, bank: self.bank.clone() }) }
    }

    /// Charges an invoice and waits for the end.
    fn charge(&self, machine: &Machine, invoice: u32) -> Result<(), Error> {
        let billing = Arc::clone(&machine.billing);
        self.simulation.block_on(&machine.process, async move { billing.charge(invoice).await })
    }
}

impl Machine {
    /// Starts to charge an invoice. The charge continues as time passes.
    fn begin(&self, invoice: u32) {
        let billing = Arc::clone(&self.billing);
        self.process.spawn(Box::pin(async move { drop(billing.charge(invoice).await) }));
    }
}

fn main() {
    let world = World::new(1);
    let (one, two) = (world.machine("one"), world.machine("two"));
    one.begin(42);
    two.begin(42);
    world.simulation.run_for(Duration::from_secs(10));
    assert_eq!(1, world.bank.charges(), "two machines at once");
    assert!(world.nodes.iter().all(|node| node.inner().is_empty()), "no key is left");
    assert!(world.charge(&one, 42).is_ok() && world.bank.charges() == 1, "a repeated charge has no effect");
}

#[cfg(test)]
mod tests {
    use redlock_core::ErrorKind;
    use redlock_testkit::Fault;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn healthy_nodes() {
        main();
    }

    #[test]
    fn a_hung_majority_charges_nothing_and_leaves_no_key() {
        let world = World::new(2);
        let machine = world.machine("one");
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::hang()));
        assert_eq!(ErrorKind::NoQuorum, world.charge(&machine, 42).unwrap_err().kind());
        assert_eq!(0, world.bank.charges());

        let hung = world.nodes[..3].to_vec();
        world.simulation.block_on(&machine.process, async move {
            for node in hung {
                node.resume().await;
            }
        });
        world.charge(&machine, 42).unwrap();
        world.simulation.run_for(SECOND);
        assert!(world.nodes.iter().all(|node| node.inner().is_empty()));
    }

    #[test]
    fn a_lost_lease_stops_the_charge() {
        let world = World::new(3);
        let machine = world.machine("one");
        machine.begin(42);
        world.simulation.run_for(SECOND);
        world.nodes[..3].iter().for_each(|node| node.inner().clear());
        world.simulation.run_for(10 * SECOND);
        assert_eq!(0, world.bank.charges());
    }

    #[test]
    fn a_paused_machine_does_not_charge_an_invoice_again() {
        let world = World::new(4);
        let (one, two) = (world.machine("one"), world.machine("two"));
        one.begin(42);
        world.simulation.run_for(SECOND);
        one.process.pause();
        world.charge(&two, 42).unwrap();
        one.process.resume();
        world.simulation.run_for(10 * SECOND);
        assert_eq!(1, world.bank.charges());
    }

    #[test]
    fn a_crashed_machine_is_replaced_after_the_ttl() {
        let world = World::new(5);
        let (one, two) = (world.machine("one"), world.machine("two"));
        one.begin(42);
        world.simulation.run_for(SECOND);
        one.process.kill();
        world.charge(&two, 42).unwrap();
        assert_eq!(1, world.bank.charges());
    }

    #[test]
    fn the_data_loss_of_a_minority_changes_nothing() {
        let world = World::new(6);
        let machine = world.machine("one");
        machine.begin(42);
        world.simulation.run_for(SECOND);
        for node in &world.nodes[..2] {
            node.crash();
            node.inner().clear();
        }
        world.simulation.run_for(10 * SECOND);
        assert_eq!(1, world.bank.charges());
    }
}
