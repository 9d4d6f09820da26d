#!/bin/sh
# Restarts one machine after the other, without a failed lock request: see docs/operating.md.
export REDLOCK_NODES=... REDLOCK_LONGEST_TTL=30s # as in all programs
for machine in 10.0.0.1 10.0.0.2 10.0.0.3; do
  ssh "$machine" docker compose up --detach --force-recreate --wait
  until redlock health --all; do sleep 1; done # without --all, it succeeds as soon as a quorum is healthy
  sleep 5 # running programs count the server slightly later
done
