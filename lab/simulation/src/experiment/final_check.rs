//! The final check: a client that requests each resource once, while no other client does.

use redlock_core::node::{Begun, Request};
use redlock_core::runtime::Runtime;
use redlock_core::{ErrorKind, IntoResource, Redlock};

use super::client::name;
use super::world::World;
use super::{Experiment, LONGEST_TTL, NODE_TIMEOUT};
use crate::history::EventKind;

pub(super) fn final_check(experiment: &Experiment, World { simulation, network, .. }: &World) {
    let (process, client) = (simulation.process("final-check"), experiment.clients);
    let nodes = network.nodes_on(client, &process.runtime());
    let redlock = Redlock::builder(process.clone()).nodes(nodes.clone()).node_timeout(NODE_TIMEOUT);
    let redlock = redlock.build().expect("server labels are unique");
    let (recorder, resources, me) = (network.recorder().clone(), experiment.resources, process.clone());
    let quarantine = experiment.quarantine();
    simulation.block_on(&process, async move {
        // The quarantine of a server begins with the first look, which may be this one.
        if let Some(quarantine) = quarantine {
            let inspection = Request::Inspect(name(0).into_resource().expect("a valid name"));
            for node in &nodes {
                if let Begun::Connecting(look) = node.begin(&inspection) {
                    look.await;
                }
            }
            me.sleep(quarantine).await;
        }
        recorder.record(EventKind::FinalCheck { client });
        for resource in 0..resources {
            recorder.record(EventKind::Requested {
                client,
                resources: vec![resource],
                ttl: LONGEST_TTL,
                once: true,
                fenced: false,
            });
            let why = match redlock.lock(name(resource), LONGEST_TTL).try_now().await {
                Ok(Some(guard)) => {
                    let token = recorder.number_of(&guard.fingerprint());
                    let until = me.now() + guard.remaining();
                    let (resources, fence) = (vec![resource], guard.fencing_token());
                    recorder.record(EventKind::Granted { client, resources, token, until, fence });
                    recorder.record(recorder.releasing(client, token, false));
                    continue;
                }
                Ok(None) => ErrorKind::Contended,
                Err(error) => error.kind(),
            };
            recorder.record(EventKind::NotGranted { client, why: Some(why) });
        }
        recorder.record(EventKind::Closed { client });
    });
}
