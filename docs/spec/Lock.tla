-------------------------------- MODULE Lock --------------------------------
\* Locks with a TTL over independent nodes, and the validity of leases.
\*
\* Time is an integer. A tick passes on all clocks at once, and events within a tick have any order. No absolute time is
\* stored, only ages and remaining times, so the state space is finite without a horizon.
\*
\* Only the rate of a node relative to the client whose key it has matters. Thus the clocks of clients define time, and
\* a key may expire early by up to MaxDrift ticks. It may also expire late, or never.
\*
\* The network is as bad as possible. A request that was sent may be carried out by each node at any later moment, any
\* number of times or never, even long after its attempt has ended. A reply may arrive late or never. A client may pause
\* at any moment, since time may pass before each of its steps, and it may crash.
\*
\* "Code:" names the file and the function or type of the library. scripts/spec checks that they exist.

EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Clients, Nodes,     \* sets of model values
    Attempts,           \* the number of attempts of each client
    Extensions,         \* the number of extensions of each lease
    Ttl,                \* in ticks
    Allowance,          \* the ticks of the TTL that no client relies on: the drift factor
    DeadNodes,          \* the number of nodes that never carry out anything
    Broken,             \* "None", or the name of a rule that is broken
    \* Assumptions:
    MaxDrift,           \* the ticks by which a clock of a node may be ahead after one TTL
    AllowClockStep,     \* TRUE if clocks of nodes may be set forward
    AllowDataLoss       \* TRUE if nodes may lose keys

Rules == {
    "None",
    "QuorumOfHalf",             \* a quorum is half of the nodes
    "ValidityFromTheReply",     \* the validity counts from the moment at which a quorum has granted
    "OneToken",                 \* all attempts of a client have one token
    "ReleaseComparesNothing",   \* a release deletes any key
    "ExtensionByMinority",      \* one node is enough for an extension
    "ExtensionRevives",         \* an extension does not check whether the lease has ended meanwhile
    "FailedExtensionExtends"    \* an extension that a quorum did not grant extends the lease
}

ASSUME
    /\ Broken \in Rules
    /\ Allowance < Ttl /\ MaxDrift < Ttl
    /\ DeadNodes \in 0..Cardinality(Nodes)
    /\ AllowClockStep \in BOOLEAN /\ AllowDataLoss \in BOOLEAN

VARIABLES
    client,     \* for each client: what it does
    key,        \* for each node: the key of the resource
    requests,   \* all requests that were ever sent, to all nodes
    replies     \* the grants that may still arrive at an open round: pairs of client and node

vars == <<client, key, requests, replies>>

-----------------------------------------------------------------------------
\* Decisions of the client, as pure functions. Each has one place in the code.

\* Code: redlock-core/src/decide/tally.rs quorum
Quorum == IF Broken = "QuorumOfHalf" THEN Cardinality(Nodes) \div 2 ELSE Cardinality(Nodes) \div 2 + 1

\* The ticks of validity that are left `since` ticks after the round began, before its first request.
\* Code: redlock-core/src/decide/validity.rs deadline
Validity(since) ==
    LET elapsed == IF Broken = "ValidityFromTheReply" THEN 0 ELSE since
    IN IF elapsed + Allowance < Ttl THEN Ttl - Allowance - elapsed ELSE 0

\* Code: redlock-core/src/client/attempts.rs token
Token(c, attempt) == <<c, IF Broken = "OneToken" THEN 1 ELSE attempt>>

NoOwner == <<>>
NoKey == [owner |-> NoOwner, age |-> 0]

\* The age from which on a key may expire. Later ages are equal to it.
MayExpire == Ttl - MaxDrift

Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y

-----------------------------------------------------------------------------
\* phase: "idle", "acquiring" or "held". A client is still "held" when its validity has ended, until it releases.
\* round: 0 acquires, the others extend. open: the round is not decided. since: the ticks since the round began.
\* valid: the ticks for which the client still relies on its lease. votes: the grants of the open round.
\* counted: the nodes whose grants set the end of the validity.
Idle(attempt) == [
    phase |-> "idle", attempt |-> attempt, round |-> 0, open |-> FALSE, since |-> 0,
    valid |-> 0, votes |-> {}, counted |-> {}]

Init ==
    /\ client = [c \in Clients |-> Idle(0)]
    /\ key = [n \in Nodes |-> NoKey]
    /\ requests = {}
    /\ replies = {}

Send(kind, c, attempt, round) ==
    requests' = requests \cup {[kind |-> kind, client |-> c, attempt |-> attempt, round |-> round]}

\* Replies to a round that is decided are ignored.
Forget(c) == replies' = {reply \in replies : reply[1] # c}

\* A client begins an attempt: it sends its acquire to all nodes.
\* Code: redlock-core/src/client/attempts.rs make
\* Code: redlock-core/src/round/acquire.rs start
Begin(c) ==
    /\ client[c].phase = "idle"
    /\ client[c].attempt < Attempts
    /\ LET attempt == client[c].attempt + 1 IN
        /\ client' = [client EXCEPT ![c] = [Idle(attempt) EXCEPT !.phase = "acquiring", !.open = TRUE]]
        /\ Send("acquire", c, attempt, 0)
    /\ UNCHANGED <<key, replies>>

\* A holder begins an extension on all nodes.
\* Code: redlock-core/src/round/extend.rs begin
BeginExtension(c) ==
    /\ client[c].phase = "held" /\ client[c].valid > 0
    /\ ~client[c].open
    /\ client[c].round < Extensions
    /\ LET round == client[c].round + 1 IN
        /\ client' = [client EXCEPT ![c].round = round, ![c].open = TRUE, ![c].since = 0]
        /\ Send("extend", c, client[c].attempt, round)
    /\ UNCHANGED <<key, replies>>

\* The client with the votes of its round, when a quorum has granted the acquire.
\* Code: redlock-core/src/round/acquire.rs win
Won(is, votes) ==
    [is EXCEPT !.phase = "held", !.open = FALSE, !.since = 0, !.votes = {},
               !.valid = Validity(is.since), !.counted = votes]

\* The same for an extension. A lease that has ended meanwhile does not become valid again.
\* Code: redlock-core/src/round/extend.rs apply
\* Code: redlock-core/src/decide/lease_status.rs grant
Extended(is, votes) ==
    LET closed == [is EXCEPT !.open = FALSE, !.since = 0, !.votes = {}]
        isAlive == is.valid > 0 \/ Broken = "ExtensionRevives"
    IN IF isAlive /\ Validity(is.since) > is.valid
       THEN [closed EXCEPT !.valid = Validity(is.since), !.counted = votes]
       ELSE closed

\* The grant of a node arrives. The round is decided by the first quorum.
\* Code: redlock-core/src/decide/votes.rs put
\* Code: redlock-core/src/decide/tally.rs decide
Receive(c, n) ==
    /\ <<c, n>> \in replies
    /\ LET is == client[c]
           votes == is.votes \cup {n}
           quorum == IF is.phase = "held" /\ Broken = "ExtensionByMinority" THEN 1 ELSE Quorum
           isDecided == Cardinality(votes) >= quorum
       IN /\ isDecided /\ is.phase = "acquiring" => Validity(is.since) > 0
          /\ client' = [client EXCEPT ![c] =
                CASE ~isDecided -> [is EXCEPT !.votes = votes]
                  [] isDecided /\ is.phase = "acquiring" -> Won(is, votes)
                  [] isDecided /\ is.phase = "held" -> Extended(is, votes)]
          /\ IF isDecided THEN Forget(c) ELSE replies' = replies \ {<<c, n>>}
    /\ UNCHANGED <<key, requests>>

\* An extension ends without a quorum, because of denials, errors or its time limit. The lease stays as it was.
\* Code: redlock-core/src/round/extend.rs apply
FailExtension(c) ==
    /\ client[c].phase = "held" /\ client[c].open
    /\ LET is == client[c]
           closed == [is EXCEPT !.open = FALSE, !.since = 0, !.votes = {}]
       IN client' = [client EXCEPT ![c] =
            IF Broken = "FailedExtensionExtends" /\ is.valid > 0
            THEN [closed EXCEPT !.valid = Max(is.valid, Validity(is.since))]
            ELSE closed]
    /\ Forget(c)
    /\ UNCHANGED <<key, requests>>

\* An attempt fails, for any reason, or a holder releases its lock. Both send a release to all nodes. Cleanup.tla is
\* about its repetition.
\* Code: redlock-core/src/round/acquire.rs lose
\* Code: redlock-core/src/round/release.rs start
End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle(client[c].attempt)]
    /\ Send("release", c, client[c].attempt, 0)
    /\ Forget(c)
    /\ UNCHANGED key

\* A client crashes. It releases nothing, and what it has sent may still be carried out.
Crash(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle(client[c].attempt)]
    /\ Forget(c)
    /\ UNCHANGED <<key, requests>>

-----------------------------------------------------------------------------
\* Operations of a node. Each is one command or one script.

TokenOf(request) == Token(request.client, request.attempt)

\* A grant, if the client still waits for it. Denials have no effect: a client may end a round at any moment anyway.
Grant(n, request) ==
    LET is == client[request.client]
        isAwaited == is.open /\ is.attempt = request.attempt /\ is.round = request.round /\ n \notin is.votes
    IN replies' = IF isAwaited THEN replies \cup {<<request.client, n>>} ELSE replies

\* A node sets the key if there is none. A key that has this token already is granted, and its expiry stays. A refill
\* (after an extension) is the same operation whose reply does not count, so it equals an acquire that arrives again.
\* Code: redlock-wire/src/request.rs SetGet
\* Code: redlock-wire/src/scripts/acquire.lua SET
\* Code: redlock-core/src/round/extend.rs refill
NodeAcquires(n, request) ==
    /\ request.kind = "acquire"
    /\ key[n].owner \in {NoOwner, TokenOf(request)}
    /\ key' = [key EXCEPT ![n] = IF @ = NoKey THEN [owner |-> TokenOf(request), age |-> 0] ELSE @]
    /\ Grant(n, request)

\* A node restarts the TTL of a key that has the token.
\* Code: redlock-wire/src/scripts/extend.lua PEXPIRE
NodeExtends(n, request) ==
    /\ request.kind = "extend"
    /\ key[n].owner = TokenOf(request)
    /\ key' = [key EXCEPT ![n] = [owner |-> TokenOf(request), age |-> 0]]
    /\ Grant(n, request)

\* A node deletes the key if it has the token.
\* Code: redlock-wire/src/scripts/release.lua DEL
NodeReleases(n, request) ==
    /\ request.kind = "release"
    /\ key[n] # NoKey
    /\ key[n].owner = TokenOf(request) \/ Broken = "ReleaseComparesNothing"
    /\ key' = [key EXCEPT ![n] = NoKey]
    /\ UNCHANGED replies

\* DeadNodes of the nodes carry out nothing. If there are any, nodes are not alike.
LiveNodes == CHOOSE live \in SUBSET Nodes : Cardinality(live) = Cardinality(Nodes) - DeadNodes

CarryOut ==
    \E n \in LiveNodes, request \in requests :
        /\ NodeAcquires(n, request) \/ NodeExtends(n, request) \/ NodeReleases(n, request)
        /\ UNCHANGED <<client, requests>>

\* A key may expire from MaxDrift ticks before the end of its TTL on.
Expire(n) ==
    /\ key[n] # NoKey /\ key[n].age = MayExpire
    /\ key' = [key EXCEPT ![n] = NoKey]
    /\ UNCHANGED <<client, requests, replies>>

-----------------------------------------------------------------------------
\* Time, and broken assumptions.

Tick ==
    /\ client' = [c \in Clients |->
        LET is == client[c]
            valid == IF is.valid > 0 THEN is.valid - 1 ELSE 0
        IN [is EXCEPT !.since = IF is.open THEN Min(is.since + 1, Ttl) ELSE 0,
                      !.valid = valid,
                      !.counted = IF valid > 0 THEN is.counted ELSE {}]]
    /\ key' = [n \in Nodes |-> IF key[n] = NoKey THEN NoKey ELSE [key[n] EXCEPT !.age = Min(@ + 1, MayExpire)]]
    /\ UNCHANGED <<requests, replies>>

\* The clock of a node is set forward by at least a TTL.
ClockStep(n) ==
    /\ AllowClockStep
    /\ key[n] # NoKey
    /\ key' = [key EXCEPT ![n].age = MayExpire]
    /\ UNCHANGED <<client, requests, replies>>

\* A node restarts without its data, is flushed, or evicts the key.
DataLoss(n) ==
    /\ AllowDataLoss
    /\ key[n] # NoKey
    /\ key' = [key EXCEPT ![n] = NoKey]
    /\ UNCHANGED <<client, requests, replies>>

Next ==
    \/ \E c \in Clients : Begin(c) \/ BeginExtension(c) \/ FailExtension(c) \/ End(c) \/ Crash(c)
    \/ \E c \in Clients, n \in Nodes : Receive(c, n)
    \/ CarryOut
    \/ Tick
    \/ \E n \in Nodes : Expire(n) \/ ClockStep(n) \/ DataLoss(n)

Spec == Init /\ [][Next]_vars

\* Clients are alike, and so are nodes unless some are dead.
Symmetry == Permutations(Clients) \cup Permutations(Nodes)
SymmetryOfClients == Permutations(Clients)

-----------------------------------------------------------------------------
\* Guarantees. docs/guarantees.md has the texts for users.

TypeOK ==
    /\ \A c \in Clients :
        /\ client[c].phase \in {"idle", "acquiring", "held"}
        /\ client[c].attempt \in 0..Attempts /\ client[c].round \in 0..Extensions
        /\ client[c].open \in BOOLEAN /\ client[c].since \in 0..Ttl /\ client[c].valid \in 0..Ttl
        /\ client[c].votes \subseteq Nodes /\ client[c].counted \subseteq Nodes
    /\ \A n \in Nodes : key[n].age \in 0..Ttl
    /\ replies \subseteq Clients \X Nodes

\* Mutual exclusion: at most one client relies on a lease.
Exclusion == \A c, d \in Clients : client[c].valid > 0 /\ client[d].valid > 0 => c = d

\* Conservative validity: while a client relies on a lease, every key that counts for it exists.
ValidityIsConservative ==
    \A c \in Clients : \A n \in client[c].counted : key[n].owner = Token(c, client[c].attempt)

\* A loss is final: a lease that has ended does not become valid again. This is a property of steps.
LossIsFinal ==
    [][\A c \in Clients :
        /\ client[c].phase = "held" /\ client[c].valid = 0
        /\ client'[c].attempt = client[c].attempt
        => client'[c].valid = 0]_vars

-----------------------------------------------------------------------------
\* Reachability. The negation of each must be violated, or the guarantees would hold for nothing.

NeverAcquired == \A c \in Clients : client[c].valid = 0

NeverExtended ==
    \A c \in Clients : ~(client[c].round > 0 /\ ~client[c].open /\ client[c].valid = Ttl - Allowance)

\* A lease ends, and the client still holds its guard.
NeverLost == \A c \in Clients : ~(client[c].phase = "held" /\ client[c].valid = 0)

\* A client acquires the lock after another one, which has neither released nor crashed, has lost it.
NeverTakenOver ==
    \A c, d \in Clients : ~(client[c].phase = "held" /\ client[c].valid = 0 /\ client[d].valid > 0)

\* A node deletes a key that cannot have expired. This is a property of steps.
NeverReleased == [][\A n \in Nodes : key[n] # NoKey /\ key[n].age < MayExpire => key'[n] # NoKey]_vars

\* A node carries out the acquire of an attempt that has ended.
NeverWrittenLate ==
    \A n \in Nodes, c \in Clients :
        ~(client[c].phase = "idle" /\ key[n].owner = Token(c, client[c].attempt) /\ key[n].age = 0)

\* All clients wait with a part of the votes each.
NeverSplit == \E c \in Clients : client[c].phase # "acquiring" \/ client[c].votes = {}
=============================================================================
