----------------------------- MODULE Admission ------------------------------
\* Restart admission: servers lose their data, and two leases are never valid at once.
\*
\* A server that has lost its data grants locks that other clients still hold. Thus each node has a stamp: the identity
\* of the server, and the time since when it has lost nothing. A vote counts only if this time is at least as long as
\* the longest TTL.
\*
\* Clocks run evenly here; Lock.tla has their drift. Time is an integer, and events within a tick have any order. Only
\* ages and remaining times are stored. A reply is received when its request is carried out, or never. An earlier reply
\* leads to a lease that is valid for at least as long. A request may be carried out at any moment after it was sent.
\*
\* "Code:" names the file and the function or type of the library. scripts/spec checks that they exist.

EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Clients, Nodes,     \* sets of model values
    Attempts,           \* the number of attempts of each client
    Extensions,         \* the number of extensions of all leases together
    Ttl,                \* the longest TTL, which all clients state and use, in ticks
    Start,              \* what clients and nodes know at the beginning: "admitted" or "new clients"
    Broken,             \* "None", or the name of a rule that is broken
    \* Assumptions:
    Losses,             \* the number of losses of data
    LossKinds,          \* a subset of AllLosses
    AllowClockStep      \* TRUE if clocks of servers may be set forward, and nobody notices

AllLosses == {"restart empty", "restart older", "restart whole", "flush", "failback"}

Rules == {
    "None",
    "NoRule",                   \* every vote counts
    "NoWait",                   \* a node counts as soon as the client has looked
    "WaitTooShort",             \* the wait is one tick shorter than the longest TTL
    "StampWithoutIdentity",     \* a stamp is valid for any server that has it
    "RunIdAlone",               \* a stamp has the run ID of the server, but not its promotion
    "StaleTimeIsKept",          \* a stamp of an earlier server is renewed, and its time is kept
    "MissingStampIsFresh",      \* a node without a stamp counts at once
    "UncheckedCounts",          \* a connection counts before the look
    "FlushIsNotNotified",       \* clients do not learn of a flush
    "QuorumOfAdmittedNodes",    \* a quorum is a majority of the admitted nodes
    "ExtensionsCountAll"        \* extensions count every node
}

ASSUME
    /\ Broken \in Rules /\ Start \in {"admitted", "new clients"}
    /\ LossKinds \subseteq AllLosses /\ AllowClockStep \in BOOLEAN

VARIABLES
    client,     \* for each client: what it does
    request,    \* for each client and node: the acquire and the extension in flight
    link,       \* for each client and node: what the client knows about the server
    data,       \* for each node: the key of the resource, and the stamp
    copy,       \* for each node: an older copy of its data, or NoCopy
    identity,   \* for each node: the run ID of the server, and the number of its promotions
    losses,     \* the number of losses so far
    intact      \* for each node: the ticks since its last loss. Only an invariant reads it.

vars == <<client, request, link, data, copy, identity, losses, intact>>

-----------------------------------------------------------------------------
NoOwner == "none"
NoIdentity == <<0, 0>>
NoData == [owner |-> NoOwner, left |-> 0, stamp |-> NoIdentity, age |-> 0]
NoCopy == [NoData EXCEPT !.left = Ttl + 1]

\* A request is "none", "counts" or "uncounted". It counts if its node was admitted when it was sent, and has been
\* since.
NoRequests == [acquire |-> "none", extend |-> "none"]

Min(x, y) == IF x < y THEN x ELSE y
Less(x) == IF x > 0 THEN x - 1 ELSE 0

\* The time for which a server that may have lost locks does not count. The library adds an allowance for drift.
\* Code: redlock-wire/src/longest.rs wait
Wait == CASE Broken = "NoWait" -> 0
          [] Broken = "WaitTooShort" -> Ttl - 1
          [] OTHER -> Ttl

\* The stamp belongs to the server as it is. A stamp without an identity is a missing stamp.
\* Code: redlock-wire/src/scripts/admission.lua cause
IsCurrent(n) ==
    LET stamp == data[n].stamp IN
    CASE Broken = "StampWithoutIdentity" -> stamp # NoIdentity
      [] Broken = "RunIdAlone" -> stamp[1] = identity[n][1]
      [] OTHER -> stamp = identity[n]

\* A node counts for a client: the client has looked over the present connection, and the wait is over.
\* Code: redlock-wire/src/gate.rs is_admitted
\* Code: redlock-wire/src/gate/rule.rs quarantine
IsAdmitted(c, n) ==
    \/ Broken = "NoRule"
    \/ link[c][n] = "unchecked" /\ Broken = "UncheckedCounts"
    \/ link[c][n] = "unaware"
    \/ link[c][n] = "checked" /\ IsCurrent(n) /\ data[n].age >= Wait

\* Code: redlock-core/src/decide/tally.rs quorum
Quorum(c) ==
    LET nodes == IF Broken = "QuorumOfAdmittedNodes" THEN {n \in Nodes : IsAdmitted(c, n)} ELSE Nodes
    IN Cardinality(nodes) \div 2 + 1

\* phase: "idle", "acquiring", "held" or "extending". since: the ticks since the open round began. valid: the ticks for
\* which the client still relies on its lease. votes: the votes of the open round that count. counted: those of the
\* lease.
Idle(attempts) == [
    phase |-> "idle", attempts |-> attempts, extensions |-> 0, since |-> 0, valid |-> 0, votes |-> {}, counted |-> {}]

Init ==
    LET stamped == [NoData EXCEPT !.stamp = <<1, 0>>, !.age = Ttl]
    IN /\ client = [c \in Clients |-> Idle(0)]
       /\ request = [c \in Clients |-> [n \in Nodes |-> NoRequests]]
       /\ link = [c \in Clients |-> [n \in Nodes |-> IF Start = "admitted" THEN "checked" ELSE "unchecked"]]
       /\ data = [n \in Nodes |-> stamped]
       /\ copy = [n \in Nodes |-> NoCopy]
       /\ identity = [n \in Nodes |-> <<1, 0>>]
       /\ losses = 0
       /\ intact = [n \in Nodes |-> Ttl]

-----------------------------------------------------------------------------
\* Clients.

\* Code: redlock-wire/src/exchange.rs begin
Sent(c, n) == IF IsAdmitted(c, n) THEN "counts" ELSE "uncounted"

\* Code: redlock-core/src/round/acquire.rs start
Begin(c) ==
    /\ client[c].phase = "idle" /\ client[c].attempts < Attempts
    /\ client' = [client EXCEPT ![c] = [Idle(@.attempts + 1) EXCEPT !.phase = "acquiring"]]
    /\ request' = [request EXCEPT ![c] = [n \in Nodes |-> [acquire |-> Sent(c, n), extend |-> "none"]]]
    /\ UNCHANGED <<link, data, copy, identity, losses, intact>>

\* The present leases together have extensions left.
MayExtend == \A c, d \in Clients : client[c].extensions + (IF c = d THEN 0 ELSE client[d].extensions) < Extensions

\* Code: redlock-core/src/round/extend.rs begin
Extend(c) ==
    /\ client[c].phase = "held" /\ client[c].valid > 0 /\ MayExtend
    /\ client' = [client EXCEPT ![c].phase = "extending", ![c].extensions = @ + 1, ![c].since = 0]
    /\ request' = [request EXCEPT ![c] = [n \in Nodes |-> [request[c][n] EXCEPT !.extend = Sent(c, n)]]]
    /\ UNCHANGED <<link, data, copy, identity, losses, intact>>

\* The requests of a client that has won a round. An acquire that is still in flight has no vote any more. After an
\* extension, nodes that have denied it are refilled, which equals an acquire without a vote. If no extension follows,
\* the requests in flight could only prevent grants, and are dropped.
\* Code: redlock-core/src/round/extend.rs refill
AfterWin(is, requests, votes) ==
    [n \in Nodes |->
        LET isRefilled == is.phase = "extending" /\ requests[n].extend = "none" /\ n \notin votes
        IN IF MayExtend
           THEN [requests[n] EXCEPT !.acquire = IF isRefilled \/ @ # "none" THEN "uncounted" ELSE "none"]
           ELSE NoRequests]

\* The grant of a node. Its vote counts if the node was admitted when the request was sent, and still is. Otherwise it
\* is neither a grant nor a denial.
\* Code: redlock-core/src/node/admission.rs judge
\* Code: redlock-wire/src/exchange.rs finish
\* Code: redlock-core/src/decide/votes.rs decide
Grant(c, n, sent, requests) ==
    LET is == client[c]
        counts ==
            \/ sent = "counts" /\ IsAdmitted(c, n)
            \/ is.phase = "extending" /\ Broken = "ExtensionsCountAll"
        votes == IF counts THEN is.votes \cup {n} ELSE is.votes
        isInTime == is.since < Ttl /\ (is.phase = "extending" => is.valid > 0)
        isWon == counts /\ isInTime /\ Cardinality(votes) >= Quorum(c)
    IN IF isWon
       THEN /\ client' = [client EXCEPT ![c] = [is EXCEPT
                    !.phase = "held", !.valid = Ttl - is.since, !.since = 0, !.votes = {}, !.counted = votes]]
            /\ request' = [request EXCEPT ![c] = AfterWin(is, requests, votes)]
       ELSE /\ client' = [client EXCEPT ![c].votes = votes]
            /\ request' = [request EXCEPT ![c] = requests]

\* A client ends its attempt or its lease, or crashes. Its keys stay until they expire. Its requests are dropped: their
\* keys could only prevent grants.
End(c) ==
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = Idle(@.attempts)]
    /\ request' = [request EXCEPT ![c] = [n \in Nodes |-> NoRequests]]
    /\ UNCHANGED <<link, data, copy, identity, losses, intact>>

\* An extension ends without a quorum.
FailExtension(c) ==
    /\ client[c].phase = "extending"
    /\ client' = [client EXCEPT ![c].phase = "held", ![c].since = 0, ![c].votes = {}]
    /\ UNCHANGED <<request, link, data, copy, identity, losses, intact>>

\* The first request on every connection, and the first one after a notification, looks at the stamp. A stamp that does
\* not describe the server is renewed, and the wait begins.
\* Code: redlock-wire/src/handshake.rs handshake
\* Code: redlock-wire/src/admission/keeper.rs apply
\* Code: redlock-wire/src/scripts/admission.lua renewed
Look(c, n) ==
    /\ link[c][n] = "unchecked"
    /\ link' = [link EXCEPT ![c][n] = "checked"]
    /\ LET isFresh == Broken = "MissingStampIsFresh" /\ data[n].stamp = NoIdentity
           age == IF isFresh THEN Ttl ELSE IF Broken = "StaleTimeIsKept" THEN data[n].age ELSE 0
       IN data' = IF IsCurrent(n) THEN data ELSE [data EXCEPT ![n].stamp = identity[n], ![n].age = age]
    /\ UNCHANGED <<client, request, copy, identity, losses, intact>>

-----------------------------------------------------------------------------
\* Nodes.

Write(c, n) == data' = [data EXCEPT ![n].owner = c, ![n].left = Ttl]

\* A node sets the key, if there is none. If it has a key, the request has no effect.
\* Code: redlock-wire/src/scripts/acquire.lua SET
NodeAcquires(c, n) ==
    LET sent == request[c][n].acquire
        requests == [request[c] EXCEPT ![n].acquire = "none"]
    IN /\ sent # "none" /\ data[n].owner = NoOwner
       /\ Write(c, n)
       /\ IF client[c].phase = "acquiring"
          THEN Grant(c, n, sent, requests)
          ELSE client' = client /\ request' = [request EXCEPT ![c] = requests]
       /\ UNCHANGED <<link, copy, identity, losses, intact>>

\* A node restarts the TTL of a key that the client has, or denies the extension.
\* Code: redlock-wire/src/scripts/extend.lua PEXPIRE
NodeExtends(c, n) ==
    LET sent == request[c][n].extend
        requests == [request[c] EXCEPT ![n].extend = "none"]
    IN /\ sent # "none"
       /\ IF data[n].owner = c
          THEN /\ Write(c, n)
               /\ IF client[c].phase = "extending"
                  THEN Grant(c, n, sent, requests)
                  ELSE client' = client /\ request' = [request EXCEPT ![c] = requests]
          ELSE /\ UNCHANGED <<client, data>>
               /\ request' = [request EXCEPT ![c] =
                    IF client[c].phase = "held" THEN [requests EXCEPT ![n].acquire = "uncounted"] ELSE requests]
       /\ UNCHANGED <<link, copy, identity, losses, intact>>

-----------------------------------------------------------------------------
\* Losses of data.

\* An older copy of the data: a snapshot on disk, or a replica.
Copy(n) ==
    /\ losses < Losses /\ LossKinds \cap {"restart older", "failback"} # {}
    /\ copy' = [copy EXCEPT ![n] = data[n]]
    /\ UNCHANGED <<client, request, link, data, identity, losses, intact>>

Uncounted(requests) == [kind \in DOMAIN requests |-> IF requests[kind] = "none" THEN "none" ELSE "uncounted"]

\* What every loss has in common. All connections break, or their clients are notified before any later reply. The
\* present admissions end.
\* Code: redlock-wire/src/push.rs flushed
\* Code: redlock-wire/src/gate.rs lose
Lose(n, remaining, isNotified) ==
    /\ losses < Losses
    /\ losses' = losses + 1
    /\ data' = [data EXCEPT ![n] = remaining]
    /\ link' = IF isNotified
               THEN [c \in Clients |-> [link[c] EXCEPT ![n] = "unchecked"]]
               ELSE [c \in Clients |-> [link[c] EXCEPT ![n] = IF IsAdmitted(c, n) THEN "unaware" ELSE "unchecked"]]
    /\ request' = IF isNotified
                  THEN [c \in Clients |-> [request[c] EXCEPT ![n] = Uncounted(@)]]
                  ELSE request
    /\ intact' = [intact EXCEPT ![n] = 0]
    /\ UNCHANGED client

\* Copies are kept only as long as there are losses to come.
KeepCopies == copy' = IF losses + 1 = Losses THEN [n \in Nodes |-> NoCopy] ELSE copy

\* The server restarts without data, with an older copy, or with all data. A new server that replaces it is the same.
Restart(n) ==
    /\ \/ "restart empty" \in LossKinds /\ Lose(n, NoData, TRUE)
       \/ "restart older" \in LossKinds /\ copy[n] # NoCopy /\ Lose(n, copy[n], TRUE)
       \/ "restart whole" \in LossKinds /\ Lose(n, data[n], TRUE)
    /\ identity' = [identity EXCEPT ![n] = <<@[1] + 1, @[2]>>]
    /\ KeepCopies

\* The server keeps running, and loses all data.
Flush(n) ==
    /\ "flush" \in LossKinds
    /\ Lose(n, NoData, Broken # "FlushIsNotNotified")
    /\ KeepCopies
    /\ UNCHANGED identity

\* The server becomes a replica, takes over an older copy, and becomes the master again. It keeps its run ID.
Failback(n) ==
    /\ "failback" \in LossKinds /\ copy[n] # NoCopy
    /\ Lose(n, copy[n], TRUE)
    /\ identity' = [identity EXCEPT ![n] = <<@[1], @[2] + 1>>]
    /\ KeepCopies

\* A broken assumption: the clock of a server is set forward by the wait.
ClockStep(n) ==
    /\ AllowClockStep
    /\ data' = [data EXCEPT ![n].owner = NoOwner, ![n].left = 0,
                            ![n].age = IF data[n].stamp = NoIdentity THEN @ ELSE Ttl]
    /\ UNCHANGED <<client, request, link, copy, identity, losses, intact>>

-----------------------------------------------------------------------------
\* Time. Copies contain the absolute time of expiry, so their keys get older, too.
Older(d) == [d EXCEPT !.left = Less(@), !.owner = IF d.left <= 1 THEN NoOwner ELSE @,
                      !.age = IF d.stamp = NoIdentity THEN @ ELSE Min(@ + 1, Ttl)]

Tick ==
    /\ data' = [n \in Nodes |-> Older(data[n])]
    /\ copy' = [n \in Nodes |-> IF copy[n] = NoCopy THEN NoCopy ELSE Older(copy[n])]
    /\ client' = [c \in Clients |->
        LET is == client[c] IN
        [is EXCEPT !.since = IF is.phase \in {"acquiring", "extending"} THEN Min(@ + 1, Ttl) ELSE 0,
                   !.valid = Less(@),
                   !.counted = IF is.valid > 1 THEN @ ELSE {}]]
    /\ intact' = [n \in Nodes |-> Min(intact[n] + 1, Ttl)]
    /\ UNCHANGED <<request, link, identity, losses>>

Next ==
    \/ \E c \in Clients : Begin(c) \/ Extend(c) \/ FailExtension(c) \/ End(c)
    \/ \E c \in Clients, n \in Nodes : Look(c, n) \/ NodeAcquires(c, n) \/ NodeExtends(c, n)
    \/ \E n \in Nodes : Copy(n) \/ Restart(n) \/ Flush(n) \/ Failback(n) \/ ClockStep(n)
    \/ Tick

Spec == Init /\ [][Next]_vars

\* Clients are alike, and so are nodes.
Symmetry == Permutations(Clients) \cup Permutations(Nodes)

\* Nothing is explored once a client has neither a lease nor an attempt left: two leases are not possible any more.
IsRelevant == \A c \in Clients : client[c].phase # "idle" \/ client[c].attempts < Attempts

-----------------------------------------------------------------------------
\* Guarantees.

TypeOK ==
    /\ \A c \in Clients :
        /\ client[c].phase \in {"idle", "acquiring", "held", "extending"}
        /\ client[c].attempts \in 0..Attempts /\ client[c].extensions \in 0..Extensions
        /\ client[c].since \in 0..Ttl /\ client[c].valid \in 0..Ttl
        /\ client[c].votes \subseteq Nodes /\ client[c].counted \subseteq Nodes
    /\ \A c \in Clients, n \in Nodes :
        /\ link[c][n] \in {"unchecked", "checked", "unaware"}
        /\ {request[c][n].acquire, request[c][n].extend} \subseteq {"none", "counts", "uncounted"}
    /\ \A n \in Nodes : data[n].owner \in Clients \cup {NoOwner} /\ data[n].left \in 0..Ttl /\ data[n].age \in 0..Ttl
    /\ losses \in 0..Losses

\* Mutual exclusion: at most one client relies on a lease.
Exclusion == \A c, d \in Clients : client[c].valid > 0 /\ client[d].valid > 0 => c = d

\* A node has a vote only if its last loss is at least one longest TTL ago. Exclusion follows from this: suppose that
\* two leases are valid, and that a node granted both. Then it lost the first key before it granted the second lease, at
\* least one longest TTL before. Thus the first lease had ended.
LossesAreWaitedFor == \A c \in Clients, n \in Nodes : IsAdmitted(c, n) => intact[n] = Ttl

-----------------------------------------------------------------------------
\* Reachability. The negation of each must be violated.

NeverAcquired == \A c \in Clients : client[c].valid = 0

\* A holder has lost a key that counts for it.
NeverLost == \A c \in Clients : \A n \in client[c].counted : data[n].owner = c

\* A node grants a lock in quarantine, and its vote does not count.
NeverInQuarantine ==
    \A c \in Clients, n \in Nodes : ~(
        client[c].phase = "acquiring" /\ link[c][n] = "checked" /\ data[n].owner = c /\ n \notin client[c].votes)

\* A quarantine has ended, and the node counts for a lease again.
CountsAgain(c, n) == n \in client[c].counted /\ identity[n] # <<1, 0>> /\ IsAdmitted(c, n)
NeverCountedAgain == \A c \in Clients, n \in Nodes : ~CountsAgain(c, n)

\* Another client acquires the lock with the vote of such a node, after the first lease has ended.
NeverTakenOver ==
    \A c, d \in Clients : ~(
        /\ client[c].phase = "held" /\ client[c].valid = 0
        /\ client[d].valid > 0 /\ \E n \in Nodes : CountsAgain(d, n))

\* An extension succeeds without a node that has lost its data.
NeverExtended ==
    \A c \in Clients : ~(
        /\ client[c].phase = "held" /\ client[c].extensions > 0 /\ client[c].valid = Ttl
        /\ \E n \in Nodes \ client[c].counted : identity[n] # <<1, 0>>)
=============================================================================
