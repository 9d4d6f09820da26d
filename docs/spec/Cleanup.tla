------------------------------ MODULE Cleanup -------------------------------
\* The end of the cleanup: when is it certain that an attempt that has ended leaves no key behind on a node?
\*
\* Each attempt has its own token, so only its own releases delete its key, and the cleanup on one node depends on
\* nothing else. This module has one attempt and one node. Lock.tla has the rest of the protocol.
\*
\* A connection delivers its requests in order, and may break at any moment. The node may carry out the requests of a
\* broken connection at any later moment, in any order, or never: it may have stalled with them in its buffers. A write
\* is an acquire or a refill. Its call begins on the present connection, and sends the request over this connection or
\* never.
\*
\* "Code:" names the file and the function or type of the library. scripts/spec checks that they exist.

EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Writes,             \* the number of writes: one acquire, the others are refills
    Breaks,             \* the number of connections that break
    Broken,             \* "None", or the name of a rule that is broken
    \* Assumption:
    LateAfterTimeout    \* TRUE if a node may carry out an older request of a broken connection after a second release

Rules == {
    "None",
    "OneReplyEndsCleanup",      \* the reply to any release ends the cleanup
    "ReleaseIsNotRepeated",     \* a release without a reply ends the cleanup
    "ReleaseOnlyWhereGranted",  \* only a node that has granted gets a release
    "TimeEndsCleanup",          \* the cleanup ends when the TTL is over
    "UnsentCountsAsSent",       \* a write whose call is open counts as sent before the release
    "StaleDeletionCounts",      \* a deletion settles the last unsettled write, even after another write
    "DeletionSettlesAll",       \* a deletion settles any number of writes
    "AnyConnectionIsOrdered",   \* a release counts as behind a write on another connection
    "LastConnectionIsKept",     \* only the connection of the last unsettled write is remembered
    "SecondReleaseAtOnce",      \* the second release does not wait for a node timeout
    "StateReadAtTheReply"       \* what is known of the writes is read at the reply, not before the release is sent
}

ASSUME Broken \in Rules /\ LateAfterTimeout \in BOOLEAN /\ Writes \in Nat \ {0} /\ Breaks \in Nat

VARIABLES
    key,        \* "none", "own" (of this attempt) or "other" (of another client)
    connection, \* the number of the present connection
    wire,       \* the requests on it, in order: the number of a write, or Release
    strays,     \* the writes on broken connections that the node may still carry out
    call,       \* for each write: "none", "unsent", "sent" or "ended"
    reply,      \* for each write and Release: "none", or the reply that is on its way: "yes" or "no"
    known,      \* what the client knows about the writes
    cleanup     \* the cleanup of the attempt

vars == <<key, connection, wire, strays, call, reply, known, cleanup>>

Release == 0
AnyConnection == Breaks + 1     \* the unsettled writes began on several connections

-----------------------------------------------------------------------------
\* What the client knows about the writes. open, unknown: the numbers of writes whose calls are open, or have ended
\* without a reply. Both are unsettled. settled: a write has settled. written: the node has reported the key.
\* connection: that of the unsettled writes.
\* Code: redlock-core/src/decide/pending_release.rs WriteState

Unsettled(state) == state.open + state.unknown

\* Code: redlock-core/src/decide/pending_release.rs begin
AfterBegin(state) ==
    LET isSame == Unsettled(state) = 0 \/ state.connection = connection \/ Broken = "LastConnectionIsKept"
    IN [state EXCEPT !.open = @ + 1, !.connection = IF isSame THEN connection ELSE AnyConnection]

\* Code: redlock-core/src/decide/pending_release.rs settle
AfterSettle(state, granted) == [state EXCEPT !.open = @ - 1, !.settled = TRUE, !.written = @ \/ granted]

\* Code: redlock-core/src/decide/pending_release.rs end_unknown
AfterUnknown(state, count) == [state EXCEPT !.open = @ - count, !.unknown = @ + count]

\* The reply to a release shows that no key can appear any more.
\* Code: redlock-core/src/decide/pending_release.rs after_reply
IsDone(state, deleted) ==
    LET unsettled == Unsettled(state)
        isAlone ==
            \/ unsettled = 0
            \/ unsettled = 1 /\ deleted /\ (~state.settled \/ Broken = "StaleDeletionCounts")
            \/ deleted /\ ~state.settled /\ Broken = "DeletionSettlesAll"
        isBehind ==
            /\ state.open = 0 \/ Broken = "UnsentCountsAsSent"
            /\ state.connection = connection \/ Broken = "AnyConnectionIsOrdered"
    IN isAlone \/ isBehind \/ cleanup.step = "second" \/ Broken = "OneReplyEndsCleanup"

-----------------------------------------------------------------------------
Init ==
    /\ key = "none"
    /\ connection = 0
    /\ wire = <<>>
    /\ strays = {}
    /\ call = [w \in 1..Writes |-> "none"]
    /\ reply = [w \in 0..Writes |-> "none"]
    /\ known = [open |-> 0, unknown |-> 0, settled |-> FALSE, written |-> FALSE, connection |-> AnyConnection]
    /\ cleanup = [step |-> "none", known |-> known]

\* The attempt has ended.
HasEnded == cleanup.step # "none"

\* The steps of the cleanup in which a release is under way.
IsReleasing == cleanup.step \in {"first", "second"}

\* What is known changes only until the attempt ends.
Learn(state) == known' = IF HasEnded /\ Broken # "StateReadAtTheReply" THEN known ELSE state

\* A call begins. The second write and later ones follow an extension.
\* Code: redlock-core/src/lease/record.rs begin_write
BeginCall(w) ==
    /\ ~HasEnded
    /\ call[w] = "none" /\ (w > 1 => call[w - 1] # "none")
    /\ call' = [call EXCEPT ![w] = "unsent"]
    /\ known' = AfterBegin(known)
    /\ UNCHANGED <<key, connection, wire, strays, reply, cleanup>>

\* The call sends its request. This may happen after the release was sent.
\* Code: redlock-wire/src/pipeline.rs
SendWrite(w) ==
    /\ call[w] = "unsent"
    /\ call' = [call EXCEPT ![w] = "sent"]
    /\ wire' = Append(wire, w)
    /\ UNCHANGED <<key, connection, strays, reply, known, cleanup>>

\* The node carries out a request, the next one of the present connection or any of a broken one.
\* Code: redlock-wire/src/scripts/acquire.lua SET
\* Code: redlock-wire/src/scripts/release.lua DEL
Perform(request, isAwaited) ==
    LET isGranted == IF request = Release THEN key = "own" ELSE key \in {"none", "own"}
    IN /\ key' = IF isGranted THEN (IF request = Release THEN "none" ELSE "own") ELSE key
       /\ reply' = IF isAwaited THEN [reply EXCEPT ![request] = IF isGranted THEN "yes" ELSE "no"] ELSE reply
       /\ UNCHANGED <<connection, call, known, cleanup>>

\* When the node carries out a second release, it has carried out the older requests of broken connections, or never
\* does.
CarryOut ==
    /\ wire # <<>>
    /\ wire' = Tail(wire)
    /\ Perform(Head(wire), Head(wire) = Release \/ call[Head(wire)] = "sent")
    /\ LET isSecond == Head(wire) = Release /\ cleanup.step = "second" /\ Broken # "SecondReleaseAtOnce"
       IN strays' = IF isSecond /\ ~LateAfterTimeout THEN {} ELSE strays

CarryOutStray(w) ==
    /\ w \in strays
    /\ strays' = strays \ {w}
    /\ Perform(w, FALSE)
    /\ UNCHANGED wire

\* The reply to a write arrives.
\* Code: redlock-core/src/lease/record.rs end_write
ReceiveWrite(w) ==
    /\ reply[w] # "none"
    /\ reply' = [reply EXCEPT ![w] = "none"]
    /\ call' = [call EXCEPT ![w] = "ended"]
    /\ Learn(AfterSettle(known, reply[w] = "yes"))
    /\ UNCHANGED <<key, connection, wire, strays, cleanup>>

\* A call ends without its reply: its time limit is over. If the request was not sent, it never will be.
\* Code: redlock-core/src/round/engine.rs poll_no_more
TimeOut(w) ==
    /\ call[w] \in {"unsent", "sent"}
    /\ call' = [call EXCEPT ![w] = "ended"]
    /\ reply' = [reply EXCEPT ![w] = "none"]
    /\ Learn(IF call[w] = "sent" THEN AfterUnknown(known, 1) ELSE AfterSettle(known, FALSE))
    /\ UNCHANGED <<key, connection, wire, strays, cleanup>>

Count(state) == Cardinality({w \in 1..Writes : call[w] = state})

\* The connection breaks. Its replies are lost, and its requests become strays. A release that is lost is repeated.
\* Code: redlock-wire/src/supervisor.rs
\* Code: redlock-core/src/decide/pending_release.rs without_reply
Break ==
    /\ connection < Breaks
    /\ connection' = connection + 1
    /\ strays' = strays \cup {w \in 1..Writes : \E i \in 1..Len(wire) : wire[i] = w}
    /\ wire' = IF IsReleasing /\ Broken # "ReleaseIsNotRepeated" THEN <<Release>> ELSE <<>>
    /\ reply' = [w \in 0..Writes |-> "none"]
    /\ call' = [w \in 1..Writes |-> IF call[w] \in {"unsent", "sent"} THEN "ended" ELSE call[w]]
    /\ LET lost == AfterUnknown(known, Count("sent"))
           unsent == Count("unsent")
       IN Learn([lost EXCEPT !.open = @ - unsent, !.settled = @ \/ unsent > 0])
    /\ cleanup' = IF IsReleasing /\ Broken = "ReleaseIsNotRepeated" THEN [cleanup EXCEPT !.step = "done"] ELSE cleanup
    /\ UNCHANGED key

-----------------------------------------------------------------------------
\* The attempt ends, for any reason: it was denied, it failed, its lock was released. The release is sent at once. What
\* is known about the writes is read before.
\* Code: redlock-core/src/round/release.rs new
\* Code: redlock-core/src/lease/record.rs take_release
End ==
    /\ ~HasEnded /\ call[1] # "none"
    /\ LET isSent == known.written \/ Broken # "ReleaseOnlyWhereGranted" IN
        /\ cleanup' = [step |-> IF isSent THEN "first" ELSE "done", known |-> known]
        /\ wire' = IF isSent THEN Append(wire, Release) ELSE wire
    /\ UNCHANGED <<key, connection, strays, call, reply, known>>

\* The reply to a release arrives.
\* Code: redlock-core/src/round/cleanup.rs heard
\* Code: redlock-core/src/decide/pending_release.rs next
ReceiveRelease ==
    /\ reply[Release] # "none"
    /\ reply' = [reply EXCEPT ![Release] = "none"]
    /\ LET state == IF Broken = "StateReadAtTheReply" THEN known ELSE cleanup.known
       IN cleanup' = [cleanup EXCEPT !.step = IF IsDone(state, reply[Release] = "yes") THEN "done" ELSE "waiting"]
    /\ UNCHANGED <<key, connection, wire, strays, call, known>>

\* The second release is sent a node timeout after the reply to the first one. By then, no call of a write is polled any
\* more, so nothing more is sent.
\* Code: redlock-core/src/round/cleanup.rs take
SecondRelease ==
    /\ cleanup.step = "waiting"
    /\ cleanup' = [cleanup EXCEPT !.step = "second"]
    /\ wire' = Append(wire, Release)
    /\ LET isPolled == Broken = "SecondReleaseAtOnce"
       IN call' = [w \in 1..Writes |-> IF call[w] = "unsent" /\ ~isPolled THEN "ended" ELSE call[w]]
    /\ UNCHANGED <<key, connection, strays, reply, known>>

\* In a broken variant, the cleanup ends after a time.
GiveUp ==
    /\ Broken = "TimeEndsCleanup"
    /\ HasEnded
    /\ cleanup' = [cleanup EXCEPT !.step = "done"]
    /\ UNCHANGED <<key, connection, wire, strays, call, reply, known>>

\* Another client sets or removes its key, or the key of this attempt expires.
OtherClient ==
    /\ key' = IF key = "none" THEN "other" ELSE "none"
    /\ UNCHANGED <<connection, wire, strays, call, reply, known, cleanup>>

Next ==
    \/ \E w \in 1..Writes :
        BeginCall(w) \/ SendWrite(w) \/ CarryOutStray(w) \/ ReceiveWrite(w) \/ TimeOut(w)
    \/ CarryOut \/ Break \/ End \/ ReceiveRelease \/ SecondRelease \/ GiveUp \/ OtherClient

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
    /\ key \in {"none", "own", "other"}
    /\ connection \in 0..Breaks
    /\ \A i \in 1..Len(wire) : wire[i] \in 0..Writes
    /\ strays \subseteq 1..Writes
    /\ \A w \in 1..Writes : call[w] \in {"none", "unsent", "sent", "ended"}
    /\ \A w \in 0..Writes : reply[w] \in {"none", "yes", "no"}
    /\ known.open \in 0..Writes /\ known.unknown \in 0..Writes /\ known.connection \in 0..AnyConnection
    /\ cleanup.step \in {"none", "first", "waiting", "second", "done"}

\* No leftover keys: when the cleanup has ended, the node has no key of the attempt, and can never get one.
NothingLeftBehind ==
    cleanup.step = "done" =>
        /\ key # "own"
        /\ strays = {}
        /\ \A i \in 1..Len(wire) : wire[i] = Release
        /\ \A w \in 1..Writes : call[w] # "unsent"

-----------------------------------------------------------------------------
\* Reachability. The negation of each must be violated.

NeverDone == cleanup.step # "done"

\* A key appears after the attempt has ended.
NeverWrittenLate == ~(HasEnded /\ key = "own" /\ cleanup.step = "waiting")

\* A second release deletes a key that the first one has not seen.
NeverDeletedBySecond == ~(cleanup.step = "second" /\ reply[Release] = "yes")

\* The cleanup ends after a single release that follows the write on its connection.
NeverDoneBehind == ~(cleanup.step = "done" /\ cleanup.known.unknown > 0 /\ connection = 0)
=============================================================================
