------------------------------ MODULE Fencing -------------------------------
\* Fencing tokens from counters on independent nodes, without any node that decides alone.
\*
\* Tokens need neither clocks nor the life of keys. Here a key may disappear from any node at any moment, and every
\* client may rely on its lease forever. Only the counters must not be lost.
\*
\* A request that was sent may be carried out by each node at any later moment, any number of times or never, even long
\* after its attempt has ended. A reply is received at once or never. A later arrival changes nothing on any node, and
\* an earlier grant demands more of the other attempts.
\*
\* Attempts that fail are part of this: an attempt may stop at any moment, and its keys and counters stay.
\*
\* "Code:" names the file and the function or type of the library. scripts/spec checks that they exist.

EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Attempts, Nodes,    \* sets of model values; an attempt has its own lock token
    MaxCounter,         \* the bound of counters
    Broken,             \* "None", or the name of a rule that is broken
    \* Assumption:
    AllowCounterLoss    \* TRUE if nodes may lose their counters

Rules == {
    "None",
    "QuorumOfHalf",             \* half of the nodes are a quorum, so a minority chooses the token
    "LeastCounter",               \* the counter of the first node to reply is the token
    "NoConfirmation",           \* a quorum of replies is enough, even if they differ
    "MinorityConfirms",         \* one node is enough to confirm the token
    "ConfirmIgnoresTheOwner",   \* a confirm checks the counter, but not the key
    "ConfirmIgnoresTheCounter", \* a confirm checks the key, but not the counter
    "ConfirmRaisesNothing",     \* a confirm does not raise the counter
    "ConfirmCreates",           \* a confirm sets the key if there is none
    "ExtensionIgnoresTheCounter", \* an extension checks the key, but not the counter
    "ReleaseDropsTheCounter"    \* a release deletes the counter with the key
}

ASSUME Broken \in Rules /\ AllowCounterLoss \in BOOLEAN /\ MaxCounter \in Nat \ {0}

VARIABLES
    key,        \* for each node: the attempt that has the key, or NoOwner
    counter,    \* for each node: its counter, 0 if it has none
    attempt     \* for each attempt: its state

vars == <<key, counter, attempt>>

NoOwner == "none"

\* Code: redlock-core/src/decide/tally.rs quorum
Quorum == IF Broken = "QuorumOfHalf" THEN Cardinality(Nodes) \div 2 ELSE Cardinality(Nodes) \div 2 + 1

Maximum(numbers) == CHOOSE x \in numbers : \A y \in numbers : y <= x

-----------------------------------------------------------------------------
\* phase: "none"; "acquiring"; "confirming": the token is chosen; "granted"; "extending": the round of an extension is
\* open. replies: the nodes that have replied in the open round. numbers: their counters, while acquiring. token: 0 if
\* not chosen. newest: the greatest token that was granted before the attempt began. isLate: the extension began after a
\* greater token was granted. hasSucceededLate: such an extension has succeeded.
None == [
    phase |-> "none", replies |-> {}, numbers |-> [n \in Nodes |-> 0], token |-> 0, newest |-> 0,
    isLate |-> FALSE, hasSucceededLate |-> FALSE]

Init ==
    /\ key = [n \in Nodes |-> NoOwner]
    /\ counter = [n \in Nodes |-> 0]
    /\ attempt = [a \in Attempts |-> None]

HasGrant(a) == attempt[a].phase \in {"granted", "extending"}

Newest == Maximum({0} \cup {attempt[a].token : a \in {b \in Attempts : HasGrant(b)}})

\* An attempt begins: it sends its acquire to all nodes.
\* Code: redlock-core/src/round/acquire.rs start
Begin(a) ==
    /\ attempt[a].phase = "none"
    /\ attempt' = [attempt EXCEPT ![a].phase = "acquiring", ![a].newest = Newest]
    /\ UNCHANGED <<key, counter>>

\* The attempt after the reply of a node to its acquire. The token is the greatest counter of the first quorum that
\* replies. It is granted if these nodes agree. Otherwise it is sent to all nodes, and a quorum must confirm it.
\* Code: redlock-core/src/round/acquire.rs number
\* Code: redlock-core/src/decide/fencing.rs number
Replied(is, n, number) ==
    LET replies == is.replies \cup {n}
        numbers == [is.numbers EXCEPT ![n] = number]
        values == {numbers[m] : m \in replies}
        token == IF Broken = "LeastCounter" THEN CHOOSE x \in values : \A y \in values : x <= y ELSE Maximum(values)
        isSettled == Cardinality(values) = 1 \/ Broken \in {"NoConfirmation", "LeastCounter"}
    IN IF Cardinality(replies) < Quorum
       THEN [is EXCEPT !.replies = replies, !.numbers = numbers]
       ELSE [is EXCEPT !.replies = {}, !.numbers = None.numbers, !.token = token,
                       !.phase = IF isSettled THEN "granted" ELSE "confirming"]

\* A node without the key sets it, and raises its counter by any amount: at least by one, and at least to a number that
\* depends on its clock. A node that has this key already replies with its counter, and writes nothing.
\* Code: redlock-wire/src/scripts/fence/acquire.lua set_counters
NodeAcquires(a, n) ==
    /\ attempt[a].phase # "none"
    /\ \E number \in 1..MaxCounter, isReceived \in BOOLEAN :
        /\ \/ key[n] = NoOwner /\ number > counter[n]
           \/ key[n] = a /\ number = counter[n]
        /\ key' = [key EXCEPT ![n] = a]
        /\ counter' = [counter EXCEPT ![n] = number]
        /\ isReceived => attempt[a].phase = "acquiring" /\ n \notin attempt[a].replies
        /\ attempt' = IF isReceived THEN [attempt EXCEPT ![a] = Replied(@, n, number)] ELSE attempt

\* The attempt after the confirmation of a node.
\* Code: redlock-core/src/round/acquire.rs heard_confirmation
\* Code: redlock-core/src/round/extend.rs apply
Confirmed(is, n) ==
    LET replies == is.replies \cup {n}
        quorum == IF Broken = "MinorityConfirms" THEN 1 ELSE Quorum
    IN IF Cardinality(replies) < quorum
       THEN [is EXCEPT !.replies = replies]
       ELSE [is EXCEPT !.replies = {}, !.phase = "granted", !.isLate = FALSE,
                       !.hasSucceededLate = @ \/ (is.phase = "extending" /\ is.isLate)]

\* A node that has the key, and no greater counter, sets its counter to the token, and counts. An extension is a
\* confirm.
\* Code: redlock-wire/src/scripts/fence/confirm.lua set_counters
\* Code: redlock-core/src/lease/mode.rs extend
NodeConfirms(a, n) ==
    LET is == attempt[a]
        isExtension == is.phase = "extending"
        isOwner == key[n] = a \/ Broken = "ConfirmIgnoresTheOwner" \/ (Broken = "ConfirmCreates" /\ key[n] = NoOwner)
        isBehind ==
            \/ counter[n] <= is.token
            \/ Broken = "ConfirmIgnoresTheCounter"
            \/ Broken = "ExtensionIgnoresTheCounter" /\ isExtension
    IN /\ is.token > 0
       /\ isOwner /\ isBehind
       /\ key' = IF Broken = "ConfirmCreates" THEN [key EXCEPT ![n] = a] ELSE key
       /\ counter' = IF Broken = "ConfirmRaisesNothing" THEN counter
                     ELSE [counter EXCEPT ![n] = Maximum({@, is.token})]
       /\ attempt' = IF is.phase \in {"confirming", "extending"}
                     THEN [attempt EXCEPT ![a] = Confirmed(@, n)]
                     ELSE attempt

\* A holder begins an extension.
\* Code: redlock-core/src/round/extend.rs start
Extend(a) ==
    /\ attempt[a].phase = "granted"
    /\ attempt' = [attempt EXCEPT ![a].phase = "extending", ![a].isLate = Newest > attempt[a].token]
    /\ UNCHANGED <<key, counter>>

\* An extension ends without a quorum.
\* Code: redlock-core/src/round/extend.rs apply
FailExtension(a) ==
    /\ attempt[a].phase = "extending"
    /\ attempt' = [attempt EXCEPT ![a].phase = "granted", ![a].replies = {}, ![a].isLate = FALSE]
    /\ UNCHANGED <<key, counter>>

\* A node without the key, and without a greater counter, gets both back from a holder. It does not count in this round.
\* Code: redlock-wire/src/scripts/fence/refill.lua set_absent_keys set_counters
NodeRefills(a, n) ==
    /\ HasGrant(a)
    /\ key[n] = NoOwner /\ counter[n] <= attempt[a].token
    /\ key' = [key EXCEPT ![n] = a]
    /\ counter' = [counter EXCEPT ![n] = attempt[a].token]
    /\ UNCHANGED attempt

\* A key expires, is released, or is lost.
\* Code: redlock-wire/src/scripts/release.lua DEL
RemoveKey(n) ==
    /\ key[n] # NoOwner
    /\ key' = [key EXCEPT ![n] = NoOwner]
    /\ counter' = IF Broken = "ReleaseDropsTheCounter" THEN [counter EXCEPT ![n] = 0] ELSE counter
    /\ UNCHANGED attempt

\* A broken assumption: a node loses its data, and its votes count at once.
LoseCounter(n) ==
    /\ AllowCounterLoss
    /\ key' = [key EXCEPT ![n] = NoOwner]
    /\ counter' = [counter EXCEPT ![n] = 0]
    /\ UNCHANGED attempt

Next ==
    \/ \E a \in Attempts : Begin(a) \/ Extend(a) \/ FailExtension(a)
    \/ \E a \in Attempts, n \in Nodes : NodeAcquires(a, n) \/ NodeConfirms(a, n) \/ NodeRefills(a, n)
    \/ \E n \in Nodes : RemoveKey(n) \/ LoseCounter(n)

Spec == Init /\ [][Next]_vars

\* Attempts are alike, and so are nodes.
Symmetry == Permutations(Attempts) \cup Permutations(Nodes)

-----------------------------------------------------------------------------
\* Guarantees. docs/internals/why-fencing-holds.md has the argument for them.

TypeOK ==
    /\ \A n \in Nodes : key[n] \in Attempts \cup {NoOwner} /\ counter[n] \in 0..MaxCounter
    /\ \A a \in Attempts :
        /\ attempt[a].phase \in {"none", "acquiring", "confirming", "granted", "extending"}
        /\ attempt[a].replies \subseteq Nodes /\ attempt[a].token \in 0..MaxCounter

\* No two attempts are granted the same token.
TokensAreUnique ==
    \A a, b \in Attempts : HasGrant(a) /\ HasGrant(b) /\ attempt[a].token = attempt[b].token => a = b

\* A token is greater than all tokens that were granted before its attempt began.
TokensIncrease == \A a \in Attempts : HasGrant(a) => attempt[a].token > attempt[a].newest

\* No extension succeeds that begins after a greater token was granted.
NoLateExtension == \A a \in Attempts : ~attempt[a].hasSucceededLate

\* Counters never decrease. This is a property of steps.
CountersNeverDecrease == [][\A n \in Nodes : counter'[n] >= counter[n]]_vars

-----------------------------------------------------------------------------
\* Reachability. The negation of each must be violated.

NeverGranted == \A a \in Attempts : ~HasGrant(a)

\* An attempt is granted after the grant of another one.
NeverGrantedTwice == \A a, b \in Attempts : ~(HasGrant(a) /\ HasGrant(b) /\ attempt[a].newest = attempt[b].token)

\* The counters of a quorum differ.
NeverConfirming == \A a \in Attempts : attempt[a].phase # "confirming"

\* One node has confirmed an extension.
NeverExtending == \A a \in Attempts : ~(attempt[a].phase = "extending" /\ attempt[a].replies # {})

\* A holder tries to extend, and a node that has its key has a greater counter.
NeverSuperseded ==
    \A a \in Attempts : ~(attempt[a].isLate /\ \E n \in Nodes : key[n] = a /\ counter[n] > attempt[a].token)

\* An extension that began in time is about to succeed, although a greater token was granted meanwhile. Thus
\* NoLateExtension cannot be stronger, and only the resource can reject the older holder.
NeverSucceedingBehind ==
    \A a \in Attempts : ~(
        /\ attempt[a].phase = "extending" /\ ~attempt[a].isLate
        /\ Newest > attempt[a].token
        /\ Cardinality(attempt[a].replies) = Quorum - 1
        /\ \E n \in Nodes \ attempt[a].replies : key[n] = a /\ counter[n] <= attempt[a].token)
=============================================================================
